"""The systems whose speed is compared, each in its own process: `python systems.py NAME JSON`.

The process reads a line of JSON for each run and answers with a line; `Worker` is the other end. At
its top, the module imports only the standard library: a system may have its own environment.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, float]]


class Worker:
    """A system in its own process, which runs on request."""

    def __init__(
        self,
        name: str,
        settings: dict[str, Any],
        python: str = sys.executable,
        script: str = __file__,
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, str(Path(script).resolve()), name, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true"},
        )
        self.loaded_mb = self._answer()["mb"]  # it is ready

    def __call__(self, request: dict[str, Any]) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("> "):  # others print, too
                return json.loads(line[2:])
        raise RuntimeError(f"{self.name} has ended with code {self._process.wait()}")

    def close(self) -> None:
        self._process.communicate()


def answer_requests(systems: Mapping[str, Callable[..., Answer]]) -> None:
    """Start the system named on the command line, and answer requests until the input ends."""
    name, settings = sys.argv[1:]
    answer = systems[name](**json.loads(settings))
    _say({"mb": _resident_memory()})
    for line in sys.stdin:
        _say({**answer(json.loads(line)), "mb": _peak_memory()})


def _say(answer: dict[str, float]) -> None:
    print("> " + json.dumps(answer), flush=True)


def _resident_memory() -> float:
    """Return the current memory of the process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _peak_memory() -> float:
    """Return the peak memory of the process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _timed(work: Callable[[list[str]], Any]) -> Answer:
    """Return a function that measures the seconds to process the texts of a file."""

    def run(request: dict[str, Any]) -> dict[str, float]:
        texts = read_texts(request)
        return _seconds(lambda: work(texts))(request)

    return run


def _seconds(work: Callable[[], Any]) -> Answer:
    def run(request: dict[str, Any]) -> dict[str, float]:
        start = time.perf_counter()
        work()
        return {"seconds": time.perf_counter() - start}

    return run


def read_texts(request: dict[str, Any]) -> list[str]:
    return json.loads(Path(request["texts"]).read_text(encoding="utf8"))


# ---- ours ----


def bare_encoder(model: str, budget: int = 4096) -> Answer:
    """Run only the encoder of a pipeline on the same wordpieces, in windows without overlap, sorted
    by length, in batches of `budget` padded pieces. Their preparation is not timed."""
    import numpy as np
    import spacy
    import torch

    from spacy_mslm.pieces.collate import pad_ids
    from spacy_mslm.pipeline.find import find_mslm

    nlp = spacy.load(model)
    pipe = find_mslm(nlp, model)[1]
    wordpieces, network = pipe.shim.wordpieces, pipe.shim.network

    def batches(texts: list[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        rows = [
            pieces.ids[window.own_start : window.own_end]
            for pieces in wordpieces([nlp.make_doc(text) for text in texts])
            for window in pipe.windows.cover(pieces)
        ]
        rows.sort(key=len)
        found: list[list[np.ndarray]] = [[]]
        for row in rows:
            if (len(row) + wordpieces.extra) * (len(found[-1]) + 1) > budget:
                found.append([])
            found[-1].append(row)
        return [pad_ids(batch, wordpieces) for batch in found]

    def run(request: dict[str, Any]) -> dict[str, float]:
        prepared = batches(read_texts(request))
        start = time.perf_counter()
        with torch.inference_mode():
            for ids, lengths in prepared:
                mask = np.arange(ids.shape[1]) < lengths[:, None]
                network.lm.base_model(
                    input_ids=torch.from_numpy(ids),
                    attention_mask=torch.from_numpy(mask.astype(np.int64)),
                )
        return {"seconds": time.perf_counter() - start}

    return run


def spacy_pipeline(model: str, n_process: int = 1, threads: int = 0) -> Answer:
    """Run `nlp.pipe` of a spaCy pipeline: mslm, spacy-transformers with `ner`, or a CNN."""
    import spacy
    import torch

    if threads:
        torch.set_num_threads(threads)
    nlp = spacy.load(model)

    def work(texts: list[str]) -> None:
        for doc in nlp.pipe(texts, n_process=n_process):
            tuple(doc.ents)

    return _timed(work)


def load_pipeline(model: str) -> Answer:
    import spacy

    return _seconds(lambda: spacy.load(model))


# ---- peers ----


def load_transformers(encoder: str) -> Answer:
    """Load the encoder, its tokenizer and a blank pipeline."""
    import spacy
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    def load() -> None:
        AutoModelForMaskedLM.from_pretrained(encoder)
        AutoTokenizer.from_pretrained(encoder)
        spacy.blank("en")

    return _seconds(load)


def hf_pipeline(model: str, batch_size: int = 16) -> Answer:
    from transformers import pipeline

    classify = pipeline(
        "token-classification",
        model=model,
        aggregation_strategy="simple",
        batch_size=batch_size,
        stride=64,  # else what is beyond 512 pieces would be cut off
        device="cpu",
    )
    return _timed(lambda texts: classify(texts))


def edsnlp(encoder: str) -> Answer:
    """Run EDS-NLP with untrained heads: the time of its CRF does not depend on predictions."""
    import edsnlp as package
    from spacy.tokens import Span

    nlp = package.blank("eds")
    embedding = {"@factory": "eds.transformer", "model": encoder, "window": 128, "stride": 96}
    config = {"mode": "joint", "target_span_getter": "ents", "embedding": embedding}
    nlp.add_pipe("eds.ner_crf", name="ner", config=config)
    doc = nlp.make_doc("acute renal failure .")
    doc.ents = [Span(doc, 0, 3, label="Disease")]
    nlp.post_init([doc])
    nlp.get_pipe("ner").float()

    def work(texts: list[str]) -> None:
        # By default it computes in bfloat16, which crashes on some CPUs.
        for doc in nlp.pipe(texts).set_processing(autocast=False):
            tuple(doc.ents)

    return _timed(work)


def span_marker(encoder: str, share: float = 0.1) -> Answer:
    """Run SpanMarker with untrained heads on sentences; texts are cut at full stops.

    Args:
        encoder: The encoder.
        share: Share of the sentences to run, because it is slow. The time is extrapolated to all.
    """
    from span_marker import SpanMarkerModel

    model = SpanMarkerModel.from_pretrained(
        encoder,
        labels=["O", "Disease"],
        model_max_length=256,
        marker_max_length=128,
        entity_max_length=8,
    ).eval()

    def run(request: dict[str, Any]) -> dict[str, float]:
        texts = read_texts(request)
        sentences = [part for text in texts for part in text.split(". ") if part.strip()]
        chosen = sentences[:: round(1 / share)]
        start = time.perf_counter()
        model.predict(chosen, batch_size=16, show_progress_bar=False)
        taken = time.perf_counter() - start
        words, read = (sum(len(part.split()) for part in parts) for parts in (sentences, chosen))
        return {"seconds": taken * words / read}

    return run


SYSTEMS: dict[str, Callable[..., Answer]] = {
    "bare encoder": bare_encoder,
    "spacy pipeline": spacy_pipeline,
    "load pipeline": load_pipeline,
    "load transformers": load_transformers,
    "hf pipeline": hf_pipeline,
    "EDS-NLP": edsnlp,
    "SpanMarker": span_marker,
}

if __name__ == "__main__":
    answer_requests(SYSTEMS)
