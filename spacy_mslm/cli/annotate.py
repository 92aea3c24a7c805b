"""`python -m spacy mslm annotate`: annotate any number of documents."""

from pathlib import Path

from spacy.cli._util import Arg, Opt
from wasabi import msg

from ..tasks.choices import Engine, Format
from .common import Address, GpuId, Model, command, mslm_cli


@command(mslm_cli, "annotate", failure="The documents were not annotated")
def annotate_cli(
    model: Model,
    input_path: Path = Arg(
        ..., metavar="INPUT", help="CSV, JSONL, Parquet or text file, or folder of .txt files"
    ),
    output: Path = Arg(
        ..., metavar="OUTPUT", help=".jsonl, .parquet or .spacy file, or folder for shards"
    ),
    format: Format | None = Opt(
        None, help="Format of the shards, if OUTPUT is a folder [default: jsonl]"
    ),
    text: bool = Opt(False, "--text", help="Also write the text of the documents"),
    chunk: int = Opt(1000, min=1, help="Maximum number of documents that are written at once"),
    jobs: int | None = Opt(
        *(None, "--jobs", "-j"),
        min=1,
        help="Number of processes [default: one per core, or as many as fit on the Ray cluster]",
    ),
    use_gpu: GpuId = -1,
    engine: Engine = Opt(Engine.local, help="Where to work: this machine, or a Ray cluster"),
    address: Address = None,
    gpus: float = Opt(0.0, min=0, help="GPUs per process on Ray, may be a fraction"),
    force: bool = Opt(False, "--force", help="Replace OUTPUT, and start over"),
) -> None:
    """Annotate documents with a pipeline and write their entities.

    Each document becomes a row with its id, its entities (offsets, label, confidence), and name,
    version and digest of the pipeline. An interrupted run continues when the command is repeated.
    Documents that fail are listed in OUTPUT.errors.jsonl, and the exit code is 1.
    """
    from ..tasks import annotate

    found = annotate(
        model,
        input_path,
        output,
        format=format,
        text=text,
        chunk=chunk,
        jobs=jobs,
        gpu_id=use_gpu,
        engine=engine,
        address=address,
        gpus=gpus,
        force=force,
    )
    if found.unnamed:
        msg.info(f"{found.unnamed:,} documents have no id: they are named by file and line")
    annotated = found.documents - found.failed
    msg.good(f"Saved {found.entities:,} entities of {annotated:,} documents to {found.path}")
    if found.failed:
        msg.fail(f"{found.failed:,} of {found.documents:,} documents failed: {found.errors}")
    if annotated and not found.entities:
        msg.fail("No entity was found. Check that the pipeline is trained for such documents.")
    if found.failed or not found.entities:
        raise SystemExit(1)
