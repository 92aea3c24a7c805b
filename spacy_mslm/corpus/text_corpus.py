"""Unannotated text -> documents, or their sentences."""

from collections.abc import Iterator, Sequence

from spacy.language import Language
from spacy.tokens import Doc

from ..text.plain_texts import read_texts, text_files
from ..text.sentences import sentence_docs
from .readers import read_docs, select


class TextCorpus:
    """`spacy_mslm.TextCorpus.v1`: documents without annotation.

    text: Files of plain text with a sentence, passage or document per line, or `.jsonl`; both may
        be compressed (`.gz`). Of `.spacy` files or folders of them, only the words are used. None
        for no text.
    limit: Maximum number of documents; 0 for all.
    seed: Seed of a shuffle before the limit is applied; null to keep the order of the files. All
        documents are held in memory for it.
    """

    def __init__(
        self, text: str | Sequence[str] | None, limit: int = 0, seed: int | None = 0
    ) -> None:
        self.text = text_files(text)
        self.limit = limit
        self.seed = seed

    def __bool__(self) -> bool:
        """Return whether there is text."""
        return bool(self.text)

    def __call__(self, nlp: Language, split_sentences: bool) -> Iterator[Doc]:
        """Yield a Doc for each document, or for each of its sentences.

        nlp: Pipeline whose tokenizer and vocabulary are used.
        """
        for doc in self._documents(nlp):
            if split_sentences:
                yield from sentence_docs(doc)
            else:
                yield doc

    def _documents(self, nlp: Language) -> Iterator[Doc]:
        for name, line in select(read_texts(self.text.plain), self.limit, self.seed):
            doc = nlp.make_doc(line)
            doc.user_data["id"] = name
            yield doc
        docs = (doc for path in self.text.annotated for doc in read_docs(path, nlp.vocab))
        yield from select(docs, self.limit, self.seed)
