"""The `mslm_context` pipe: whether an entity is a finding of the patient."""

from collections.abc import Sequence

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..util.extensions import CONTEXTS
from .context import ContextRules


class ContextPipe:
    """Sets the contexts of entities by the rules of `spacy_mslm.Context.v1`.

    For each entity, `ent._.negated`, `ent._.hypothetical`, `ent._.family` and `ent._.template` are
    True or False. Several may be True. Sentences are those of the document; if no pipe has set any,
    they are found by rule, as in the `mslm` pipe.

    Args:
        name: The name of the pipe.
        spans_key: Read `doc.spans[spans_key]`. If it is None, `doc.ents` is read.
    """

    def __init__(self, name: str, spans_key: str | None = None) -> None:
        self.name = name
        self.spans_key = spans_key
        self._rules = ContextRules()

    def __call__(self, doc: Doc) -> Doc:
        """Set the contexts of the entities of a document."""
        spans: Sequence[Span] = doc.ents
        if self.spans_key is not None:
            spans = list(doc.spans.get(self.spans_key, ()))
        for span, kinds in zip(spans, self._rules(doc, spans), strict=True):
            for kind in CONTEXTS:
                setattr(span._, kind, kind in kinds)
        return doc


@Language.factory(
    "mslm_context",
    requires=["doc.ents"],
    assigns=[f"span._.{kind}" for kind in CONTEXTS],
    default_config={"spans_key": None},
)
def make_context_pipe(nlp: Language, name: str, spans_key: str | None) -> ContextPipe:
    """`mslm_context`: creates the pipe.

    Args:
        nlp: The pipeline.
        name: The name of the pipe.
        spans_key: Read `doc.spans[spans_key]`. If it is None, `doc.ents` is read.
    """
    return ContextPipe(name, spans_key)
