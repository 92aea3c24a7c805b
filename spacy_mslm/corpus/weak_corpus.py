"""Unannotated text -> sentences with weak labels, from a terminology or a pipeline."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..text.plain_texts import as_paths, read_texts, text_files
from ..text.sentences import sentence_docs, sentence_spans
from ..text.terminology import Terminology
from ..util.extensions import annotated_labels, confidence_of, set_annotated_labels
from ..util.settings import check_at_least, check_between
from .readers import read_gold, select

Annotate = Callable[[Iterable[Doc]], Iterable[Doc]]


class WeakCorpus:
    """`spacy_mslm.WeakCorpus.v1`: the sentences of a text that have entities.

    text: Files. `.spacy` files or folders of them hold documents with entities, as `spacy apply`
        writes them. Other files are plain text with a sentence, passage or document per line, or
        `.jsonl`; both may be compressed (`.gz`). None for no text.
    terms: Tables of terms to look up in plain text, see `terminology`. None if the caller of the
        corpus annotates plain text.
    min_confidence: Leave out sentences with an entity below this `span._.confidence`, which an
        `mslm` pipe sets. Entities without a confidence are kept.
    limit: Maximum number of documents; 0 for all.
    seed: Seed of a shuffle before the limit is applied; null to keep the order of the files. All
        documents are held in memory for it.
    """

    def __init__(
        self,
        text: str | Sequence[str] | None,
        terms: str | Sequence[str] | None = None,
        min_confidence: float = 0.0,
        limit: int = 0,
        seed: int | None = 0,
    ) -> None:
        check_between("corpus.min_confidence", min_confidence, 0, 1)
        check_at_least("corpus.limit", limit, 0)
        self.text = text_files(text)
        self.terms = as_paths(terms)
        self.min_confidence = min_confidence
        self.limit = limit
        self.seed = seed

    def __bool__(self) -> bool:
        """Return whether there is text."""
        return bool(self.text)

    @property
    def needs_labels(self) -> bool:
        """Whether there is plain text that `annotate` has to annotate."""
        return bool(self.text.plain) and not self.terms

    @property
    def all_need_labels(self) -> bool:
        """Whether `annotate` has to annotate all of the text."""
        return self.needs_labels and not self.text.annotated

    def __call__(self, nlp: Language, annotate: Annotate | None = None) -> Iterator[Example]:
        """Yield an Example for each sentence that has entities.

        nlp: Pipeline whose tokenizer and vocabulary are used.
        annotate: Sets the entities of a stream of Docs; needed if `needs_labels`.
        """
        for sentence in self._sentences(nlp, annotate):
            if sentence.ents and self._trusts(sentence):
                yield _example(sentence)

    def _trusts(self, sentence: Span) -> bool:
        confidences = [confidence_of(ent) for ent in sentence.ents]
        return all(value is None or value >= self.min_confidence for value in confidences)

    def _sentences(self, nlp: Language, annotate: Annotate | None) -> Iterator[Span]:
        """Yield all sentences, with or without entities."""
        if self.text.plain:
            yield from (doc[:] for doc in self._annotated_plain(nlp, annotate))
        docs = (doc for path in self.text.annotated for doc in read_gold(path, nlp.vocab))
        for doc in select(docs, self.limit, self.seed):
            yield from sentence_spans(doc)

    def _annotated_plain(self, nlp: Language, annotate: Annotate | None) -> Iterable[Doc]:
        docs = (
            sentence
            for name, line in select(read_texts(self.text.plain), self.limit, self.seed)
            for sentence in sentence_docs(_named(nlp.make_doc(line), name))
        )
        if self.terms:
            return _annotate_terms(docs, Terminology(self.terms, nlp.Defaults.stop_words))
        if annotate is None:
            raise ValueError(
                "A corpus of plain text has no entities. Give tables of terms, or a .spacy file "
                "with entities, as 'python -m spacy apply' writes it."
            )
        return annotate(docs)


def _annotate_terms(docs: Iterable[Doc], terminology: Terminology) -> Iterator[Doc]:
    for doc in docs:
        doc.set_ents(terminology(doc), default="outside")
        yield doc


def _example(sentence: Span) -> Example:
    reference = _named(sentence.as_doc(), sentence.doc.user_data["id"])
    annotated = annotated_labels(sentence.doc)
    if annotated is not None:
        set_annotated_labels(reference, annotated)
    predicted = reference.copy()
    predicted.set_ents([], default="missing")
    return Example(predicted, reference)


def _named(doc: Doc, name: str) -> Doc:
    doc.user_data["id"] = name
    return doc
