"""Bit flips and truncations over all files of a pipeline, an encoder, a corpus."""

import random
from collections.abc import Callable
from pathlib import Path

from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_mslm.corpus.readers import read_docs
from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.pipeline.loading import load_pipeline
from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.util.manifest import FOLDER_MANIFEST, signed_folder

from .experiment import Run
from .parts import SENTENCES, Row, Work, build_encoder, files_of

# Returns what was read. Pipelines and encoders never equal each other.
Load = Callable[[Path], object]


def prepare_pipeline(work: Work, folder: Path) -> Load:
    """Save a pipeline."""
    safe_save(work.nlp, folder / "files")
    return lambda path: load_pipeline(str(path))


def prepare_encoder(work: Work, folder: Path) -> Load:
    """Write an encoder as `pretrain` and adaptation do."""
    with signed_folder(folder / "files") as temporary:
        build_encoder(temporary)
    return lambda path: load_checkpoint(str(path))


def prepare_corpus(work: Work, folder: Path) -> Load:
    """Write a .spacy file."""
    (folder / "files").mkdir()
    docs = [work.nlp.make_doc(text * 20) for text, _ in SENTENCES]
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "files" / "train.spacy")

    def load(path: Path) -> list[bytes]:
        # The last byte of the compressed data may have bits that are not used.
        return [doc.to_bytes() for doc in read_docs(path / "train.spacy", Vocab())]

    return load


def damage(name: str, make: Callable[[Work, Path], Load], kind: str) -> Callable[[Work], Run]:
    """Return an experiment that flips a bit or cuts a file, and loads. It must be an error that
    names the file."""

    def prepare(work: Work) -> Run:
        parent = work.new(f"{kind} {name}")
        load = make(work, parent)
        folder = parent / "files"
        # A changed space in the manifest of a folder changes nothing.
        files = {n: data for n, data in files_of(folder).items() if n != FOLDER_MANIFEST and data}

        whole = load(folder)

        def run(cases: range) -> list[Row]:
            silent = unnamed = 0
            for case in cases:
                path, data = _damaged(files, kind, random.Random(f"{name} {kind} {case}"))
                (folder / path).write_bytes(data)
                try:
                    silent += load(folder) != whole
                except ValueError as err:
                    unnamed += Path(path).name not in str(err)
                (folder / path).write_bytes(files[path])
            load(folder)
            good = len(cases) - silent - unnamed
            return [Row(f"{kind} in the files of {name}", len(cases), good, wrong=silent + unnamed)]

        return run

    return prepare


def _damaged(files: dict[str, bytes], kind: str, draw: random.Random) -> tuple[str, bytes]:
    name = draw.choice(list(files))
    data = bytearray(files[name])
    if kind == "truncations":
        return name, bytes(data[: draw.randrange(len(data))])
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return name, bytes(data)
