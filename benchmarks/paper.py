"""Run the trials of `spacy mslm paper` in a small setting, in one process.

The specs are those of the package, `spacy_mslm/data/paper`, with 500 labelled sentences of each set
(drawn with seed 0), the first 100 of dev and the first 500 of test. Importing torch and spaCy takes
as long as such a trial, so all trials run in this process, and no pipeline is saved. Trials that
have a row are skipped.
"""

import contextlib
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config
from wasabi import msg

from .machine import describe_machine
from .reference import CONFIGS, SPLITS

RESULTS = Path(__file__).parent / "results" / "paper"
SENTENCES = {"train": 500, "dev": 100, "test": 500}
# The order of the queue: a spec, a set, a seed, and some of its trials (default: all). What a
# reader wants first comes first, as a queue may end early.
FIRST_STRATEGIES = ("token-0.15", "span-0.15", "pmi-0.15")
NCBI, CHEM, DISEASE = "ncbi_disease", "bc5cdr_chem", "bc5cdr_disease"


class Queued(NamedTuple):
    spec: str
    set: str
    seed: int = 0
    names: tuple[str, ...] = ()


QUEUE = (
    Queued("pair", NCBI),
    Queued("pair", CHEM),
    Queued("strategies", NCBI, names=FIRST_STRATEGIES),
    Queued("weights", NCBI, names=("weights-v2",)),
    Queued("rates", NCBI),
    Queued("rates", CHEM),
    Queued("strategies", CHEM, names=FIRST_STRATEGIES),
    Queued("weights", CHEM),
    Queued("pair", NCBI, 1),
    Queued("pair", CHEM, 1),
    Queued("across", NCBI),
    Queued("across", DISEASE),
    Queued("weights", NCBI),
    Queued("pair", NCBI, 2),
    Queued("pair", CHEM, 2),
    Queued("strategies", NCBI),
    Queued("strategies", CHEM),
)


class Trial(NamedTuple):
    name: str
    set: str
    seed: int
    config: str
    own: dict[str, Any]
    overrides: dict[str, Any]

    @property
    def key(self) -> str:
        return f"{self.name}-{self.set}-s{self.seed}"


