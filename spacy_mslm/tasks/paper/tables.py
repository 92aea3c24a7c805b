"""One function for each table and figure of the paper."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...scoring.seeds import spread
from ..rows import Rows
from . import specs
from .corpora import corpus_lines, vocabulary_lines
from .curves import curve_lines
from .lines import Line, Ours, measure
from .published import SETS, find, show_name

ENCODERS = ("biobert", "pubmedbert", "bioelectra", "scibert")
OUR_ENCODER = "mslm-mini"
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

    def sets(self) -> list[str]:
        """Return the sets of the paper, and others that trials were run on."""
        return [*SETS, *(name for name in self.rows.sets() if name not in SETS)]

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
    for dataset in sources.sets():
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
    order = [show_name(dataset) for dataset in sources.sets()]
    return sorted(lines, key=lambda line: order.index(line.labels[0]))


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
    for dataset in sources.sets():
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
    return [dataset for dataset in sources.sets() if dataset in known]


def table6(sources: Sources) -> list[Line]:
    """EM with and without mask-specific weights."""
    lines = []
    for dataset in sources.sets():
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
        for dataset in sources.sets()
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
