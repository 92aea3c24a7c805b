"""Draw how confident models are in each word of some texts."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...corpus.readers import read_docs
from ...pipeline.loading import load_pipeline
from ...util.files import mode_like, replace_file
from ...util.lines import read_lines
from .reading import TextBlock, make_block, read_model

# Files in columns. Any other file, except `.spacy`, is plain text.
IOB_SUFFIXES = (".tsv", ".iob", ".conll")
# The folders that `spacy train` writes: the name of the folder above tells what was trained.
CHECKPOINTS = ("model-best", "model-last")


def draw_heatmap(
    models: Sequence[str], texts: Path, output: Path, *, limit: int = 10
) -> list[TextBlock]:
    """Draw the confidence of one or more models in the class of every word.

    Args:
        models: Names or paths of pipelines.
        texts: A text file with one text per line, a .spacy file or folder, or an IOB file.
        output: The .html or .png file to write.
        limit: Number of texts to show; 0 for all.

    Returns:
        What is shown of each text.

    Raises:
        ValueError: If there is no model, no text, or the output is of another kind.
        ImportError: If a .png file is wanted and the extra `plots` is not installed.
    """
    if not models:
        raise ValueError(
            "A heat map needs at least one model and a file of texts: 'python -m spacy mslm "
            "heatmap MODEL TEXTS -o OUTPUT'."
        )
    render = find_renderer(output)
    sources = read_sources(texts, limit)
    docs: list[Doc] = []
    readings = []
    # One model in memory at a time.
    for model, name in zip(models, model_names(models), strict=True):
        nlp = load_pipeline(model)
        if not docs:
            for doc_id, source in sources:
                doc = nlp.make_doc(source) if isinstance(source, str) else source
                doc.user_data["id"] = doc_id
                docs.append(doc)
        readings.append(read_model(nlp, name, docs))
    blocks = [make_block(doc, of_doc) for doc, *of_doc in zip(docs, *readings, strict=True)]
    data = render(blocks)
    output.parent.mkdir(parents=True, exist_ok=True)
    replace_file(output, data, mode_like(texts))
    return blocks


def find_renderer(output: Path) -> Callable[[Sequence[TextBlock]], bytes]:
    """Return the function that draws the kind of file that `output` is."""
    suffix = output.suffix.lower()
    if output.is_dir() or suffix not in (".html", ".png"):
        raise ValueError(
            f"The output {output} is neither a .html nor a .png file. Give another path (-o)."
        )
    if suffix == ".html":
        from .html import render_html

        return render_html
    try:
        from .png import render_png
    except ImportError as err:
        raise ImportError(
            f"Drawing a PNG requires matplotlib ({err}). Install it with 'pip install "
            "\"spacy-mslm[plots]\"', or give an output that ends in '.html'."
        ) from err
    return render_png


def read_sources(path: Path, limit: int) -> list[tuple[str, str | Doc]]:
    """Read the first `limit` texts of a file: ids with strings, or with Docs if it has tokens."""
    found: Iterator[tuple[str, str | Doc]]
    if path.is_dir() or path.suffix in (".spacy", *IOB_SUFFIXES):
        docs = read_docs(path, Vocab())
        found = ((str(doc.user_data["id"]), doc) for doc in docs if doc.text.strip())
    else:
        found = ((f"{path.name}:{n}", line) for n, line in read_lines(path) if line.strip())
    sources = list(islice(found, limit or None))
    if not sources:
        raise ValueError(
            f"{path} holds no text. Give a file with one text per line, a .spacy file or an IOB "
            "file."
        )
    return sources


def model_names(models: Sequence[str]) -> list[str]:
    """Return short names of models: those of their folders if these differ, else the paths."""
    parts = [Path(model).resolve().parts if Path(model).exists() else (model,) for model in models]
    if len({names[-1] for names in parts}) == 1 and parts[0][-1] in CHECKPOINTS:
        parts = [names[:-1] for names in parts]
    short = ["/".join(names[-2 if names[-1] in CHECKPOINTS else -1 :]) for names in parts]
    return short if len(set(short)) == len(short) else list(models)
