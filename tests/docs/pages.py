"""Reads the pages of the documentation: code blocks, inline code and commands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
_MARKER = re.compile(r"^\s*<!-- not run: (.+) -->\s*$")
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


class Block(NamedTuple):
    """A fenced code block.

    Attributes:
        page: The file.
        line: The number of its first line.
        language: The word after the fence.
        code: Its content.
        reason: Why it is not run (from `<!-- not run: REASON -->` above it), or "".
        output: The content of a `text` block directly below it, or None.
    """

    page: Path
    line: int
    language: str
    code: str
    reason: str
    output: str | None = None

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def read_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, each with the output that follows it."""
    blocks: list[Block] = []
    opened: list[str] | None = None
    indent, language, reason, start, gap = "", "", "", 0, True
    for number, line in enumerate(page.read_text(encoding="utf8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                indent, language, opened, start = *fence.groups(), [], number
            elif line.strip():
                marker = _MARKER.match(line)
                reason, gap = (marker.group(1) if marker else ""), True
            continue
        if not fence:
            opened.append(line.removeprefix(indent))
            continue
        code = "\n".join(opened) + "\n"
        if language == "text" and blocks and not gap:
            blocks[-1] = blocks[-1]._replace(output=code)
        blocks.append(Block(page, start, language, code, reason))
        opened, reason, gap = None, "", False
    return blocks


def blocks_in(language: str) -> list[Block]:
    """Return the blocks of all pages in one language."""
    return [block for page in PAGES for block in read_blocks(page) if block.language == language]


def read_inline_code(page: Path) -> list[str]:
    """Return the inline code of a page, with line breaks as spaces."""
    text = re.sub(r"^\s*```.*?^\s*```", "", page.read_text("utf8"), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(code.split()) for code in _INLINE.findall(text)]


def read_commands(code: str) -> Iterator[list[str]]:
    """Yield the words of each command in a piece of shell code."""
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"&&|\|\||;", line):
            words = shlex.split(part, comments=True)
            if words:
                yield [word for word in words if word != "..."]
