"""Bit flips and truncations over all files, and a disk without space."""

import random
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import DocBin

from spacy_mslm.corpus.readers import read_docs
from spacy_mslm.model.checkpoints import load_checkpoint
from spacy_mslm.pipeline.loading import load_pipeline
from spacy_mslm.pipeline.saving import safe_save
from spacy_mslm.tasks import calibrate, convert
from spacy_mslm.util.manifest import FOLDER_MANIFEST, signed_folder

from .kills import write_dev, write_iob
from .parts import SENTENCES, Row, Setup, build_encoder, files_of, run_forked


def damage_files(setup: Setup, nlp: Language) -> Iterator[Row]:
    """Flip a bit or cut a file, and load. It must be an error that names the file."""
    folder = setup.sub("damage")
    safe_save(nlp, folder / "pipeline")
    with signed_folder(folder / "encoder") as temporary:
        build_encoder(temporary)
    (folder / "corpus").mkdir()
    docs = DocBin(docs=[nlp.make_doc(text * 20) for text, _ in SENTENCES], store_user_data=True)
    docs.to_disk(folder / "corpus" / "train.spacy")
    loads: dict[str, Callable[[Path], object]] = {
        "pipeline": lambda path: load_pipeline(str(path)),
        "encoder": lambda path: load_checkpoint(str(path)),
        "corpus": lambda path: list(read_docs(path / "train.spacy", spacy.blank("en").vocab)),
    }
    for name, load in loads.items():
        for kind, full in (("bit flips", 1000), ("truncations", 100)):
            yield _damage(folder / name, load, kind, setup.count(full))


def _damage(folder: Path, load: Callable[[Path], object], kind: str, n: int) -> Row:
    draw = random.Random(f"{folder.name} {kind}")
    # A changed space in the manifest of a folder changes nothing.
    contents = {name: data for name, data in files_of(folder).items() if name != FOLDER_MANIFEST}
    whole = [name for name, data in contents.items() if data]
    found = silent = unnamed = 0
    for _ in range(n):
        name = draw.choice(whole)
        data = bytearray(contents[name])
        if kind == "truncations":
            data = data[: draw.randrange(len(data))]
        else:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        (folder / name).write_bytes(data)
        try:
            load(folder)
            silent += 1
        except ValueError as err:
            if Path(name).name in str(err):
                found += 1
            else:
                unnamed += 1
        (folder / name).write_bytes(contents[name])
    load(folder)
    return Row(f"{kind} in the files of a {folder.name}", n, found, wrong=silent + unnamed)


def fill_disk(setup: Setup, nlp: Language) -> Iterator[Row]:
    """No file can be longer than a few bytes. The old files stay, and nothing else is left."""
    folder = setup.sub("full")
    model, dev = folder / "model", write_dev(folder)
    safe_save(nlp, model)
    corpus = write_iob(folder / "in.tsv", 50)
    convert(corpus, folder / "out.spacy")
    tasks: dict[str, Callable[[], object]] = {
        "saving": lambda: safe_save(nlp, model),
        "calibrate": lambda: calibrate(str(model), dev),
        "convert": lambda: convert(corpus, folder / "out.spacy"),
    }
    limits = [0, 100, 1000]
    for name, task in tasks.items():
        survived = 0
        for limit in limits:
            before = files_of(folder)
            code = run_forked(lambda task=task, limit=limit: _limited(task, limit))  # type: ignore[misc]
            survived += code == 1 and files_of(folder) == before
        yield Row(f"full disk: {name}", len(limits), survived, lost=len(limits) - survived)
    shutil.rmtree(folder)


def _limited(task: Callable[[], object], limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    task()
