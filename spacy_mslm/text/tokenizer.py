"""spaCy's tokenizer, made safe for notes as they are: every text of n characters is tokenised in
time linear in n, lone surrogates do not stop the stream, and texts may be long.

spaCy takes prefixes and suffixes off one by one and searches the rest again each time, so a run of
n signs costs n²: 8,000 times "=" takes 14 s. Runs that long are cut before spaCy sees them, only
ever between two characters that are no whitespace, so that the whitespace rules are spaCy's:

    text     Vitals: ======= ... ======= stable
    pieces   |Vitals: ===…|===…|===…|=== stable|       cut inside the run, each 64 signs
    joined   one Doc, doc.text == text

Text without such runs gets exactly spaCy's tokens.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator

from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc
from spacy.util import compile_infix_regex, compile_prefix_regex, compile_suffix_regex

logger = logging.getLogger("spacy_mslm")

# Signs come off one by one from both ends: at most 64 in a row. The underscore is a word character
# for `re`, but a prefix and suffix for spaCy.
SIGNS = 64
_CANDIDATE = re.compile(rf"(?<!\S)\S{{{SIGNS + 1},}}")  # far cheaper to look for than a sign run
_SIGN_RUN = re.compile(rf"(?<![^\w\s])(?<!_)(?:[^\w\s]|_){{{SIGNS + 1},}}")
# Affixes with letters ("US$US$…", "'s's…") and the search for a URL ("a:a:a:…") are quadratic, too,
# in the length of a stretch without whitespace. Sequences, URLs and chemical names are shorter.
STRETCH = 1024
_LONG_STRETCH = re.compile(rf"(?<!\S)\S{{{STRETCH + 1},}}")
_SURROGATE = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\ufffd"
OFFSETS_LOGGED = 10


class MSLMTokenizer(Tokenizer):
    """spaCy's tokenizer on pieces of bounded cost. Rules, saving and pickling are inherited."""

    def __call__(self, string: str) -> Doc:
        """The Doc of a text, with `doc.text == string` but for lone surrogates. These cannot be
        encoded: each is replaced by U+FFFD, which keeps all character offsets, and their offsets
        are put in `doc.user_data["replaced_surrogates"]`."""
        surrogates = [match.start() for match in _SURROGATE.finditer(string)]
        if surrogates:
            string = _SURROGATE.sub(REPLACEMENT, string)
            shown = ", ".join(str(offset) for offset in surrogates[:OFFSETS_LOGGED])
            more = ", …" if len(surrogates) > OFFSETS_LOGGED else ""
            logger.warning(
                f"{len(surrogates)} lone surrogate(s) in a text were replaced by U+FFFD, at "
                f"character offsets {shown + more}. The text was decoded wrongly: read its "
                "file as UTF-8 with errors='replace'."
            )
        pieces = list(_pieces(string))
        if len(pieces) == 1:
            doc = super().__call__(string)
        else:
            doc = self._join([super(MSLMTokenizer, self).__call__(piece) for piece in pieces])
        if surrogates:
            doc.user_data["replaced_surrogates"] = surrogates
        return doc

    def explain(self, text: str) -> list[tuple[str, str]]:
        """As of spaCy: (rule, token) for each token of `self(text)` that is no whitespace."""
        pieces = _pieces(_SURROGATE.sub(REPLACEMENT, text))
        return [pair for piece in pieces for pair in super(MSLMTokenizer, self).explain(piece)]

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "MSLMTokenizer":
        """As of spaCy, but what is here already is not taken in again: rules are added one by one,
        which takes longer than to load a small encoder."""
        if bytes_data != self.to_bytes(exclude=exclude):
            super().from_bytes(bytes_data, exclude=exclude)
        return self

    def _join(self, parts: list[Doc]) -> Doc:
        """One Doc of the tokens of all the parts."""
        tokens = [token for part in parts for token in part]
        doc = Doc(
            self.vocab,
            words=[token.text for token in tokens],
            spaces=[bool(token.whitespace_) for token in tokens],
        )
        for token, source in zip(doc, tokens, strict=True):
            # Exceptions set a norm on the token ("n't": "not") that its word alone does not have.
            if token.norm != source.norm:
                token.norm_ = source.norm_
        return doc


def make_tokenizer(max_length: int = 10_000_000) -> Callable[[Language], MSLMTokenizer]:
    """The registered tokenizer `spacy_mslm.Tokenizer.v1`, with the rules of the language.

    max_length: Set as `nlp.max_length`; a longer text is spaCy's error E088. spaCy's own limit of
        1,000,000 characters is there for parsers that hold a whole text in memory; the `mslm` pipe
        works in windows and needs little more than the Doc itself.
    """

    def create(nlp: Language) -> MSLMTokenizer:
        nlp.max_length = max_length
        defaults = nlp.Defaults
        prefixes, suffixes, infixes = defaults.prefixes, defaults.suffixes, defaults.infixes
        return MSLMTokenizer(
            nlp.vocab,
            rules=defaults.tokenizer_exceptions,
            prefix_search=compile_prefix_regex(prefixes).search if prefixes else None,
            suffix_search=compile_suffix_regex(suffixes).search if suffixes else None,
            infix_finditer=compile_infix_regex(infixes).finditer if infixes else None,
            token_match=defaults.token_match,
            url_match=defaults.url_match,
        )

    return create


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that join to it again; the text itself if nothing is to be cut."""
    if _CANDIDATE.search(text) is None:
        yield text
        return
    for part in _cut(text, _SIGN_RUN, SIGNS):
        yield from _cut(part, _LONG_STRETCH, STRETCH)


def _cut(text: str, runs: re.Pattern[str], size: int) -> Iterator[str]:
    """Cut every run that matches into chunks of `size` characters. What is before a run stays with
    its first chunk, what is after it with its last one."""
    start = 0
    for run in runs.finditer(text):
        for end in range(run.start() + size, run.end(), size):
            yield text[start:end]
            start = end
    yield text[start:]
