"""kill -9 at random moments. What was there stays whole, and the next run ends the same."""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import calibrate, convert, label, pretrain, verify

from .parts import SENTENCES, Row, Setup, files_of, kill_until_done, run_forked

ROOT = Path(__file__).parents[2]


def write_iob(path: Path, n: int) -> Path:
    """Write an IOB file of `n` times the sentences."""
    blocks = []
    for _ in range(n):
        for text, spans in SENTENCES:
            doc = Example.from_dict(spacy.blank("en").make_doc(text), {"entities": spans}).reference
            tags = [f"{t.ent_iob_}-{t.ent_type_}" if t.ent_type_ else "O" for t in doc]
            rows = zip(doc, tags, strict=True)
            blocks.append("".join(f"{token.text}\t{tag}\n" for token, tag in rows))
    path.write_text("\n".join(blocks), encoding="utf8")
    return path


def write_dev(folder: Path) -> Path:
    """Write a development set."""
    nlp = spacy.blank("en")
    examples = [Example.from_dict(nlp.make_doc(t), {"entities": e}) for t, e in SENTENCES]
    DocBin(docs=[example.reference for example in examples]).to_disk(folder / "dev.spacy")
    return folder / "dev.spacy"


def kill_tasks(setup: Setup, nlp: Language) -> Iterator[Row]:
    """Kill saving, calibration and conversion: the output is the old or the new one, complete."""
    folder = setup.sub("kills")
    model, dev = folder / "model", write_dev(folder)
    corpus = write_iob(folder / "in.tsv", 100)
    safe_save(nlp, model)
    old = files_of(model)
    n = setup.count(100)

    def is_whole() -> bool:
        return not verify(str(model)).faults and not verify(str(model)).unknown

    killed, survived = kill_until_done(lambda: safe_save(nlp, model), n, 1, is_whole)
    yield Row("kill -9: saving", killed, survived, lost=killed - survived)
    killed, survived = kill_until_done(lambda: calibrate(str(model), dev), n, 2, is_whole)
    yield Row("kill -9: calibrate in place", killed, survived, lost=killed - survived)
    out = folder / "out.spacy"
    convert(corpus, out)
    whole = out.read_bytes()
    killed, survived = kill_until_done(
        lambda: convert(corpus, out), n, 3, lambda: out.read_bytes() == whole
    )
    yield Row("kill -9: convert", killed, survived, lost=killed - survived)
    # The next process that writes there removes what the killed ones left.
    run_forked(lambda: safe_save(nlp, model))
    run_forked(lambda: convert(corpus, out))
    left = [path for path in folder.iterdir() if path.name.startswith(".")]
    same = files_of(model).keys() == old.keys()
    yield Row("leftovers of the killed processes", 1, int(not left and same), wrong=len(left))


def kill_stages(setup: Setup) -> Iterator[Row]:
    """Kill weak labels and pretraining, which continue and end with the same bytes."""
    folder = setup.sub("stages")
    n = setup.count(100)
    with (folder / "notes.jsonl").open("w", encoding="utf8") as file:
        for i in range(400):
            text = " ".join(text for text, _ in SENTENCES * 3)
            row = {"text": f"Note {i}. {text}", "row_id": i, "subject_id": i // 2}
            file.write(json.dumps(row) + "\n")
    header = "term\tid\tsource\tsemantic_type\n"
    terms = "asthma\tC1\tx\tT047\nrenal failure\tC2\tx\tT047\n"
    (folder / "terms.tsv").write_text(header + terms, encoding="utf8")
    settings = {
        "paths.notes": str(folder / "notes.jsonl"),
        "paths.terms": str(folder / "terms.tsv"),
        "paths.clusters": str(ROOT / "assets" / "semantic_types.yml"),
        "labelling.chunk": 20,
    }
    yield _kill_and_continue(
        "weak label",
        lambda out: label(ROOT / "configs" / "weak.cfg", {**settings, "paths.output": str(out)}),
        folder,
        n,
    )
    lines = [text for text, _ in SENTENCES] * 60
    (folder / "text.txt").write_text("\n".join(lines) + "\n", encoding="utf8")
    pretraining = {
        "paths.text": str(folder / "text.txt"),
        "vars.size": "tiny",
        "pretraining.vocab_size": 60,
        "pretraining.steps": 12,
        "pretraining.batch_size": 2,
        "pretraining.length": 16,
        "pretraining.checkpoint_every": 2,
    }
    yield _kill_and_continue(
        "pretrain",
        lambda out: pretrain(ROOT / "configs" / "pretrain.cfg", out, pretraining),
        folder,
        n,
    )


def _kill_and_continue(name: str, task: Callable[[Path], Any], folder: Path, kills: int) -> Row:
    """Kill a stage up to five times before it may finish, again and again."""
    whole, out = folder / f"{name} whole", folder / name
    start = time.perf_counter()
    assert run_forked(lambda: task(whole)) == 0
    duration = time.perf_counter() - start
    expected = _comparable(whole)
    draw = random.Random(name)
    killed = runs = same = 0
    while killed < kills and runs < 20 * kills:
        runs += 1
        shutil.rmtree(out, ignore_errors=True)
        own = 0
        while run_forked(lambda: task(out), draw.uniform(0, duration) if own < 5 else None):
            own += 1
        killed += own
        same += _comparable(out) == expected
    # Runs are counted, each with up to five kills.
    return Row(f"kill -9: {name}, {killed} times, continued", runs, same, wrong=runs - same)


def _comparable(folder: Path) -> dict[str, bytes]:
    """Return the files without those that hold times."""
    timed = ("pretraining.json", "stats.json", "mslm_manifest.json", "card.md")
    return {name: data for name, data in files_of(folder).items() if name not in timed}
