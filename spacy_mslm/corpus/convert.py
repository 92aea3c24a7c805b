"""Annotated files of any format -> reference Docs -> `.spacy` files with statistics.

    formats   -> Sentence (tokens)  -> Doc with the file's tokens
              -> Document (text)    -> Doc with a tokenizer's tokens, mentions fitted to them

What `doc.ents` cannot hold is never dropped in silence: it is left out, its tokens count as not
annotated, and it is listed by document and character offsets.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from tqdm import tqdm

from ..text.tokenizer import make_tokenizer
from ..types import Mention
from ..util.files import replace_files
from ..util.spans import drop_overlapping
from .counts import Counts, Row, compare, count_docs, make_figures, read_paper
from .detokenise import count_expressible
from .duplicates import duplicate_warning, text_key
from .formats.bioc import read_bioc
from .formats.brat import read_brat
from .formats.ebm_nlp import read_ebm_nlp
from .formats.iob import read_iob
from .formats.jsonl import read_jsonl
from .formats.pubtator import read_pubtator
from .formats.records import Document, LeftOut, Sentence
from .gold_faults import GoldFaults
from .readers import read_gold, select, sentences_to_doc, set_mentions
from .splits import Source, find_sources

STATISTICS = "stats.json"
SPLITS_A_TOKEN = "it splits a token"
OVERLAPS = "it overlaps a longer one"
TEXT_FORMATS: dict[str, Callable[[Path], Iterator[Document]]] = {
    "brat": read_brat,
    "pubtator": read_pubtator,
    "bioc": read_bioc,
    "jsonl": read_jsonl,
}


@dataclass
class Split:
    """A converted split: what is written, and what is told of it.

    texts: id and text of each sentence, where there are, or document.
    left_out: by document id; offsets are characters of the Doc's text.
    expressible: mentions that the tokenizer can express in detokenised text, if it was split.
    """

    source: Source
    data: bytes
    counts: Counts
    texts: list[tuple[str, str]]
    left_out: list[tuple[str, LeftOut]] = field(default_factory=list)
    expressible: int | None = None
    duplicates: str = ""


@dataclass
class Conversion:
    """All splits; of a folder also its statistics, as rows and as they are written."""

    splits: list[Split]
    rows: list[Row] = field(default_factory=list)
    statistics: dict[str, Any] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)


def convert(
    input_path: Path,
    output_path: Path,
    *,
    format: str = "auto",
    scheme: str = "auto",
    tokenizer: str = "blank:en",
    limit: int = 0,
    seed: int | None = None,
    n_sents: int = 1,
    set_name: str | None = None,
) -> Conversion:
    """Convert a file, or the splits of a folder, and write the result when all of it is read.

    format: One of `formats.detection.FORMATS`, or auto.
    scheme: As in `formats.iob.read_iob`.
    limit, seed: As in `readers.make_corpus`. Of a folder, limit and seed concern train
        only: the other splits stay comparable with published figures.
    tokenizer: As in `load_tokenizer`.
    n_sents: Consecutive sentences of an IOB file to join into one document, with starts marked.
    set_name: The set in the paper's Table 9 to compare with; the output folder's name if None.
    """
    sources = find_sources(input_path, output_path, format)
    is_set = sources[0].output != output_path
    nlp = load_tokenizer(tokenizer)
    conversion = Conversion([])
    train_keys: set[bytes] = set()
    for source in sources:
        whole = is_set and source.name != "train"
        split = read_split(
            source,
            nlp,
            scheme=scheme,
            limit=0 if whole else limit,
            seed=None if whole else seed,
            n_sents=n_sents,
        )
        if source.name == "train":
            train_keys = {text_key(text) for _, text in split.texts}
        else:
            split.duplicates = duplicate_warning(
                train_keys, split.texts, train="train", other=source.name
            )
        conversion.splits.append(split)
    if not limit:
        check_labels(conversion.splits)
    files = {split.source.output: split.data for split in conversion.splits}
    if is_set:
        add_statistics(conversion, set_name or output_path.resolve().name, tokenizer)
        data = json.dumps(conversion.statistics, indent=2, ensure_ascii=False) + "\n"
        files[output_path / STATISTICS] = data.encode("utf8")
    # What only its owner can read, as a weakly labelled corpus, stays so.
    mode = 0o666 if input_path.stat().st_mode & 0o077 else 0o600
    try:
        replace_files(files, mode)
    except OSError as err:
        raise OSError(
            f"{err.filename} cannot be written ({err.strerror}). Nothing was written, and "
            "files of an earlier run are as they were. Make room on the disk, or give another "
            "output."
        ) from None
    conversion.written = list(files)
    return conversion


def load_tokenizer(name: str) -> Language:
    """A pipeline for its tokenizer: `blank:en`, or of another language, has spaCy's rules, guarded
    by `spacy_mslm.Tokenizer.v1`; anything else is the name or folder of a pipeline."""
    kind, _, language = name.partition(":")
    if kind != "blank":
        return spacy.load(name)
    nlp = spacy.blank(language)
    nlp.tokenizer = make_tokenizer()(nlp)
    return nlp


# ---- one split ----


def read_split(
    source: Source, nlp: Language, *, scheme: str, limit: int, seed: int | None, n_sents: int
) -> Split:
    """Read, tokenise where it is to be, fit and count a split."""
    for option, given in (("--scheme", scheme != "auto"), ("--n-sents", n_sents > 1)):
        if given and source.format != "iob":
            raise ValueError(
                f"{option} concerns IOB files only, but {source.path} is of the format "
                f"{source.format}. Leave the option out, or name the format (--format)."
            )
    if source.format in TEXT_FORMATS:
        documents = select(TEXT_FORMATS[source.format](source.path), limit, seed)
        return _convert_documents(source, documents, nlp)
    if source.format == "spacy":
        faults = GoldFaults(source.path)
        docs = list(select(read_gold(source.path, nlp.vocab, faults), limit, seed))
        faults.report()
        return _make_split(source, docs)
    if source.format == "iob":
        sentences = list(select(read_iob(source.path, scheme), limit, seed))
    else:
        sentences = list(select(read_ebm_nlp(source.path, source.name), limit, seed))
    return _convert_sentences(source, sentences, nlp, n_sents)


def _convert_sentences(
    source: Source, sentences: Sequence[Sentence], nlp: Language, n_sents: int
) -> Split:
    vocab = Vocab()  # not the tokenizer's, on which the file would depend in part
    docs = [
        sentences_to_doc(vocab, sentences[i : i + n_sents], starts=source.format == "iob")
        for i in range(0, len(sentences), n_sents)
    ]
    split = _make_split(source, docs)
    # Sentences are compared, not documents: joined ones differ as soon as one sentence does.
    split.texts = [(s.id, " ".join(s.words)) for s in sentences]
    for sentence in sentences:
        for start, end, reason in sentence.left_out:
            first = sum(len(word) + 1 for word in sentence.words[:start])
            last = first + len(" ".join(sentence.words[start:end]))
            split.left_out.append((sentence.id, LeftOut(first, last, reason)))
    progress = tqdm(sentences, desc=f"{source.name}, detokenised", disable=None, leave=False)
    split.expressible = count_expressible(progress, nlp.tokenizer)
    return split


def _convert_documents(source: Source, documents: Iterator[Document], nlp: Language) -> Split:
    docs = []
    left_out = []
    for document in tqdm(documents, desc=source.name, unit=" docs", disable=None, leave=False):
        # Not nlp(): its limit on the length is for pipes, which do not run here.
        doc = nlp.tokenizer(document.text)
        doc.user_data["id"] = document.id
        left_out += [(document.id, left) for left in fit_mentions(doc, document)]
        docs.append(doc)
    split = _make_split(source, docs)
    split.left_out = left_out
    return split


def fit_mentions(doc: Doc, document: Document) -> list[LeftOut]:
    """Set the entities of a Doc: the mentions that fit its tokens, and of those that overlap the
    longest, the first of two equally long. Returns all others, those of the reader included."""
    left_out = list(document.left_out)
    fitting: list[tuple[int, int, Mention]] = []  # tokens, and the mention in characters
    for start, end, label in dict.fromkeys(document.mentions):
        span = doc.char_span(start, end)
        if span is None:
            left_out.append(LeftOut(start, end, SPLITS_A_TOKEN))
        else:
            fitting.append((span.start, span.end, Mention(start, end, label)))
    fitting.sort(key=lambda item: item[2].start - item[2].end)
    kept = drop_overlapping(fitting)
    overlapping = {item[2] for item in fitting} - {item[2] for item in kept}
    left_out += [LeftOut(mention.start, mention.end, OVERLAPS) for mention in overlapping]
    missing: set[int] = set()
    for start, end, _ in left_out:
        cover = doc.char_span(start, end, alignment_mode="expand")
        missing.update(range(cover.start, cover.end) if cover is not None else ())
    set_mentions(doc, [Mention(start, end, m.label) for start, end, m in kept], missing)
    return sorted(left_out)


def _make_split(source: Source, docs: list[Doc]) -> Split:
    # Not all attributes: norms and the like are the vocabulary's, and only make the file larger.
    doc_bin = DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SENT_START"], store_user_data=True)
    for doc in docs:
        doc_bin.add(doc)
    texts = [(str(doc.user_data["id"]), doc.text) for doc in docs]
    return Split(source, doc_bin.to_bytes(), count_docs(docs), texts)


# ---- all splits ----


def check_labels(splits: Sequence[Split]) -> None:
    """Refuse a label of another split that train does not have: it could never be predicted."""
    labels = {split.source.name: set(split.counts.labels) for split in splits}
    for split in splits:
        new = labels[split.source.name] - labels.get("train", labels[split.source.name])
        if new:
            raise ValueError(
                f"{split.source.path} has labels that train has not, so that they could "
                f"never be predicted: {', '.join(sorted(new))}. Train has: "
                f"{', '.join(sorted(labels['train'])) or 'none'}. Give them train's names, "
                "remove them there, or add such mentions to train."
            )


def add_statistics(conversion: Conversion, set_name: str, tokenizer: str) -> None:
    """The figures of Table 9, beside the paper's where it has the set."""
    splits = {split.source.name: split for split in conversion.splits}
    # Whatever the folder is called: this is known not to be the paper's version.
    if any(split.source.format == "ebm_nlp" for split in conversion.splits):
        set_name = "ebm_nlp"
    figures = make_figures({name: split.counts for name, split in splits.items()})
    paper = read_paper(set_name)
    conversion.rows = compare(figures, paper)
    conversion.statistics = {
        "set": set_name,
        "formats": {name: split.source.format for name, split in splits.items()},
        **figures,
        "documents": {name: split.counts.docs for name, split in splits.items()},
        "labels": {name: dict(sorted(s.counts.labels.items())) for name, s in splits.items()},
        "paper": paper or None,
        "differences": [row.name for row in conversion.rows if row.differs],
        "tokenizer": tokenizer,
        "detokenised": {
            name: {"mentions": split.counts.mentions, "expressible": split.expressible}
            for name, split in splits.items()
            if split.expressible is not None
        },
        "left_out": {
            name: [{"id": doc, **left._asdict()} for doc, left in split.left_out]
            for name, split in splits.items()
        },
    }
