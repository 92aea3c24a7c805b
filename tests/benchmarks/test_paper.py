"""The queue of the paper's trials: what it names exists, and its sentences are drawn once."""

from pathlib import Path

from benchmarks.paper import QUEUE, SENTENCES, trials, write_data
from spacy_mslm.corpus.formats.iob import read_iob
from spacy_mslm.tasks.paper.specs import read_spec, sets_of

from ..helpers import write_iob


def test_the_queue_names_trials_of_the_specs(tmp_path: Path) -> None:
    queued = [
        (trial.key, item.spec) for item in QUEUE for trial in trials(item, tmp_path, tmp_path)
    ]
    expected = {
        f"{trial}-{dataset}-s{seed}"
        for name in ("pair", "rates", "strategies", "weights", "across")
        for trial in read_spec(name)["trials"]
        for dataset in sets_of(trial)
        for seed in read_spec(name)["seeds"]
    }
    assert {key for key, _ in queued} == expected
    assert all(set(item.names) <= read_spec(item.spec)["trials"].keys() for item in QUEUE)


def test_sentences_are_drawn_from_the_set_that_a_trial_learns(tmp_path: Path) -> None:
    blurb = tmp_path / "blurb"
    for dataset in ("ncbi_disease", "bc5cdr_disease"):
        (blurb / dataset).mkdir(parents=True)
        for split in ("train", "devel", "test"):
            words = [f"{dataset}{split}{i}/O" for i in range(600)]
            write_iob(blurb / dataset / f"{split}.tsv", words)
    (item,) = (q for q in QUEUE if (q.spec, q.set) == ("across", "bc5cdr_disease"))
    trial = next(t for t in trials(item, tmp_path, tmp_path) if "from-ncbi_disease" in t.name)
    files = write_data(blurb, tmp_path / "out", trial)
    found = {split: [s.words[0] for s in read_iob(path)] for split, path in files.items()}
    assert {split: len(words) for split, words in found.items()} == SENTENCES
    assert all(word.startswith("ncbi_diseasetrain") for word in found["train"])
    assert found["test"] == [f"bc5cdr_diseasetest{i}" for i in range(500)]
    assert found["train"] != sorted(found["train"], key=lambda word: int(word[17:]))
