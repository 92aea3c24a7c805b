"""The site that `mkdocs build` has written: pages load nothing from other hosts."""

import re

import pytest

from .pages import ROOT

SITE = ROOT / "build" / "site"
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon|modulepreload))[^>]*"""
    r"""\bhref=["']?(?:https?:)?//"""
)


@pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="needs the site: mkdocs build --strict"
)
def test_pages_load_nothing_from_other_hosts() -> None:
    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 25
    loading = [p for p in pages if LOADED.search(p.read_text(encoding="utf8"))]
    assert loading == []
    css = [
        p for p in SITE.rglob("*.css") if re.search(r"url\(\s*['\"]?https?:", p.read_text("utf8"))
    ]
    assert css == []
