"""Convert a split of any format to Docs, and these to the bytes of a `.spacy` file.

    formats   -> Sentence (tokens)  -> Doc with the file's tokens
              -> Document (text)    -> Doc with a tokenizer's tokens, mentions fitted to them

Mentions that `doc.ents` cannot hold are never dropped silently: their tokens count as not
annotated, and they are listed by document and character offsets.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from tqdm import tqdm

from ..text.tokenizer import make_tokenizer
from ..types import Mention
from ..util.spans import drop_overlapping
from .counts import Counts, count_docs
from .detokenise import count_expressible
from .formats.bioc import read_bioc
from .formats.brat import read_brat
from .formats.ebm_nlp import read_ebm_nlp
from .formats.iob import read_iob
from .formats.jsonl import read_jsonl
from .formats.pubtator import read_pubtator
from .formats.records import Document, LeftOut, Sentence
from .gold_faults import GoldFaults
from .readers import read_gold, select, sentences_to_doc, set_mentions
from .splits import Source

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
    """A converted split.

    data: The bytes of its `.spacy` file.
    texts: Id and text of each sentence of an IOB file, or of each document.
    left_out: Mentions that are left out, with the id of their document. Offsets are characters of
        the Doc's text.
    expressible: For formats with tokens, the number of mentions that the tokenizer can express in
        running text.
    duplicates: A warning about texts that are also in train, or "".
    """

    source: Source
    data: bytes
    counts: Counts
    texts: list[tuple[str, str]]
    left_out: list[tuple[str, LeftOut]] = field(default_factory=list)
    expressible: int | None = None
    duplicates: str = ""


def load_tokenizer(name: str) -> Language:
    """Return a pipeline to tokenize with.

    Args:
        name: `blank:en`, or another language, for spaCy's rules with `spacy_mslm.Tokenizer.v1`;
            else the name or path of a pipeline.
    """
    kind, _, language = name.partition(":")
    if kind != "blank":
        return spacy.load(name)
    nlp = spacy.blank(language)
    nlp.tokenizer = make_tokenizer()(nlp)
    return nlp


def read_split(
    source: Source, nlp: Language, *, scheme: str, limit: int, seed: int | None, n_sents: int
) -> Split:
    """Read a split, tokenize running text, fit its mentions to tokens, and count.

    Args:
        source: The files, their format and the output.
        nlp: The pipeline whose tokenizer is used for running text.
        scheme: The label scheme of IOB files.
        limit: Number of sentences or documents to keep; 0 for all.
        seed: Seed to shuffle them before the limit; None for their order in the file.
        n_sents: Number of consecutive sentences of an IOB file to join into one document.
    """
    for option, given in (("--scheme", scheme != "auto"), ("--n-sents", n_sents > 1)):
        if given and source.format != "iob":
            raise ValueError(
                f"{option} applies to IOB files only, but the format of {source.path} is "
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
    vocab = Vocab()  # not the tokenizer's: the file must not depend on it
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
    """Set the entities of a Doc to the mentions that fit its tokens.

    Where mentions overlap the longest is kept, or the first of equally long ones.

    Returns:
        The mentions that are left out, including those of the reader.
    """
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
    # Not all attributes: lexical ones such as norms would only make the file larger.
    doc_bin = DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SENT_START"], store_user_data=True)
    for doc in docs:
        doc_bin.add(doc)
    texts = [(str(doc.user_data["id"]), doc.text) for doc in docs]
    return Split(source, doc_bin.to_bytes(), count_docs(docs), texts)
