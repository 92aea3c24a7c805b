"""One pipeline for several entity types, from corpora that each annotate only some of them.

    single     a pipeline for each corpus, with its types only
    naive      one pipeline; types that a corpus does not annotate count as outside
    partial    one pipeline; they are unknown (`spacy_mslm.PartialCorpus.v1`)
    completed  one pipeline; the single ones label them first (`spacy_mslm.CompletedCorpus.v1`)

All have the same number of updates for each corpus. F1 is measured on the dev set of each corpus,
over the types that it annotates. `added` and `added_soft` go on from the pipeline of the first
corpus with the types of the last one, on sentences of the last one that the first pipeline has
completed: with its entities, and with the probabilities of its tags. Compare their
scores with those of `single`: of the first corpus for what is forgotten, of the last one for what
is learnt. They also run with `spacy_mslm.MSLM.v1`; `partial` and `completed` need v2.
"""

import json
import random
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_mslm.corpus.completed import CompletedCorpus
from spacy_mslm.corpus.mixed import MixedCorpus, PartialCorpus
from spacy_mslm.corpus.readers import Reader
from spacy_mslm.model.optimizer import make_adamw
from spacy_mslm.model.schedules import warmup_decay

from .machine import describe_machine, write_rows

# New names of the types of each BLURB corpus.
CORPORA: dict[str, dict[str, str]] = {
    "ncbi_disease": {},
    "bc5cdr": {},
    "bc5cdr_chem": {},
    "bc2gm": {"GENE": "Gene"},
    "jnlpba": {"PRGE": "Protein", "CLLN": "CellLine", "CLTP": "CellType"},
}
SETS = "ncbi_disease,bc5cdr,bc2gm,jnlpba"
RESULTS = Path("benchmarks/results/several_types.jsonl")
BATCH = 8


def several_types(
    data: Annotated[Path, typer.Argument(help="Folder of the BLURB corpora")],
    encoder: Annotated[str, typer.Argument(help="Encoder")],
    work: Annotated[Path, typer.Argument(help="Folder for the pipelines")],
    updates: Annotated[int, typer.Option(help="Updates for each corpus")] = 80,
    sentences: Annotated[int, typer.Option(help="Training sentences of each corpus")] = 640,
    dev: Annotated[int, typer.Option(help="Dev sentences of each corpus")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the training")] = 0,
    sets: Annotated[str, typer.Option(help="Corpora, separated by commas")] = SETS,
    architecture: Annotated[int, typer.Option(help="Version of spacy_mslm.MSLM, 1 or 2")] = 2,
    only_added: Annotated[bool, typer.Option(help="Only single and added pipelines")] = False,
) -> None:
    """Train single, naive, partial, completed and added pipelines and store their scores."""
    names = sets.split(",")
    size = {"sets": names, "updates": updates, "sentences": sentences, "seed": seed}
    size["architecture"] = architecture
    train = {name: _draw(data, name, "train", sentences, work) for name in names}
    held_out = {name: _draw(data, name, "devel", dev, work) for name in names}
    models = {name: str(work / f"single_{name}") for name in names}
    for name in names:
        if not Path(models[name]).exists():
            nlp = _start(encoder, seed, architecture)
            _train(nlp, train[name], updates, seed)
            nlp.to_disk(models[name])
        _store("single", spacy.load(models[name]), {name: held_out[name]}, size)
    completed = {
        name: CompletedCorpus(train[name], [models[other] for other in names if other != name])
        for name in names
    }
    arms: dict[str, Reader] = {
        "partial": MixedCorpus(train, seed=seed),
        "naive": _without_marks(MixedCorpus(train, seed=seed)),
        "completed": MixedCorpus(completed, seed=seed),
    }
    first, last = names[0], names[-1]
    for arm, soft in (("added_soft", True), ("added", False)):
        nlp = spacy.load(models[first])
        for label in spacy.load(models[last]).get_pipe("mslm").labels:  # type: ignore[attr-defined]
            nlp.get_pipe("mslm").add_label(label)  # type: ignore[attr-defined]
        _train(nlp, CompletedCorpus(train[last], models[first], soft=soft), updates, seed)
        _store(arm, nlp, {name: held_out[name] for name in (first, last)}, size)
    if only_added:
        return
    for arm, corpus in arms.items():
        nlp = _start(encoder, seed, architecture)
        _train(nlp, corpus, updates * len(names), seed)
        _store(arm, nlp, held_out, size)


def _draw(data: Path, name: str, split: str, limit: int, work: Path) -> Reader:
    """Draw sentences of a corpus, and return the reader of a file of them."""
    path = work / f"{name}_{split}.spacy"
    if not path.exists():
        labels = CORPORA[name]
        corpus = PartialCorpus(data / name / f"{split}.tsv", labels=labels, limit=limit, seed=0)
        docs = [example.reference for example in corpus(spacy.blank("en"))]
        work.mkdir(parents=True, exist_ok=True)
        DocBin(docs=docs, store_user_data=True).to_disk(path)
    return PartialCorpus(path)


def _without_marks(corpus: Reader) -> Reader:
    def read(nlp: Language) -> Any:
        for example in corpus(nlp):
            example.reference._.annotated_labels = None
            yield example

    return read


def _start(encoder: str, seed: int, architecture: int) -> Language:
    spacy.util.fix_random_seed(seed)
    nlp = spacy.blank("en")
    model = {"@architectures": f"spacy_mslm.MSLM.v{architecture}", "encoder": encoder}
    masking = {"@misc": "spacy_mslm.NoMasking.v1"}
    settings = {"model": model, "masking": masking, "score_perplexity": False}
    nlp.add_pipe("mslm", config=settings)
    return nlp


def _train(nlp: Language, corpus: Reader, updates: int, seed: int) -> None:
    """Train a pipeline, which is initialized unless it is trained already."""
    examples = list(corpus(nlp))
    if not nlp.get_pipe("mslm").labels:  # type: ignore[attr-defined]
        nlp.initialize(lambda: examples)
    rates = [warmup_decay(rate, warmup=0.1, total_steps=updates) for rate in (1e-4, 5e-4)]
    optimizer = make_adamw(*rates)  # type: ignore[arg-type]
    stream: list[Example] = []
    generator = random.Random(seed)
    for _ in range(updates):
        if len(stream) < BATCH:
            stream += generator.sample(examples, len(examples))
        nlp.update(stream[:BATCH], sgd=optimizer, drop=0.1)
        optimizer.step_schedules()
        del stream[:BATCH]


def _store(arm: str, nlp: Language, held_out: dict[str, Reader], size: dict[str, Any]) -> None:
    for name, corpus in held_out.items():
        scores = nlp.evaluate(list(corpus(nlp)))
        row = {
            "machine": describe_machine(),
            "arm": arm,
            "set": name,
            **size,
            "f": scores["ents_f"],
            "per_type": {label: s["f"] for label, s in (scores["ents_per_type"] or {}).items()},
        }
        stored = RESULTS.read_text().splitlines() if RESULTS.exists() else []
        write_rows(RESULTS, [*map(json.loads, stored), row])
        print(arm, name, f"{100 * row['f']:.1f}", flush=True)
