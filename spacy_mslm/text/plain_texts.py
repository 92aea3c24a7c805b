"""Reading of unannotated text: `.jsonl` and plain text files -> names and texts."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors
from ..util.lines import LONE_SURROGATE, REPLACEMENT, read_json_lines, read_lines


class TextFiles(NamedTuple):
    """Files by kind: plain text, and documents with entities (`.spacy` files, folders of them)."""

    plain: list[Path]
    annotated: list[Path]

    def __bool__(self) -> bool:
        return bool(self.plain or self.annotated)


def as_paths(paths: str | Sequence[str] | None) -> list[Path]:
    """Convert the paths of a config, one, several or none, to a list. Raises a ValueError if one
    does not exist."""
    found = [Path(path) for path in ([paths] if isinstance(paths, str) else paths or ())]
    for path in found:
        if not path.exists():
            raise ValueError(Errors.M106.format(path=path))
    return found


def text_files(paths: str | Sequence[str] | None) -> TextFiles:
    """Sort the paths of a config by kind. Raises a ValueError if one does not exist."""
    found = as_paths(paths)
    annotated = [path for path in found if path.is_dir() or path.suffix == ".spacy"]
    return TextFiles([path for path in found if path not in annotated], annotated)


def read_texts(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield names (file and line) and texts: the `text` of each record of a `.jsonl` file, and
    each line of other files. Blank texts are skipped; files may be compressed (`.gz`)."""
    for path in paths:
        is_json = path.name.removesuffix(".gz").endswith(".jsonl")
        for number, text in _json_texts(path) if is_json else read_lines(path):
            if text.strip():
                yield f"{path.name}:{number}", text.strip()


def _json_texts(path: Path) -> Iterator[tuple[int, str]]:
    for number, record in read_json_lines(path):
        text = record.get("text") if record else None
        if not isinstance(text, str):
            raise ValueError(Errors.M153.format(path=path, line=number))
        yield number, LONE_SURROGATE.sub(REPLACEMENT, text)


def letters(text: str) -> str:
    """Reduce a sentence to its letters and digits in lower case, which are the same however it is
    tokenised: two sentences with the same letters count as one."""
    return "".join(c for c in text.lower() if c.isalnum())
