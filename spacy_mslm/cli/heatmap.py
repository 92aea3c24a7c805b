"""`python -m spacy mslm heatmap`: how sure models are of each word of some texts, as a picture."""

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from ..tasks.heatmap.reading import Block

# Files in columns; any other file but `.spacy` is plain text.
IOB_SUFFIXES = (".tsv", ".iob", ".conll")
# The folders that `spacy train` writes: the folder around them tells what was trained.
CHECKPOINTS = ("model-best", "model-last")


def heatmap_cli(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL... TEXTS",
            help="Pipelines (folders or packages), then a text file with a text per line, a .spacy "
            "file or folder, or an IOB file (.tsv, .iob, .conll)",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The picture: a .html or a .png file")
    ],
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=0, help="First N texts; 0 for all")
    ] = 10,
) -> None:
    """Draw how sure one or more models are of the class of every word of some texts.

    The models stand one under the other on the same tokens, under the gold entities if there are
    any. Nothing is written unless all of the picture is drawn.
    """
    from wasabi import msg

    try:
        blocks = heatmap(arguments, output, limit=limit)
    except (ValueError, OSError) as err:
        msg.fail("The heat map failed", str(err), exits=1)
    msg.good(f"Written: {output}; texts: {len(blocks)}")


def heatmap(arguments: Sequence[str], output: Path, *, limit: int = 10) -> "list[Block]":
    """Read, predict, draw and write.

    arguments: One or more models, then the texts.
    """
    import spacy

    from ..tasks.heatmap.reading import make_block, read_model
    from ..util.files import replace_file

    *models, texts = arguments
    if not models:
        raise ValueError(
            "A picture needs at least one model and, after the models, a file of texts: "
            "'python -m spacy mslm heatmap MODEL TEXTS -o OUTPUT'."
        )
    render = find_renderer(output)
    sources = read_sources(Path(texts), limit)
    docs: list[Doc] = []
    readings = []
    # One model in memory at a time.
    for model, name in zip(models, model_names(models), strict=True):
        nlp = spacy.load(model)
        if not docs:
            for doc_id, source in sources:
                doc = nlp.make_doc(source) if isinstance(source, str) else source
                doc.user_data["id"] = doc_id
                docs.append(doc)
        readings.append(read_model(nlp, name, docs))
    blocks = [make_block(doc, of_doc) for doc, *of_doc in zip(docs, *readings, strict=True)]
    data = render(blocks)
    output.parent.mkdir(parents=True, exist_ok=True)
    replace_file(output, data)
    return blocks


def find_renderer(output: Path) -> "Callable[[Sequence[Block]], bytes]":
    """What draws the kind of file that the output is."""
    suffix = output.suffix.lower()
    if output.is_dir() or suffix not in (".html", ".png"):
        raise ValueError(
            f"The output {output} is neither a .html nor a .png file. Give a path that ends so "
            "(-o)."
        )
    if suffix == ".html":
        from ..tasks.heatmap.html import render_html

        return render_html
    try:
        from ..tasks.heatmap.png import render_png
    except ImportError as err:
        raise ValueError(
            f"Drawing a PNG needs matplotlib ({err}). Install it with 'pip install "
            "\"spacy-mslm[plots]\"', or give an output that ends in '.html'."
        ) from err
    return render_png


def read_sources(path: Path, limit: int) -> "list[tuple[str, str | Doc]]":
    """The first texts of a file, each with its id: strings, or Docs where it has tokens."""
    from spacy.vocab import Vocab

    from ..corpus.readers import read_docs
    from ..util.lines import read_lines

    sources: list[tuple[str, str | Doc]] = []
    if path.is_dir() or path.suffix in (".spacy", *IOB_SUFFIXES):
        docs = (doc for doc in read_docs(path, Vocab()) if doc.text.strip())
        sources.extend((str(doc.user_data["id"]), doc) for doc in islice(docs, limit or None))
    else:
        lines = ((n, line) for n, line in read_lines(path) if line.strip())
        sources.extend((f"{path.name}:{n}", line) for n, line in islice(lines, limit or None))
    if not sources:
        raise ValueError(
            f"{path} holds no text. Give a file with a text per line, a .spacy file or an IOB file."
        )
    return sources


def model_names(models: Sequence[str]) -> list[str]:
    """Short names for models: those of their folders, where that tells them apart."""
    parts = [Path(model).resolve().parts if Path(model).exists() else (model,) for model in models]
    if len({names[-1] for names in parts}) == 1 and parts[0][-1] in CHECKPOINTS:
        parts = [names[:-1] for names in parts]
    short = ["/".join(names[-2 if names[-1] in CHECKPOINTS else -1 :]) for names in parts]
    return short if len(set(short)) == len(short) else list(models)
