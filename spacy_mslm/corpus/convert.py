"""Convert the items of a split to Docs, and these to the bytes of a `.spacy` file.

    Sentence (tokens)  -> Doc with the file's tokens
    Document (text)    -> Doc with a tokenizer's tokens, mentions fitted to them

No mention is dropped silently. Mentions that `doc.ents` cannot hold are listed by document and
character offsets, and their tokens count as not annotated. In formats in which mentions can
overlap, span groups keep them:

    doc.spans["mentions"]       all mentions in one part that fit the tokens, also those of doc.ents
    doc.spans["discontinuous"]  the parts of the others; the parts of a mention have the same id_
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab
from tqdm import tqdm

from ..text.tokenizer import make_tokenizer
from ..types import Mention
from ..util.spans import drop_overlapping
from .counts import Counts, count_docs
from .detokenise import count_expressible
from .formats.records import DISCONTINUOUS, Document, LeftOut, Sentence
from .items import Item, item_id, item_text
from .readers import sentences_to_doc, set_mentions
from .splits import Source

SPLITS_A_TOKEN = "it splits a token"
OVERLAPS = "it overlaps a longer one"
# The span groups of mentions that doc.ents cannot hold.
MENTIONS, PARTS = "mentions", "discontinuous"
# The prefix of --tokenizer for the biomedical rules of spacy_mslm.Tokenizer.v1.
BIOMEDICAL = "biomedical"


@dataclass
class Split:
    """A converted split.

    data: The bytes of its `.spacy` file.
    texts: Id and text of each sentence or document.
    left_out: Mentions that are not in `doc.ents`, with the id of their document. Offsets are
        characters of the Doc's text.
    expressible: For formats with tokens, the number of mentions that the tokenizer can express in
        running text.
    gain: The number of mentions that split a token of the tokenizer, but none of the biomedical
        one; 0 if that is the tokenizer.
    kept: The number of mentions that are not in `doc.ents`, but in a span group.
    duplicates: A warning about texts that are also in train, or "".
    """

    source: Source
    data: bytes
    counts: Counts
    texts: list[tuple[str, str]]
    left_out: list[tuple[str, LeftOut]] = field(default_factory=list)
    expressible: int | None = None
    gain: int = 0
    kept: int = 0
    duplicates: str = ""


def load_tokenizer(name: str) -> Language:
    """Return a pipeline to tokenize with.

    Args:
        name: `blank:en`, or another language, for spaCy's rules with `spacy_mslm.Tokenizer.v1`;
            `biomedical:en` for its biomedical rules; else the name or path of a pipeline.
    """
    kind, _, language = name.partition(":")
    if kind not in ("blank", BIOMEDICAL):
        return spacy.load(name)
    nlp = spacy.blank(language)
    nlp.tokenizer = make_tokenizer(biomedical=kind == BIOMEDICAL)(nlp)
    return nlp


@lru_cache(maxsize=1)
def _load_biomedical(language: str) -> Callable[[str], Doc]:
    return load_tokenizer(f"{BIOMEDICAL}:{language}").tokenizer


def convert_items(source: Source, items: Sequence[Item], nlp: Language, n_sents: int = 1) -> Split:
    """Convert the items of a split, which are of one kind.

    Args:
        source: The split.
        items: Its items.
        nlp: The pipeline whose tokenizer is used for running text.
        n_sents: Number of consecutive sentences to join into one document.
    """
    finer = _load_biomedical(nlp.lang)
    sentences = [item for item in items if isinstance(item, Sentence)]
    documents = [item for item in items if isinstance(item, Document)]
    if sentences:
        return _convert_sentences(source, sentences, nlp.tokenizer, finer, n_sents)
    if documents:
        return _convert_documents(source, documents, nlp.tokenizer, finer)
    return _make_split(source, [item for item in items if isinstance(item, Doc)], items)


def _convert_sentences(
    source: Source,
    sentences: Sequence[Sentence],
    tokenize: Callable[[str], Doc],
    finer: Callable[[str], Doc],
    n_sents: int,
) -> Split:
    vocab = Vocab()  # not the tokenizer's: the file must not depend on it
    starts = source.format != "ebm_nlp"  # its records are longer than a sentence
    docs = [
        sentences_to_doc(vocab, sentences[i : i + n_sents], starts=starts)
        for i in range(0, len(sentences), n_sents)
    ]
    if source.format == "gliner":
        for doc, sentence in zip(docs, sentences, strict=True):
            _set_group(doc, [*sentence.mentions, *sentence.overlapping])
    split = _make_split(source, docs, sentences)
    split.kept = sum(len(sentence.overlapping) for sentence in sentences)
    for sentence in sentences:
        overlapping = [LeftOut(start, end, OVERLAPS) for start, end, _ in sentence.overlapping]
        for start, end, reason in (*sentence.left_out, *overlapping):
            first = sum(len(word) + 1 for word in sentence.words[:start])
            last = first + len(" ".join(sentence.words[start:end]))
            split.left_out.append((sentence.id, LeftOut(first, last, reason)))
    progress = tqdm(sentences, desc=f"{source.name}, detokenised", disable=None, leave=False)
    split.expressible, split.gain = count_expressible(progress, tokenize, finer)
    return split


def _convert_documents(
    source: Source,
    documents: Sequence[Document],
    tokenize: Callable[[str], Doc],
    finer: Callable[[str], Doc],
) -> Split:
    docs = []
    left_out: list[tuple[str, LeftOut]] = []
    gain = 0
    for document in tqdm(documents, desc=source.name, unit=" docs", disable=None, leave=False):
        # Not nlp(): its limit on the length is for pipes, which do not run here.
        doc = tokenize(document.text)
        doc.user_data["id"] = document.id
        missed = fit_mentions(doc, document)
        split_tokens = [left for left in missed if left.reason == SPLITS_A_TOKEN]
        if split_tokens:
            fine = finer(document.text)
            gain += sum(fine.char_span(start, end) is not None for start, end, _ in split_tokens)
        left_out += [(document.id, left) for left in missed]
        docs.append(doc)
    split = _make_split(source, docs, documents)
    split.left_out, split.gain = left_out, gain
    nested = sum(left.reason == OVERLAPS for _, left in left_out)
    split.kept = nested + sum(len({span.id for span in doc.spans[PARTS]}) for doc in docs)
    return split


def fit_mentions(doc: Doc, document: Document) -> list[LeftOut]:
    """Set the entities and span groups of a Doc to the mentions that fit its tokens.

    Where mentions overlap, the entity is the longest, or the first of equally long ones.

    Returns:
        The mentions that are not entities.
    """
    left_out: list[LeftOut] = []
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
    for parts, _ in document.in_parts:
        end = max(end for _, end in parts)
        left_out.append(LeftOut(min(parts)[0], end, DISCONTINUOUS))
    missing: set[int] = set()
    for start, end, _ in left_out:
        cover = doc.char_span(start, end, alignment_mode="expand")
        missing.update(range(cover.start, cover.end) if cover is not None else ())
    set_mentions(doc, [Mention(start, end, m.label) for start, end, m in kept], missing)
    _set_group(doc, [Mention(start, end, m.label) for start, end, m in fitting])
    _set_parts(doc, document)
    return sorted(left_out)


def _set_group(doc: Doc, mentions: Iterable[Mention]) -> None:
    ordered = sorted(mentions, key=lambda mention: (mention.start, -mention.end, mention.label))
    doc.spans[MENTIONS] = [Span(doc, start, end, label) for start, end, label in ordered]


def _set_parts(doc: Doc, document: Document) -> None:
    """Set the group of parts. Mentions of which a part splits a token are not in it."""
    spans = []
    for number, (parts, label) in enumerate(document.in_parts):
        found = [doc.char_span(start, end, label) for start, end in sorted(parts)]
        if None not in found:
            name = str(number)
            spans += [Span(doc, s.start, s.end, label, span_id=name) for s in found if s]
    doc.spans[PARTS] = spans


def _make_split(source: Source, docs: list[Doc], items: Sequence[Item]) -> Split:
    # Not all attributes: lexical ones such as norms would only make the file larger.
    doc_bin = DocBin(attrs=["ENT_IOB", "ENT_TYPE", "SENT_START"], store_user_data=True)
    for doc in docs:
        doc_bin.add(doc)
    # Sentences are compared, not documents: joined ones differ as soon as one sentence does.
    texts = [(item_id(item), item_text(item)) for item in items]
    return Split(source, doc_bin.to_bytes(), count_docs(docs), texts)
