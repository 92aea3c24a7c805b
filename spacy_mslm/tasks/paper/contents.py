"""What tables and figures there are: titles, columns, protocols and notes."""

from collections.abc import Callable
from typing import NamedTuple

from . import tables
from .lines import Line, Table
from .tables import Sources

# What the paper's figures were measured on: its authors' code masks the text for MSLM. What vanilla
# models read is not said.
MASKED = "paper (MSLM: masked text)"
SMALL = (
    "The specs for mslm-mini are small: 500 labelled sentences, 60 updates of 8 sentences, an "
    "encoder of 12 million parameters. The paper trains encoders of 110 million parameters on all "
    "sentences for 20 epochs."
)
DIFFERENCES = (
    "Differences are in points, with the 95 % interval of a paired bootstrap over seeds and "
    "sentences. Where it contains 0, the difference may be chance."
)


class Kind(NamedTuple):
    """What a table or figure is like.

    Attributes:
        title: Its title.
        make: The function that makes its lines.
        columns: The titles of their labels.
        protocols, paper: How our figures and the paper's were measured.
        notes: What a reader has to know.
        also: Other names, of tables that are printed twice.
    """

    title: str
    make: Callable[[Sources], list[Line]]
    columns: tuple[str, ...]
    protocols: tuple[str, ...] = ("clean", "masked")
    paper: str = MASKED
    notes: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


KINDS = {
    "table8": Kind(
        "Tables 3 and 8: EM, vanilla and MSLM",
        tables.table8,
        ("set", "encoder", "model"),
        notes=("Table 3 is the part of Table 8 on the first four sets.", DIFFERENCES, SMALL),
        also=("table3",),
    ),
    "table4": Kind(
        "Table 4: perplexity",
        tables.table4,
        ("set", "encoder", "model", "masked pieces"),
        ("perplexity",),
        "paper, dev",
        notes=(
            "Ours is the perplexity of masked pieces on the test set, with ELM 1 and BLM 0.075 and "
            "seed 0 for all models. The paper does not say which pieces its perplexity is of; at "
            "1.1 to 4.3 it cannot be that of masked mentions.",
            SMALL,
        ),
    ),
    "table5": Kind(
        "Table 5: EM in short and long sentences",
        tables.table5,
        ("set", "ELM", "BLM", "sentences"),
        ("clean", "masked", "own"),
        notes=(
            "Short: below the mean length of the test set. The rows need the scores em_short and "
            "em_long, which 'python -m benchmarks paper' writes.",
            SMALL,
        ),
    ),
    "table6": Kind(
        "Table 6: EM with and without mask-specific weights",
        tables.table6,
        ("set", "encoder", "weights"),
        notes=(
            "Mask-specific is MaskSpecificWeights.v1, the paper's formula. With more masked pieces "
            "of mentions than of other words it gives both 0.5, as uniform weights do.",
            "For MSLM on JNLPBA, Table 6 prints an EM of 89.9 where Table 8 has 88.9.",
            DIFFERENCES,
            SMALL,
        ),
    ),
    "table9": Kind(
        "Table 9: the corpora",
        tables.table9,
        ("set", "figure"),
        ("counts",),
        "paper",
        notes=("Ours are those of stats.json, which 'mslm convert' writes.",),
    ),
    "table10": Kind(
        "Table 10: F1 of variants of BioBERT",
        tables.table10,
        ("set", "encoder", "model"),
        notes=(
            "The paper quotes the figures of BioBERT and GreenBioBERT from publications that test "
            "on clean text, beside its own ones.",
            DIFFERENCES,
            SMALL,
        ),
    ),
    "table11": Kind(
        "Tables 11 and 14: the PMI vocabulary",
        tables.table11,
        ("set", "figure"),
        ("counts",),
        "paper",
        notes=(
            "Ours are of the training sets: collocations that occur five times or more, without "
            "stop words. The paper does not say what its terms are counted over.",
        ),
        also=("table14",),
    ),
    "table13": Kind(
        "Table 13: EM on weakly labelled notes of MIMIC-III",
        tables.table13,
        ("set", "encoder", "model"),
        notes=("MIMIC-III requires an agreement with PhysioNet, so we have no figures.",),
    ),
    "figure2": Kind(
        "Figure 2: confidence of each word",
        tables.figure2,
        (),
        (),
        notes=(
            "A picture without figures. Draw it for two models and texts of yours: python -m spacy "
            "mslm heatmap MODEL MODEL TEXTS --output RESULTS/figure2.png",
        ),
    ),
    "figure3": Kind(
        "Figures 3 and 6: F1 in training",
        tables.figure3,
        ("set", "model", "figure"),
        ("clean",),
        notes=(
            "Dev set, clean text. The paper draws curves on masked dev text, without figures: MSLM "
            "is above vanilla throughout and reaches the best F1 of vanilla after at most 7 of 20 "
            "epochs.",
            SMALL,
        ),
        also=("figure6",),
    ),
    "figure4": Kind(
        "Figure 4: EM by masking rates",
        tables.figure4,
        ("set", "ELM", "BLM"),
        ("clean", "masked", "own"),
        notes=(
            "The paper draws heat maps without figures: EM is lowest where both rates are high, "
            "and drops when BLM reaches 0.15.",
            "Differences are to vanilla.",
            DIFFERENCES,
            SMALL,
        ),
    ),
    "figure5": Kind(
        "Figure 5: EM by masking strategy",
        tables.figure5,
        ("set", "masks"),
        notes=(
            "The paper draws bars without figures: joint masks are above SPAN and PMI everywhere, "
            "PMI mostly above SPAN, and both lose as the rate grows.",
            "Differences are to joint masks.",
            DIFFERENCES,
            SMALL,
        ),
    ),
    "across": Kind(
        "Across corpora: F1, trained on one set and tested on another",
        tables.across,
        ("trained on", "tested on", "model"),
        notes=("Not in the paper.", DIFFERENCES, SMALL),
    ),
}


def make_table(name: str, sources: Sources) -> Table:
    """Make a table by its name."""
    kind = KINDS[name]
    return Table(
        *(name, kind.title, kind.columns, kind.protocols, kind.paper),
        kind.make(sources),
        kind.notes,
    )
