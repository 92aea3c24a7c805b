"""Mapping of semantic types to the labels of a corpus (Table 12 of the paper). It is read from a
YAML file:

    Disease:
      T047: Disease or Syndrome
    Symptom:
      T184: Sign or Symptom

A type is a UMLS type, or any other name that an annotator gives (`sign_symptom`). Types are known
by their name after the colon, too.
"""

import contextlib
import re
from functools import cached_property
from pathlib import Path

import srsly

from ..errors import Errors

# Ranges of the numbers of the 127 UMLS types.
_UMLS = (
    *((1, 2), (4, 5), (7, 8), (10, 26), (28, 34), (37, 75), (77, 83), (85, 104), (109, 109)),
    *((114, 114), (116, 116), (120, 123), (125, 127), (129, 131), (167, 171), (184, 185)),
    *((190, 192), (194, 197), (200, 201), (203, 204)),
)
UMLS_TYPES = frozenset(f"T{n:03}" for low, high in _UMLS for n in range(low, high + 1))


class Clusters:
    """`spacy_mslm.Clusters.v1`: the label of each semantic type.

    path: The YAML file.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def _labels(self) -> dict[str, str]:
        return _read_clusters(Path(self.path))

    def load(self) -> None:
        """Read the file."""
        _ = self._labels

    @property
    def labels(self) -> list[str]:
        """All labels, sorted."""
        return sorted(set(self._labels.values()))

    @property
    def types(self) -> frozenset[str]:
        """Names of the types that have a label, in lower case."""
        return frozenset(self._labels)

    def __call__(self, semantic_type: str) -> str | None:
        """Return the label of a type; None if it is in no cluster."""
        return self._labels.get(semantic_type.lower())


def _read_clusters(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise ValueError(Errors.M106.format(path=path))
    text, clusters = "", None
    with contextlib.suppress(ValueError, RecursionError):
        text = path.read_text(encoding="utf8")
        clusters = srsly.yaml_loads(text)
    if not isinstance(clusters, dict) or not all(isinstance(c, dict) for c in clusters.values()):
        raise ValueError(Errors.M310.format(path=path))
    labels: dict[str, str] = {}
    for label, types in clusters.items():
        for type_, name in types.items():
            line = _line(text, str(type_))
            if re.fullmatch(r"T\d+", str(type_)) and type_ not in UMLS_TYPES:
                raise ValueError(
                    f"{path}, line {line}: UMLS has no semantic type {type_}. Correct it, or give "
                    "a type of another terminology a name other than T and digits."
                )
            for known in {str(type_).lower(), str(name or type_).lower()}:
                if labels.setdefault(known, str(label)) != label:
                    raise ValueError(
                        f"{path}, line {line}: the semantic type {type_} is also in the cluster "
                        f"{labels[known]}. Remove it from one of them."
                    )
    if not labels:
        raise ValueError(Errors.M310.format(path=path))
    return labels


def _line(text: str, type_: str) -> int:
    """Return the last line that has a type, which is the one with the error."""
    lines = text.splitlines()
    return max(
        (n for n, line in enumerate(lines, 1) if re.match(rf"\s*{re.escape(type_)}\s*:", line)),
        default=1,
    )
