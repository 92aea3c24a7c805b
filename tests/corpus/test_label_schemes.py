"""Tags of every scheme decode to the same mentions; illegal tags are errors that name the line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.corpus.label_schemes import SCHEMES, decode_tags, detect_scheme


def encode(length, mentions, scheme):
    """Return the tags of a sentence: the inverse of decode_tags."""
    tags = ["O"] * length
    last = (0, 0, "")
    for mention in mentions:
        start, end, label = mention
        parted = last[1:] == (start, label)
        for i in range(start, end):
            first, final = i == start, i == end - 1
            if scheme in ("bioes", "bilou"):
                single, stop = ("S", "E") if scheme == "bioes" else ("U", "L")
                prefix = single if first and final else "B" if first else stop if final else "I"
            else:
                prefix = "B" if first and (scheme == "iob2" or parted) else "I"
            tags[i] = f"{prefix}-{label}"
        last = mention
    return tags


@st.composite
def sentences(draw):
    """A length and non-overlapping mentions, adjacent ones of one label among them."""
    position = 0
    mentions = []
    for gap, size, label in draw(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["A", "B-cell", "I"])),
            max_size=6,
        )
    ):
        start = position + gap
        position = start + size
        mentions.append((start, position, label))
    return position + draw(st.integers(0, 2)) or 1, mentions


@pytest.mark.parametrize("scheme", ["iob1", "iob2", "bioes", "bilou"])
@given(corpus=st.lists(sentences(), max_size=4))
def test_every_scheme_decodes_to_the_same_mentions(scheme, corpus):
    tagged = [encode(length, mentions, scheme) for length, mentions in corpus]
    detected = detect_scheme((1, tags) for tags in tagged)
    named = "bioes" if scheme == "bilou" else scheme
    for (_, mentions), tags in zip(corpus, tagged, strict=True):
        assert decode_tags(tags, named) == mentions
        assert decode_tags(tags, detected) == mentions


@given(tags=st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B"]), max_size=7))
def test_what_is_not_refused_has_exactly_one_encoding(tags):
    for scheme in ("iob1", "iob2", "bioes"):
        try:
            mentions = decode_tags(tags, scheme)
        except ValueError:
            continue
        assert encode(len(tags), mentions, scheme) == tags


def test_adjacent_mentions_are_kept_apart():
    assert decode_tags(["B-A", "I-A", "B-A"], "iob2") == [(0, 2, "A"), (2, 3, "A")]
    assert decode_tags(["I-A", "I-A", "B-A"], "iob1") == [(0, 2, "A"), (2, 3, "A")]
    assert decode_tags(["I-A", "I-B"], "iob1") == [(0, 1, "A"), (1, 2, "B")]
    assert decode_tags(["B-A", "E-A", "S-A"], "bioes") == [(0, 2, "A"), (2, 3, "A")]


@pytest.mark.parametrize(
    "tags, scheme",
    [
        ([], "iob2"),
        (["O"], "iob2"),
        (["B-A", "I-A"], "iob2"),
        (["I-A", "O", "I-B"], "iob1"),
        (["I-A", "B-A"], "iob1"),
        (["O", "S-A"], "bioes"),
        (["B-A", "L-A"], "bioes"),
    ],
)
def test_detection(tags, scheme):
    assert scheme in SCHEMES
    assert detect_scheme([(1, tags)]) == scheme


def test_detection_is_over_the_whole_file():
    """The first sentence alone looks like IOB2 in each of these files."""
    assert detect_scheme([(1, ["O"]), (3, ["I-A", "I-A"])]) == "iob1"
    assert detect_scheme([(1, ["B-A", "I-A"]), (4, ["S-A"])]) == "bioes"


def test_stray_inside_tags_in_iob2_are_refused_with_both_lines():
    with pytest.raises(ValueError, match=r"f\.tsv, line 12: .* line 2 .* 1 in the file"):
        detect_scheme([(1, ["O", "B-A", "I-A"]), (10, ["O", "B-A", "I-B"])], source="f.tsv")


@pytest.mark.parametrize(
    "tags, scheme, line",
    [
        (["O", "I-A"], "iob2", 8),
        (["I-A"], "iob2", 7),
        (["B-A", "I-B"], "iob2", 8),
        (["B-A", "E-A"], "iob2", 8),
        (["O", "B-A"], "iob1", 8),
        (["I-A", "B-B"], "iob1", 8),
        (["S-A"], "iob1", 7),
        (["B-A", "O"], "bioes", 8),
        (["B-A", "I-A"], "bioes", 8),
        (["S-A", "E-A"], "bioes", 8),
        (["O", "I-A", "E-A"], "bioes", 8),
        (["B-A", "E-B"], "bioes", 8),
        (["B-A", "S-A"], "bioes", 8),
    ],
)
def test_illegal_sequences_are_refused_by_line(tags, scheme, line):
    with pytest.raises(ValueError, match=rf"f\.tsv, line {line}: .*{scheme.upper()}"):
        decode_tags(tags, scheme, source="f.tsv", first_line=7)


@pytest.mark.parametrize("tag", ["X-secret", "secret", "o", "O-secret", "b-secret", "-secret"])
def test_unknown_prefixes_are_refused_without_quoting_them(tag):
    for run in (
        lambda: detect_scheme([(3, ["O", tag])], source="f.tsv"),
        lambda: decode_tags(["O", tag], "iob2", source="f.tsv", first_line=3),
    ):
        with pytest.raises(ValueError, match=r"f\.tsv, line 4: .*not an entity tag") as err:
            run()
        assert "secret" not in str(err.value)


@pytest.mark.parametrize("tag", ["B-", "B", "I-", "S- "])
def test_empty_labels_are_refused(tag):
    with pytest.raises(ValueError, match=r"line 1: .*empty label"):
        decode_tags([tag], "iob2")
