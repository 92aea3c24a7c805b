"""Error messages that are raised in more than one place.

A message that is used once is written where it is raised. A message says what is wrong, where, and
what to do. It never contains text of a document: documents are named by id or index in the stream,
positions by character or token offsets.

Codes: M0xx model and training, M1xx data files and commands, M2xx tokenizer and saving, M3xx weak
supervision.
"""

from collections.abc import Sequence

MAX_LISTED = 10


def listing(names: Sequence[object]) -> str:
    """Join the first ten names for a message, and say how many more there are."""
    more = len(names) - MAX_LISTED
    return ", ".join(map(str, names[:MAX_LISTED])) + (f" and {more} more" if more > 0 else "")


class _WithCodes(type):
    """Puts the code in front of each message, like spaCy: `[M021] The mslm model ...`."""

    def __getattribute__(cls, name: str) -> str:
        value = super().__getattribute__(name)
        return value if name.startswith("_") else f"[{name}] {value}"


class Errors(metaclass=_WithCodes):
    """Messages by code. Reading one as an attribute puts its code in front."""

    # ---- model and training ----
    M001 = (
        "A window of {size} pieces has no room for predictions between {context} pieces of context "
        "on either side. Set model.window to more than twice model.context."
    )
    M003 = "{name} is {value}, but must be between 0 and 1."
    M004 = "{name} is {value}, but must be greater than 0."
    M020 = (
        "NaN or infinite gradient. The optimizer took no step and the weights are unchanged. Lower "
        "the learn rate, or look for broken documents in the last batch."
    )
    M021 = (
        "The mslm model has no weights yet. Call nlp.initialize() to start from an encoder, or "
        "load a trained pipeline with spacy.load()."
    )
    M025 = (
        "ONNX encoders need packages that are not installed ({error}). Install them with "
        "'pip install \"spacy-mslm[onnx]\"'."
    )

    # ---- data files and commands ----
    M101 = "Unknown {what} {got!r}. Use one of: {expected}."
    M106 = "{path}: there is no such file. Check the path."
    M109 = "{path}, line {line}: not valid UTF-8. Convert the file to UTF-8 first."
    M122 = (
        "{path}, line {line}: this is not a line of a PMI vocabulary. Expected the PMI, the number "
        "of occurrences and a collocation of 2 to 4 words, separated by tabs. Correct the line, or "
        "create the file again with 'python -m spacy mslm pmi'."
    )
    M133 = "{path} already exists. Give another --output, or --force to replace it."
    M152 = "{path}, line {line}: the compressed file is truncated or damaged here. Copy it again."
    M153 = "{path}, line {line}: a JSON record with a `text` is expected here."
    M158 = "{path} holds no documents. Check that it is the right file, and that it is complete."
    M160 = (
        "{path}, line {line}: the mention from {start} to {end} is empty, or extends beyond the "
        "text, which has {length} characters. Correct the offsets: they count characters (not "
        "bytes) from 0, and the end is exclusive."
    )
    M164 = (
        "{path}, line {line}: the document {id} already occurs on line {other}. Remove one of "
        "the two documents, or change its id."
    )
    M165 = "{path} is missing, but {other} needs it. Restore it, or remove {other}."

    # ---- tokenizer and saving ----
    M211 = (
        "{where}: the file {name} is missing. The folder was not saved completely, or files were "
        "lost when it was copied. Copy or save it again."
    )
    M212 = (
        "{where}: the file {name} was damaged or changed after it was saved (its SHA-256 differs "
        "from the manifest). Copy the folder again from its source, or save it again."
    )
    M213 = (
        "{where}: {name} is a Git LFS pointer and not the file itself. Fetch the file with 'git "
        "lfs pull', or download the folder again."
    )

    # ---- weak supervision ----
    M310 = (
        "{path} is not a file of clusters. Expected labels, and below each label semantic types "
        "with their names, as in assets/semantic_types.yml."
    )

    # ---- scispaCy and MedCAT ----
    M330 = (
        "The MedCAT annotator needs either a model pack and the environment that runs it (model, "
        "environment), or annotations that MedCAT exported (export): {problem}."
    )
    M335 = (
        "{path} is not a MedCAT export ({problem}). Give an export of MedCATtrainer, or the output "
        "of cat.get_entities_multi_texts by note id, as JSON."
    )
    M337 = (
        "{path}: the text of document {id} differs from the note with this id, so its offsets are "
        "not valid. Annotate the notes as they are read here, or correct the ids."
    )
