"""PubTator: title, abstract and mentions of an article, with an empty line after each article.

    8701013|t|Famotidine-associated delirium.
    8701013|a|Famotidine is a histamine H2-receptor antagonist.
    8701013<tab>0<tab>10<tab>Famotidine<tab>Chemical<tab>D015738
    8701013<tab>CID<tab>D015738<tab>D003693            relations: skipped

The text is the title, a line break and the abstract, to which the offsets refer.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ...types import Mention
from ...util.lines import read_lines
from .records import Document, check_ids, check_mention, check_surface, format_error

TITLE = re.compile(r"([^|\t]+)\|t\|(.*)", re.DOTALL)
_ABSTRACT = re.compile(r"([^|\t]+)\|a\|(.*)", re.DOTALL)


def read_pubtator(path: Path) -> Iterator[Document]:
    """Yield the articles of a file."""
    return check_ids(_articles(path), path)


def _articles(path: Path) -> Iterator[Document]:
    lines = read_lines(path)
    for number, line in lines:
        if not line.strip():
            continue
        title = TITLE.fullmatch(line)
        if title is None:
            raise format_error(path, number, "an article begins with its id, '|t|' and its title")
        below, line = next(lines, (number, ""))
        abstract = _ABSTRACT.fullmatch(line)
        if abstract is None or abstract[1] != title[1]:
            raise format_error(path, below, "the id, '|a|' and the abstract follow the title")
        text = f"{title[2]}\n{abstract[2]}"
        mentions = list(_mentions(lines, title[1], text, path))
        yield Document(title[1], text, mentions, number)


def _mentions(
    lines: Iterator[tuple[int, str]], name: str, text: str, path: Path
) -> Iterator[Mention]:
    """Yield the mentions up to the next empty line, which is consumed."""
    for number, line in lines:
        if not line.strip():
            return
        columns = line.split("\t")
        if columns[0] == name and len(columns) > 3 and columns[1][:1].isalpha():
            continue  # a relation: its type is where a mention has its start
        numbers = [column for column in columns[1:3] if re.fullmatch("[0-9]{1,15}", column)]
        if columns[0] != name or len(columns) < 5 or len(numbers) != 2:
            rule = "a mention is the article's id, start, end, text and label, separated by tabs"
            raise format_error(path, number, rule)
        mention = Mention(int(numbers[0]), int(numbers[1]), columns[4].strip())
        check_mention(mention, text, path=path, line=number)
        check_surface(text[mention.start : mention.end], columns[3], path=path, line=number)
        yield mention
