"""Semantic types -> the labels of a corpus (Table 12 of the paper). The map is a file:

    Disease:
      T047: Disease or Syndrome
    Symptom:
      T184: Sign or Symptom

A type is one of UMLS, or any name that an annotator gives (`sign_symptom`); after the colon stands
what it is called, by which it is known, too.
"""

import re
from pathlib import Path

import srsly

from ..errors import Errors

# The 127 types of UMLS, as ranges of their numbers.
_UMLS = (
    *((1, 2), (4, 5), (7, 8), (10, 26), (28, 34), (37, 75), (77, 83), (85, 104), (109, 109)),
    *((114, 114), (116, 116), (120, 123), (125, 127), (129, 131), (167, 171), (184, 185)),
    *((190, 192), (194, 197), (200, 201), (203, 204)),
)
UMLS_TYPES = frozenset(f"T{n:03}" for low, high in _UMLS for n in range(low, high + 1))


class Clusters:
    """`spacy_mslm.Clusters.v1`: the label of each semantic type; types that are in no cluster have
    none.

    path: the file.
    """

    def __init__(self, path: str) -> None:
        self._labels = _read(Path(path))

    @property
    def labels(self) -> list[str]:
        return sorted(set(self._labels.values()))

    @property
    def types(self) -> frozenset[str]:
        """All names of types that have a label, in lower case."""
        return frozenset(self._labels)

    def __call__(self, semantic_type: str) -> str | None:
        return self._labels.get(semantic_type.lower())


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    text = path.read_text(encoding="utf8")
    try:
        clusters = srsly.yaml_loads(text)
    except ValueError:
        clusters = None
    if not isinstance(clusters, dict) or not all(isinstance(c, dict) for c in clusters.values()):
        raise ValueError(Errors.M310.format(path=path))
    labels: dict[str, str] = {}
    for label, types in clusters.items():
        for type_, name in types.items():
            line = _line(text, str(type_))
            if re.fullmatch(r"T\d+", str(type_)) and type_ not in UMLS_TYPES:
                raise ValueError(
                    f"{path}, line {line}: UMLS has no semantic type {type_}. Nothing was "
                    "labelled. Correct it; types of another terminology may have any name "
                    "that is not T and digits."
                )
            for known in {str(type_).lower(), str(name or type_).lower()}:
                if labels.setdefault(known, str(label)) != label:
                    raise ValueError(
                        f"{path}, line {line}: the semantic type {type_} is in the cluster "
                        f"{labels[known]}, too. Give it one of them."
                    )
    if not labels:
        raise ValueError(Errors.M310.format(path=path))
    return labels


def _line(text: str, type_: str) -> int:
    """The last line that has a type: the one that is refused."""
    lines = text.splitlines()
    return max(
        (n for n, line in enumerate(lines, 1) if re.match(rf"\s*{re.escape(type_)}\s*:", line)),
        default=1,
    )
