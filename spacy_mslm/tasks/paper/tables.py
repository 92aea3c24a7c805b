"""One function for each table and figure of the paper."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...scoring.seeds import spread
from ..rows import Rows
from . import specs
from .corpora import corpus_lines, vocabulary_lines
from .curves import curve_lines
from .lines import Line, Ours, Table, measure
from .published import SETS, find, show_name

ENCODERS = ("biobert", "pubmedbert", "bioelectra", "scibert")
OUR_ENCODER = "mslm-mini"
# What the paper's figures were measured on: its authors' code masks the text for MSLM. What vanilla
# models read is not said.
MASKED = "paper (MSLM: masked text)"
ELM_RATES = (0.25, 0.5, 0.75, 1.0)
BLM_RATES = (0.0, 0.075, 0.15, 0.225)
# Masks of Figure 5: what a row of the figure is, and its trial.
STRATEGIES = (
    ("none (vanilla)", "vanilla"),
    ("joint, ELM 1, BLM 0.075", "mslm"),
    ("words, 0.15", "token-0.15"),
    ("SPAN, 0.075", "span-0.075"),
    ("SPAN, 0.15", "span-0.15"),
    ("SPAN, 0.225", "span-0.225"),
    ("PMI, 0.075", "pmi-0.075"),
    ("PMI, 0.15", "pmi-0.15"),
    ("PMI, 0.225", "pmi-0.225"),
)
SMALL = (
    "The specs for mslm-mini are small: 500 labelled sentences, 60 updates of 8 sentences, an "
    "encoder of 12 million parameters. The paper trains encoders of 110 million parameters on all "
    "sentences for 20 epochs."
)
DIFFERENCES = (
    "Differences are in points, with the 95 % interval of a paired bootstrap over seeds and "
    "sentences. Where it contains 0, the difference may be chance."
)


class Sources(NamedTuple):
    """Where figures come from.

    Attributes:
        rows: The results of trials.
        results: Their folder, which also holds `curves`.
        corpora: The folder of converted corpora, None if none is given.
        output: The folder of the page, for the commands.
    """

    rows: Rows
    results: Path
    corpora: Path | None
    output: Path

    def line(
        self,
        labels: Sequence[str],
        trial: str,
        dataset: str,
        metric: str,
        protocols: Sequence[str],
        *,
        paper: dict | None = None,
        baseline: str = "",
        spec: str = "",
    ) -> Line:
        """Return the line of a score of a trial. `spec` has the trial, if several do."""
        found = {
            protocol: ours
            for protocol in protocols
            if (ours := measure(self.rows, trial, dataset, metric, protocol, baseline)) is not None
        }
        # Text masked with the trial's own rates is only measured for joint masks.
        missing = any(protocol not in found for protocol in protocols if protocol != "own")
        return Line(
            tuple(labels),
            show_published(paper),
            found,
            self.sweep(spec or specs.spec_of(trial)) if missing else "",
        )

    def sweep(self, spec: str) -> str:
        """Return the command that runs the trials of a spec."""
        return specs.sweep_command(spec, self.output, self.results)


def show_published(entry: dict | None) -> str:
    """Format a figure of the paper as it is printed there."""
    if entry is None:
        return ""
    return f"{entry['value']}" + (f" ± {entry['sd']}" if "sd" in entry else "")


def _models(encoder: str) -> Iterator[tuple[str, str]]:
    """Yield the models of an encoder and their trials, the baseline first."""
    for model in ("vanilla", "mslm"):
        yield model, model if encoder == OUR_ENCODER else f"{encoder}-{model}"


def _pairs(sources: Sources, table: str, metric: str, encoders: Sequence[str]) -> list[Line]:
    """Return the lines of vanilla and MSLM on each set, with every encoder of a table."""
    lines = []
    protocols = ("clean", "masked")
    for dataset in SETS:
        for encoder in (*encoders, OUR_ENCODER):
            baseline = next(trial for _, trial in _models(encoder))
            for model, trial in _models(encoder):
                entry = find(table, set=dataset, encoder=encoder, model=model)
                labels = (show_name(dataset), show_name(encoder), model)
                if entry is None and dataset not in _known_sets(sources, trial, encoder):
                    continue
                lines.append(
                    sources.line(
                        *(labels, trial, dataset, metric, protocols),
                        paper=entry,
                        baseline=baseline,
                    )
                )
    return lines


def _known_sets(sources: Sources, trial: str, encoder: str) -> set[str]:
    """Return the sets of a trial with our encoder: those of its spec, and those it was run on."""
    if encoder != OUR_ENCODER:
        return set()
    return {*specs.sets_of(trial), *sources.rows.sets([trial])}


# ---- tables ----


def table8(sources: Sources) -> list[Line]:
    """EM of vanilla and MSLM by set and encoder."""
    return _pairs(sources, "table8", "em", ENCODERS)


def table10(sources: Sources) -> list[Line]:
    """F1 of the variants of BioBERT."""
    lines = _pairs(sources, "table10", "f", ("biobert",))
    for dataset in SETS:
        entry = find("table10", set=dataset, model="greenbiobert")
        if entry is not None:
            labels = (show_name(dataset), "GreenBioBERT", "vanilla")
            lines.append(Line(labels, show_published(entry), {}))
    return sorted(lines, key=lambda line: _place(line.labels[0]))


def _place(name: str) -> int:
    return [show_name(dataset) for dataset in SETS].index(name)


def table13(sources: Sources) -> list[Line]:
    """EM on weakly labelled clinical notes."""
    return [
        sources.line(
            (show_name("mimic_iii"), show_name(encoder), model),
            *(trial, "mimic_iii", "em", ("clean", "masked")),
            paper=find("table13", encoder=encoder, model=model),
            baseline=f"{encoder}-vanilla",
            spec="clinical",
        )
        for encoder in ENCODERS
        for model, trial in _models(encoder)
    ]


def table4(sources: Sources) -> list[Line]:
    """Perplexity of vanilla and MSLM."""
    lines = []
    for dataset in SETS:
        for encoder in ("biobert", "pubmedbert", OUR_ENCODER):
            for model, trial in _models(encoder):
                entry = find("table4", set=dataset, encoder=encoder, model=model)
                if entry is None and dataset not in _known_sets(sources, trial, encoder):
                    continue
                for kind, metric in (
                    ("all", "perplexity"),
                    ("mentions", "perplexity_elm"),
                    ("other words", "perplexity_blm"),
                ):
                    if kind != "all" and encoder != OUR_ENCODER:
                        continue
                    ours = _perplexity(sources.rows, trial, dataset, metric)
                    command = sources.sweep(specs.spec_of(trial))
                    labels = (show_name(dataset), show_name(encoder), model, kind)
                    lines.append(Line(labels, show_published(entry), ours, "" if ours else command))
    return lines


def _perplexity(rows: Rows, trial: str, dataset: str, metric: str) -> dict[str, Ours]:
    values = [row.value("clean", metric) for row in rows.seeds(trial, dataset).values()]
    known = [value for value in values if value is not None]
    return {"perplexity": Ours(spread(known))} if known else {}


def rate_trial(elm: float, blm: float) -> str:
    """Return the name of the trial with these rates."""
    return "mslm" if (elm, blm) == (1.0, 0.075) else f"elm-{elm:g}-blm-{blm:g}"


def table5(sources: Sources) -> list[Line]:
    """EM in short and long sentences, at low and high rates."""
    lines = []
    for dataset in ("bc2gm", *_grid_sets(sources)):
        for elm, blm in ((1.0, 0.225), (0.75, 0.15), (0.5, 0.075), (0.25, 0.0)):
            for length in ("short", "long"):
                entry = find("table5", set=dataset, elm=elm, blm=blm, sentences=length)
                labels = (show_name(dataset), f"{elm:g}", f"{blm:g}", length)
                lines.append(
                    sources.line(
                        *(labels, rate_trial(elm, blm), dataset, f"em_{length}"),
                        ("clean", "masked", "own"),
                        paper=entry,
                    )
                )
    return lines


def _grid_sets(sources: Sources) -> list[str]:
    trials = [name for name, _ in specs.trials("rates")]
    known = {*specs.sets_of(trials[0]), *sources.rows.sets(trials)} - {"bc2gm"}
    return sorted(known, key=SETS.index)


def table6(sources: Sources) -> list[Line]:
    """EM with and without mask-specific weights."""
    lines = []
    for dataset in SETS:
        for encoder in ("biobert", "pubmedbert"):
            for model in ("mslm", "uniform"):
                entry = find("table6", set=dataset, encoder=encoder, model=model)
                if entry is not None:
                    lines.append(
                        sources.line(
                            (show_name(dataset), show_name(encoder), WEIGHTS[model]),
                            *(f"{encoder}-{model}", dataset, "em", ("clean", "masked")),
                            paper=entry,
                            baseline=f"{encoder}-uniform",
                        )
                    )
        for trial in ("uniform", "mslm", "weights-v2"):
            if dataset in _known_sets(sources, "uniform", OUR_ENCODER):
                labels = (show_name(dataset), OUR_ENCODER, WEIGHTS[trial])
                lines.append(
                    sources.line(
                        *(labels, trial, dataset, "em", ("clean", "masked")), baseline="uniform"
                    )
                )
    return lines


WEIGHTS = {"mslm": "mask-specific", "uniform": "uniform", "weights-v2": "mask-specific, v2"}


def figure4(sources: Sources) -> list[Line]:
    """EM by masking rates."""
    return [
        sources.line(
            (show_name(dataset), f"{elm:g}", f"{blm:g}"),
            *(rate_trial(elm, blm), dataset, "em", ("clean", "masked", "own")),
            baseline="vanilla",
        )
        for dataset in _grid_sets(sources)
        for elm in ELM_RATES
        for blm in BLM_RATES
    ]


def figure5(sources: Sources) -> list[Line]:
    """EM by masking strategy."""
    trials = [trial for _, trial in STRATEGIES]
    known = {*specs.sets_of("pmi-0.15"), *sources.rows.sets(trials[2:])}
    return [
        sources.line(
            (show_name(dataset), name),
            *(trial, dataset, "em", ("clean", "masked")),
            baseline="mslm",
        )
        for dataset in SETS
        if dataset in known
        for name, trial in STRATEGIES
    ]


def across(sources: Sources) -> list[Line]:
    """F1 of models that were trained on one set and tested on another."""
    sets = specs.read_spec("across")["sets"]
    return [
        sources.line(
            (show_name(origin), show_name(target), model),
            *(f"{model}-from-{origin}", target, "f", ("clean", "masked")),
            baseline=f"vanilla-from-{origin}",
        )
        for origin in sets
        for target in sets
        for model in ("vanilla", "mslm")
    ]


def figure2(sources: Sources) -> list[Line]:
    """Confidence by word: a picture only."""
    return []


def table9(sources: Sources) -> list[Line]:
    """Figures of the corpora."""
    return corpus_lines(sources.corpora)


def table11(sources: Sources) -> list[Line]:
    """The vocabulary of PMI masking and the mentions in it."""
    return vocabulary_lines(sources.corpora)


def figure3(sources: Sources) -> list[Line]:
    """The best F1 of vanilla and MSLM in training, and when MSLM reaches that of vanilla."""
    return curve_lines(sources.results, sources.sweep("pair"))


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
        table8,
        ("set", "encoder", "model"),
        notes=("Table 3 is the part of Table 8 on the first four sets.", DIFFERENCES, SMALL),
        also=("table3",),
    ),
    "table4": Kind(
        "Table 4: perplexity",
        table4,
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
        table5,
        ("set", "ELM", "BLM", "sentences"),
        ("clean", "masked", "own"),
        notes=("Short: below the mean length of the test set.", SMALL),
    ),
    "table6": Kind(
        "Table 6: EM with and without mask-specific weights",
        table6,
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
        table9,
        ("set", "figure"),
        ("counts",),
        "paper",
        notes=("Ours are those of stats.json, which 'mslm convert' writes.",),
    ),
    "table10": Kind(
        "Table 10: F1 of variants of BioBERT",
        table10,
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
        table11,
        ("set", "figure"),
        ("counts",),
        "paper",
        also=("table14",),
    ),
    "table13": Kind(
        "Table 13: EM on weakly labelled notes of MIMIC-III",
        table13,
        ("set", "encoder", "model"),
        notes=("MIMIC-III requires an agreement with PhysioNet, so we have no figures.",),
    ),
    "figure2": Kind(
        "Figure 2: confidence of each word",
        figure2,
        (),
        (),
        notes=(
            "A picture without figures. Draw it for two models and texts of yours: python -m spacy "
            "mslm heatmap MODEL MODEL TEXTS --output RESULTS/figure2.png",
        ),
    ),
    "figure3": Kind(
        "Figures 3 and 6: F1 in training",
        figure3,
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
        figure4,
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
        figure5,
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
        across,
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
