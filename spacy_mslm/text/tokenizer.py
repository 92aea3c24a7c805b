"""spaCy's tokenizer, made safe for clinical notes: its run time is linear in the length of the
text, lone surrogates raise no error, and texts may be long.

spaCy splits off prefixes and suffixes one by one and searches the rest again each time, so its run
time is quadratic in the length of a run of signs: 8,000 times "=" takes 14 s. Long runs are cut
before spaCy tokenises them, always between two characters that are not whitespace, so that the
whitespace rules remain spaCy's:

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

from ..errors import listing
from ..util.lines import LONE_SURROGATE, REPLACEMENT

logger = logging.getLogger("spacy_mslm")

# Longest run of signs that spaCy gets. The underscore is a word character for `re`, but a prefix
# and suffix for spaCy.
SIGNS = 64
_CANDIDATE = re.compile(rf"(?<!\S)\S{{{SIGNS + 1},}}")  # much faster to search than a run of signs
_SIGN_RUN = re.compile(rf"(?<![^\w\s])(?<!_)(?:[^\w\s]|_){{{SIGNS + 1},}}")
# Affixes with letters ("US$US$…", "'s's…") and the URL search ("a:a:a:…") are also quadratic in the
# length of a stretch without whitespace. Sequences, URLs and chemical names are shorter than this.
STRETCH = 1024
_LONG_STRETCH = re.compile(rf"(?<!\S)\S{{{STRETCH + 1},}}")
# Signs that the biomedical rules split off: all but points and commas between digits ("0.05").
_SIGN = r"(?:[^\w\s]|_)"
_INNER_SIGN = r"(?:[^\w\s.,]|_|(?<![0-9])[.,]|[.,](?![0-9]))"


class MSLMTokenizer(Tokenizer):
    """spaCy's tokenizer, called on pieces of bounded cost. Rules and saving are inherited."""

    def __call__(self, string: str) -> Doc:
        """Tokenise a text.

        Lone surrogates cannot be encoded. Each is replaced by U+FFFD, which keeps all character
        offsets, and `doc.user_data["replaced_surrogates"]` lists their offsets. Apart from these,
        `doc.text == string`.
        """
        surrogates = [match.start() for match in LONE_SURROGATE.finditer(string)]
        if surrogates:
            string = LONE_SURROGATE.sub(REPLACEMENT, string)
            logger.warning(
                f"{len(surrogates)} lone surrogate(s) in a text were replaced by U+FFFD, at "
                f"character offsets {listing(surrogates)}. The text was decoded wrongly: read "
                "its file as UTF-8 with errors='replace'."
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
        """Return (rule, token) for each token that is not whitespace, as in spaCy."""
        pieces = _pieces(LONE_SURROGATE.sub(REPLACEMENT, text))
        return [pair for piece in pieces for pair in super(MSLMTokenizer, self).explain(piece)]

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "MSLMTokenizer":
        """Load the tokenizer from bytes, as in spaCy. Skipped when the bytes are those of this
        tokenizer: adding rules one by one takes longer than loading a small encoder."""
        if bytes_data != self.to_bytes(exclude=exclude):
            super().from_bytes(bytes_data, exclude=exclude)
        return self

    def _join(self, parts: list[Doc]) -> Doc:
        """Join Docs into one."""
        tokens = [token for part in parts for token in part]
        doc = Doc(
            self.vocab,
            words=[token.text for token in tokens],
            spaces=[bool(token.whitespace_) for token in tokens],
        )
        for token, source in zip(doc, tokens, strict=True):
            # Tokenizer exceptions set a norm ("n't": "not") that the word alone does not have.
            if token.norm != source.norm:
                token.norm_ = source.norm_
        return doc


def make_tokenizer(
    max_length: int = 10_000_000, biomedical: bool = False
) -> Callable[[Language], MSLMTokenizer]:
    """Create the tokenizer `spacy_mslm.Tokenizer.v1`, with the rules of the language.

    max_length: Value of `nlp.max_length`; spaCy raises E088 for longer texts. spaCy's own limit of
        1,000,000 characters is meant for parsers, which process a whole text at once; the `mslm`
        pipe works in windows and needs little more memory than the Doc itself.
    biomedical: Also make each sign a token ("IL-2R+" is IL, -, 2R, +), so that fewer mentions begin
        or end inside a token. Numbers, URLs and the exceptions of the language stay whole.
    """

    def create(nlp: Language) -> MSLMTokenizer:
        nlp.max_length = max_length
        defaults = nlp.Defaults
        prefixes, suffixes, infixes = (
            [*(rules or ()), *([sign] if biomedical else [])]
            for rules, sign in (
                (defaults.prefixes, _SIGN),
                (defaults.suffixes, _SIGN),
                (defaults.infixes, _INNER_SIGN),
            )
        )
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
    """Split a text into pieces; most texts are one piece."""
    if _CANDIDATE.search(text) is None:
        yield text
        return
    for part in _cut(text, _SIGN_RUN, SIGNS):
        yield from _cut(part, _LONG_STRETCH, STRETCH)


def _cut(text: str, runs: re.Pattern[str], size: int) -> Iterator[str]:
    """Cut every matching run into chunks of `size` characters. The text before a run stays with
    its first chunk, the text after it with its last one."""
    start = 0
    for run in runs.finditer(text):
        for end in range(run.start() + size, run.end(), size):
            yield text[start:end]
            start = end
    yield text[start:]
