"""PubTator: title, abstract and mentions of an article, and an empty line after each.

    8701013|t|Famotidine-associated delirium.
    8701013|a|Famotidine is a histamine H2-receptor antagonist.
    8701013<tab>0<tab>10<tab>Famotidine<tab>Chemical<tab>D015738
    8701013<tab>CID<tab>D015738<tab>D003693            relations: skipped

The text is title, line break, abstract, which is how the offsets count it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ...errors import Errors
from ...util.lines import read_lines
from ..label_schemes import Mention
from .records import Document, check_ids, check_mention, check_surface

TITLE = re.compile(r"([^|\t]+)\|t\|(.*)", re.DOTALL)
_ABSTRACT = re.compile(r"([^|\t]+)\|a\|(.*)", re.DOTALL)
_RULES = {
    "title": "an article begins with its id, '|t|' and its title",
    "abstract": "the id, '|a|' and the abstract follow the title",
    "mention": "a mention is the article's id, start, end, text and label, with tabs between them",
}


def read_pubtator(path: Path) -> Iterator[Document]:
    """The articles of a file."""
    return check_ids(_articles(path), path)


def _articles(path: Path) -> Iterator[Document]:
    lines = read_lines(path)
    for number, line in lines:
        if not line.strip():
            continue
        title = TITLE.fullmatch(line)
        if title is None:
            raise ValueError(Errors.M163.format(path=path, line=number, rule=_RULES["title"]))
        below, line = next(lines, (number, ""))
        abstract = _ABSTRACT.fullmatch(line)
        if abstract is None or abstract[1] != title[1]:
            raise ValueError(Errors.M163.format(path=path, line=below, rule=_RULES["abstract"]))
        text = f"{title[2]}\n{abstract[2]}"
        mentions = list(_mentions(lines, title[1], text, path))
        yield Document(title[1], text, mentions, number)


def _mentions(
    lines: Iterator[tuple[int, str]], name: str, text: str, path: Path
) -> Iterator[Mention]:
    """The mentions up to the next empty line, which is consumed."""
    for number, line in lines:
        if not line.strip():
            return
        columns = line.split("\t")
        if columns[0] == name and len(columns) > 3 and columns[1][:1].isalpha():
            continue  # a relation: its type is where a mention has its start
        numbers = [column for column in columns[1:3] if re.fullmatch("[0-9]{1,15}", column)]
        if columns[0] != name or len(columns) < 5 or len(numbers) != 2:
            raise ValueError(Errors.M163.format(path=path, line=number, rule=_RULES["mention"]))
        mention = int(numbers[0]), int(numbers[1]), columns[4].strip()
        check_mention(mention, text, path=path, line=number)
        check_surface(text[mention[0] : mention[1]], columns[3], path=path, line=number)
        yield mention