def paper_trials(
    encoder: Annotated[Path, typer.Argument(help="Encoder folder")],
    blurb: Annotated[Path, typer.Argument(help="Folder with <set>/{train,devel,test}.tsv")],
    output: Annotated[Path, typer.Argument(help="Folder for data and logs")],
    store: Annotated[Path, typer.Option(help="Folder for the results")] = RESULTS,
    bf16: Annotated[bool, typer.Option(help="Compute in bfloat16")] = True,
) -> None:
    """Run the trials without a row one after another."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    for queued in QUEUE:
        results = store / f"{queued.spec}.jsonl"
        for trial in trials(queued, output, store):
            if trial.key in _done(results):
                continue
            data = write_data(blurb, output, trial)
            start = time.process_time()
            kind = torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False)
            with kind if bf16 else contextlib.nullcontext():
                row = run_trial(trial, data, encoder, output / f"{trial.key}.log")
            results.parent.mkdir(parents=True, exist_ok=True)
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            seconds = time.process_time() - start
            msg.good(
                f"{time.strftime('%H:%M')} {trial.key}: EM clean {100 * row['em']:.1f}, masked "
                f"{100 * row['masked_em']:.1f} ({seconds:.0f} CPU s)"
            )


def trials(queued: Queued, output: Path, store: Path) -> Iterator[Trial]:
    """Yield the trials of a spec on a set."""
    from spacy_mslm.tasks.paper.specs import read_spec

    spec = read_spec(queued.spec)
    for name, content in spec["trials"].items():
        if queued.names and name not in queued.names:
            continue
        own = content.get("overrides", {})
        settings = {**spec["overrides"], **own}
        # The sentences are drawn by `write_data`.
        settings |= {"vars.limit": 0, "corpora.dev.limit": 0}
        log = settings.pop("training.logger.output_file", None)
        trial = Trial(name, queued.set, queued.seed, content["config"], own, settings)
        if log is not None:
            path = store / "curves" / f"{trial.key}.jsonl"
            path.unlink(missing_ok=True)  # of a trial that was interrupted
            settings["training.logger.output_file"] = str(path)
        if "paths.pmi" in settings:
            settings["paths.pmi"] = str(output / "pmi" / f"{queued.set}.txt")
        yield trial


def write_data(blurb: Path, output: Path, trial: Trial) -> dict[str, Path]:
    """Write the sentences of a trial, and its PMI vocabulary; return the files by split."""
    from spacy_mslm.tasks.pmi import build_pmi_vocabulary

    origin = Path(trial.own["paths.train"]).parent.name if "paths.train" in trial.own else trial.set
    files = {}
    for split, number in SENTENCES.items():
        dataset = origin if split == "train" else trial.set
        source = blurb / dataset / SPLITS[split]
        files[split] = output / "data" / dataset / source.name
        if files[split].exists():
            continue
        sentences = [s.strip("\n") for s in source.read_text().split("\n\n") if s.strip()]
        if split == "train":
            random.Random(0).shuffle(sentences)
        files[split].parent.mkdir(parents=True, exist_ok=True)
        files[split].write_text("\n\n".join(sentences[:number]) + "\n\n")
    pmi = Path(trial.overrides.get("paths.pmi", "."))
    if not pmi.exists():
        build_pmi_vocabulary(blurb / origin / SPLITS["train"], pmi)
    return files


def run_trial(trial: Trial, data: dict[str, Path], encoder: Path, log: Path) -> dict[str, Any]:
    """Train and score; return the row, with the fields of `spacy mslm sweep` and some more."""
    from spacy_mslm.scoring.counts import pack

    overrides = {
        **trial.overrides,
        "paths.train": str(data["train"]),
        "paths.dev": str(data["dev"]),
        "vars.encoder": str(encoder),
        "system.seed": trial.seed,
        "training.logger.progress_bar": None,
    }
    start = time.process_time()
    config = load_config(CONFIGS / f"{trial.config}.cfg", overrides=overrides)
    config["initialize"].pop("after_init", None)  # a report of duplicates
    nlp = init_nlp(config)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        nlp, _ = train(nlp, None, stdout=file, stderr=file)
    seconds = time.process_time() - start
    scores, counts = score(nlp, data, trial)
    return {
        "trial": trial.name,
        "set": trial.set,
        "seed": trial.seed,
        "split": "test",
        "config": trial.config,
        "overrides": trial.own,
        "protocol": "clean",
        **scores,
        "cpu_seconds": round(seconds),
        "adaptation_cpu_seconds": 0,
        "machine": describe_machine(),
        **{name: pack(array) for name, array in counts.items()},
    }


def score(
    nlp: Language, data: dict[str, Path], trial: Trial
) -> tuple[dict[str, float | None], dict[str, np.ndarray]]:
    """Score a pipeline on clean text, on text with the masks of the paper, and on text with the
    rates of the trial; return the scores of a row and its counts."""
    from spacy_mslm.corpus.readers import make_corpus
    from spacy_mslm.masking.strategies import JointMasking
    from spacy_mslm.pipeline.component import MSLM
    from spacy_mslm.scoring.masked_protocol import annotate_masked
    from spacy_mslm.scoring.perplexity import perplexity
    from spacy_mslm.scoring.scorer import EntityScorer

    pipe = nlp.get_pipe("mslm")
    assert isinstance(pipe, MSLM)
    scorer = EntityScorer(None, str(data["train"]))
    scores: dict[str, float | None] = {}
    counts = {}
    maskings: dict[str, JointMasking | None] = {"": None, "masked_": JointMasking()}
    if trial.config == "mslm" and "vars.masking" not in trial.own:
        rates = trial.own["vars.elm_rate"], trial.own["vars.blm_rate"]
        maskings["own_masked_"] = JointMasking(*rates)
    for prefix, masking in maskings.items():
        examples = list(make_corpus(data["test"])(nlp))
        if masking is None:
            docs = list(nlp.pipe((example.predicted for example in examples), batch_size=256))
            for example, doc in zip(examples, docs, strict=True):
                example.predicted = doc
            scores["ece"] = scorer(examples)["mslm_ece"]
            for name, value in perplexity(pipe, examples, JointMasking()).items():
                scores[name.replace("mslm_ppl", "perplexity")] = value
        else:
            annotate_masked(pipe, examples, masking)
        found = np.array([_counts(scorer([example])) for example in examples], dtype=np.uint8)
        scores |= {f"{prefix}{name}": value for name, value in _rates(found).items()}
        whole = scorer(examples)
        for length in ("short", "long"):
            scores[f"{prefix}em_{length}"] = whole[f"mslm_em_{length}"]
        counts[f"{prefix}counts"] = found
    return scores, counts


def _counts(scores: dict[str, Any]) -> list[int]:
    found = scores["mslm_counts"]
    unseen = found["gold_unseen"]
    hits = round((scores["mslm_em_unseen"] or 0.0) * unseen)
    return [found["gold"], found["predicted"], found["exact"], unseen, hits]


def _rates(counts: np.ndarray) -> dict[str, float]:
    gold, predicted, exact, gold_unseen, exact_unseen = counts.sum(axis=0, dtype=int).tolist()
    return {
        "p": exact / max(predicted, 1),
        "em": exact / gold,
        "f": 2 * exact / (gold + predicted),
        "em_unseen": exact_unseen / max(gold_unseen, 1),
    }


def _done(results: Path) -> set[str]:
    if not results.exists():
        return set()
    rows = map(json.loads, results.read_text().splitlines())
    return {f"{row['trial']}-{row['set']}-s{row['seed']}" for row in rows}
