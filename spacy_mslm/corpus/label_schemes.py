"""Tag sequences of IOB1, IOB2 and BIOES (BILOU) files, normalised to mentions in one place.

The same sentence, with two adjacent mentions of label D and one of label C:

    token    breast  cancer  ataxia  and  in  heparin
    IOB1     I-D     I-D     B-D     O    O   I-C
    IOB2     B-D     I-D     B-D     O    O   B-C
    BIOES    B-D     E-D     S-D     O    O   S-C       (BILOU: L for E, U for S)

The scheme is a property of a file and is found over all of it:

1. any E-, S-, L- or U- tag: BIOES;
2. otherwise, no I- opens a mention (follows O, the sentence's start or another label): IOB2;
3. otherwise, every B- follows a mention of its own label: IOB1;
4. otherwise the file is neither, most often IOB2 with stray I- tags, and is refused.

An IOB2 file with stray I- tags passes as IOB1 only if each of its B- tags parts two mentions of
one label; the mentions are the same ones in both readings then. Nothing is repaired: a tag that is
illegal in the scheme is refused with its line.
"""

from collections.abc import Iterable, Sequence

from ..errors import Errors

# Token start, token end (exclusive), label.
Mention = tuple[int, int, str]

SCHEMES = ("auto", "iob1", "iob2", "bioes")
# BILOU differs from BIOES by its letters only.
_PREFIXES = {"B": "B", "I": "I", "E": "E", "L": "E", "S": "S", "U": "S"}
_RULES = {
    "iob1": "B- only parts two adjacent mentions of one label, and there are no E-, S-, L- or U-",
    "iob2": "I- only follows B- or I- of the same label, and there are no E-, S-, L- or U-",
    "bioes": "B- is followed by I- or E-, and I- and E- follow B- or I-, with the same label",
}


def split_tag(tag: str, source: str, line: int) -> tuple[str, str]:
    """A tag's prefix, one of O, B, I, E and S, and its label ("" for O)."""
    if tag == "O":
        return "O", ""
    letter, _, label = tag.partition("-")
    if letter not in _PREFIXES:
        prefixes = ", ".join(_PREFIXES)
        raise ValueError(
            f"{source}, line {line}: the last column is no entity tag. A tag is 'O', or one of "
            f"{prefixes}, a hyphen and a label, such as 'B-Disease'. Correct the line, or "
            "remove it."
        )
    if not label.strip():
        raise ValueError(
            f"{source}, line {line}: the tag has an empty label. Give every mention a label, "
            "such as 'B-Disease'; for untyped mentions use the same one everywhere."
        )
    return _PREFIXES[letter], label


def check_scheme(scheme: str) -> None:
    """Refuse a scheme name that is not known."""
    if scheme not in SCHEMES:
        expected = ", ".join(SCHEMES)
        raise ValueError(Errors.M101.format(what="label scheme", got=scheme, expected=expected))


def detect_scheme(sentences: Iterable[tuple[int, Sequence[str]]], source: str = "tags") -> str:
    """The scheme of a file, by the rule above.

    sentences: The line of the first tag, and the tags (one a line), of every sentence.
    source: The file's name, for the messages.
    """
    opening_i: list[int] = []
    plain_b = 0
    for first_line, tags in sentences:
        before = ""
        for line, tag in enumerate(tags, start=first_line):
            # Most tags are O: do not pay for parsing them.
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
        f"{source}, line {opening_i[0]}: an I- tag opens a mention, as only IOB1 has it, "
        f"but the B- tag of line {plain_b} does not part two mentions of one label, as "
        f"only IOB2 has it. I- tags that open a mention: {len(opening_i)} in the file. In "
        "IOB2 change these to B-."
    )


def decode_tags(
    tags: Sequence[str], scheme: str, source: str = "tags", first_line: int = 1
) -> list[Mention]:
    """The mentions of one sentence, whose scheme is iob1, iob2 or bioes.

    A mention starts at every B- and S-, and at an I- that follows no mention of its label, which
    is legal in IOB1 only. One loop serves all schemes; only what is illegal differs.
    """
    mentions: list[Mention] = []
    start, before, previous = 0, "", "O"
    # The O behind the last tag closes a mention at the sentence's end.
    for i, tag in enumerate([*tags, "O"]):
        if tag == previous == "O":
            continue
        # An unfinished BIOES mention at the end is the last tag's fault, not the blank line's.
        line = first_line + min(i, len(tags) - 1)
        prefix, label = split_tag(tag, source, line)
        joins = prefix in ("I", "E") and previous in ("B", "I") and label == before
        if _illegal(scheme, previous, prefix, joins, label == before):
            raise ValueError(
                f"{source}, line {line}: this tag is not legal here in {scheme.upper()}: "
                f"{_RULES[scheme]}. Correct the tag, or name the scheme of the file if it "
                "is another one."
            )
        if not joins:
            if before:
                mentions.append((start, i, before))
            start = i
        before, previous = label, prefix
    return mentions


def _illegal(scheme: str, previous: str, prefix: str, joins: bool, same_label: bool) -> bool:
    """Whether a tag may not stand after the previous one. joins: it continues a mention."""
    if scheme == "bioes":
        return (previous in ("B", "I") or prefix in ("I", "E")) and not joins
    if prefix in ("E", "S"):
        return True
    if scheme == "iob2":
        return prefix == "I" and not joins
    return prefix == "B" and not same_label
