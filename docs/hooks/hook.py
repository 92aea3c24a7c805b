"""MkDocs hook: adds the reference pages that are generated from the code."""

import api_page
import cli_page
import config_page
import registry_page
from entry_points import ROOT
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PAGES = {
    "reference/api.md": api_page.render,
    "reference/cli.md": cli_page.render,
    "reference/config.md": config_page.render,
    "reference/registry.md": registry_page.render,
}

# Pictures of the benchmarks, shown where their figures are.
PICTURES = ("speed.png", "scale.png")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages and the pictures of the benchmarks to the files of the site."""
    for path, render in PAGES.items():
        files.append(File.generated(config, path, content=render()))
    for name in PICTURES:
        path = str(ROOT / "benchmarks" / "results" / name)
        files.append(File.generated(config, f"results/{name}", abs_src_path=path))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Remove the link to project.yml, which is not a page, from the page that weasel generated."""
    if page.file.src_uri == "reference/project.md":
        return markdown.replace("[`project.yml`](project.yml)", "`project.yml`")
    return markdown
