"""Detection and decoding of the tag schemes IOB1, IOB2 and BIOES (BILOU).

The same sentence, with two adjacent mentions of label D and one of label C:

    token    breast  cancer  ataxia  and  in  heparin
    IOB1     I-D     I-D     B-D     O    O   I-C
    IOB2     B-D     I-D     B-D     O    O   B-C
    BIOES    B-D     E-D     S-D     O    O   S-C       (BILOU: L for E, U for S)

The scheme is a property of a whole file, and is detected from all of its tags:

1. any E-, S-, L- or U- tag: BIOES;
2. otherwise, no I- opens a mention (follows O, the sentence's start or another label): IOB2;
3. otherwise, every B- follows a mention of its own label: IOB1;
4. otherwise the file is neither, most often IOB2 with stray I- tags, which is an error.

An IOB2 file with stray I- tags passes as IOB1 only if each of its B- tags separates two mentions of
one label. Both readings give the same mentions then. Nothing is repaired: a tag that is not legal
in the scheme is an error that names its line.
"""

from collections.abc import Iterable, Sequence

from ..errors import Errors
from ..types import Mention

SCHEMES = ("auto", "iob1", "iob2", "bioes")
# BILOU differs from BIOES in its letters only.
_PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
_RULES = {
    "iob1": "B- only separates adjacent mentions of one label, and E-, S-, L- and U- do not occur",
    "iob2": "I- only follows B- or I- of the same label, and E-, S-, L- and U- do not occur",
    "bioes": "B- is followed by I- or E-, and I- and E- follow B- or I-, with the same label",
}


def split_tag(tag: str, source: str, line: int) -> tuple[str, str]:
    """Split a tag into its prefix, one of O, B, I, E and S, and its label ("" for O)."""
    if tag == "O":
        return "O", ""
    letter, _, label = tag.partition("-")
    if letter not in _PREFIXES:
        prefixes = ", ".join(_PREFIXES)
        raise ValueError(
            f"{source}, line {line}: this is not an entity tag. A tag is 'O', or "
            f"one of {prefixes}, a hyphen and a label, such as 'B-Disease'. Correct the line, "
            "or remove it."
        )
    if not label.strip():
        raise ValueError(
            f"{source}, line {line}: the tag has an empty label. Give every mention a label, "
            "such as 'B-Disease'; use one label for all mentions if they have no types."
        )
    return _PREFIXES[letter], label


def check_scheme(scheme: str) -> None:
    """Raise a ValueError if a scheme name is unknown."""
    if scheme not in SCHEMES:
        expected = ", ".join(SCHEMES)
        raise ValueError(Errors.M101.format(what="label scheme", got=scheme, expected=expected))


def detect_scheme(
    sentences: Iterable[tuple[int, Sequence[str]]], source: str = "tags", step: int = 1
) -> str:
    """Return the scheme of a file, by the rules above: iob1, iob2 or bioes.

    sentences: For each sentence, the line of its first tag, and its tags.
    source: The file's name, for error messages.
    step: Number of lines from one tag to the next: 0 if all tags of a sentence are on one line.
    """
    opening_i: list[int] = []
    plain_b = 0
    for first_line, tags in sentences:
        before = ""
        for i, tag in enumerate(tags):
            line = first_line + i * step
            # Most tags are O, and need no parsing.
            prefix, label = ("O", "") if tag == "O" else split_tag(tag, source, line)
            if prefix in ("E", "S"):
                return "bioes"
            if prefix == "I" and label != before:
                opening_i.append(line)
            elif prefix == "B" and label != before:
                plain_b = plain_b or line
            before = label
    if not opening_i:
        return "iob2"
    if not plain_b:
        return "iob1"
    raise ValueError(
        f"{source}, line {opening_i[0]}: this I- tag begins a mention, which only IOB1 allows, "
        f"but the B- tag on line {plain_b} does not separate two mentions of one label, which "
        f"only IOB2 allows. I- tags that begin a mention: {len(opening_i)} in the file. If it "
        "is IOB2, change these to B-."
    )


def decode_tags(
    tags: Sequence[str], scheme: str, source: str = "tags", first_line: int = 1, step: int = 1
) -> list[Mention]:
    """Return the mentions of one sentence.

    A mention starts at every B- and S-, and at an I- that does not follow a mention of its label,
    which is legal in IOB1 only. The schemes differ only in which tags are illegal.

    scheme: iob1, iob2 or bioes.
    source: The file's name, for error messages.
    first_line: The line of the first tag, for error messages.
    step: Number of lines from one tag to the next.
    """
    mentions: list[Mention] = []
    start, before, previous = 0, "", "O"
    # An O after the last tag closes a mention at the end of the sentence.
    for i, tag in enumerate([*tags, "O"]):
        if tag == previous == "O":
            continue
        # The error of an unfinished BIOES mention at the end is on the line of the last tag.
        line = first_line + step * min(i, len(tags) - 1)
        prefix, label = split_tag(tag, source, line)
        joins = prefix in ("I", "E") and previous in ("B", "I") and label == before
        if _illegal(scheme, previous, prefix, joins, label == before):
            raise ValueError(
                f"{source}, line {line}: this tag is not legal here in {scheme.upper()}: "
                f"{_RULES[scheme]}. Correct the tag, or give the file's scheme (--scheme)."
            )
        if not joins:
            if before:
                mentions.append(Mention(start, i, before))
            start = i
        before, previous = label, prefix
    return mentions


def _illegal(scheme: str, previous: str, prefix: str, joins: bool, same_label: bool) -> bool:
    """Return whether a tag is illegal after the previous one.

    joins: It continues a mention.
    """
    if scheme == "bioes":
        return (previous in ("B", "I") or prefix in ("I", "E")) and not joins
    if prefix in ("E", "S"):
        return True
    if scheme == "iob2":
        return prefix == "I" and not joins
    return prefix == "B" and not same_label
