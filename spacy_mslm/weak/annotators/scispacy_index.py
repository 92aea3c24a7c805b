"""scispaCy's index of the names of a knowledge base, built for any file in its JSONL format:

{"concept_id": "C0004096", "canonical_name": "Asthma", "aliases": ["bronchial asthma"],
 "types": ["T047"], "definition": null}
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...util.digests import digest_of
from ...util.files import replaced_folder
from ...util.lines import read_json_lines

if TYPE_CHECKING:  # an extra, and slow to import
    from scispacy.candidate_generation import CandidateGenerator, LinkerPaths
    from scispacy.linking_utils import Entity, KnowledgeBase

# Search and build parameters of nmslib. With these, 999 of 1,000 names out of 20,000 are found, and
# building is three times as fast as with scispaCy's parameters.
SEARCH = 100
BUILD = {"M": 30, "efConstruction": 400, "post": 0}


def load_candidate_generator(kb: str, index: str | None) -> "CandidateGenerator":
    """Load scispaCy's candidate generator for a knowledge base.

    kb: A file in scispaCy's JSONL format, or the name of one of its releases.
    index: Folder for the index of a file; None for a folder beside the file.
    """
    from scispacy.candidate_generation import DEFAULT_KNOWLEDGE_BASES, CandidateGenerator
    from scispacy.linking_utils import KnowledgeBase

    path = Path(kb)
    if not path.exists() and kb in DEFAULT_KNOWLEDGE_BASES:
        try:
            return CandidateGenerator(name=kb, ef_search=SEARCH)
        except OSError as err:  # includes the errors of requests
            raise ValueError(
                f"scispaCy's release {kb!r} could not be downloaded ({err}). Let scispaCy download "
                "it on a machine with network access, and copy its cache (~/.scispacy); or give a "
                "file of your own (kb)."
            ) from err
    if not path.is_file():
        releases = ", ".join(DEFAULT_KNOWLEDGE_BASES)
        raise ValueError(
            f"The knowledge base {path} is neither a file nor a release of scispaCy, which "
            f"are: {releases}. Give the path of a file in scispaCy's JSONL format (kb)."
        )
    concepts = KnowledgeBase(read_knowledge_base(path))
    aliases, vectorizer, ann_index = _index(path, index, concepts).load(ef_search=SEARCH)
    return CandidateGenerator(ann_index, vectorizer, aliases, concepts)


def read_knowledge_base(path: Path) -> "list[Entity]":
    """Read and check the concepts of a file in scispaCy's JSONL format."""
    from scispacy.linking_utils import Entity

    entities: list[Entity] = []
    lines: dict[str, int] = {}
    for number, record in read_json_lines(path):
        if record is None:
            raise ValueError(f"{path}, line {number}: a JSON record of a concept is expected here.")
        for field, problem in _problems(record, lines):
            raise ValueError(
                f"{path}, line {number}: the field {field} {problem}. A concept has a "
                "concept_id and a canonical_name, a list of aliases, which may be empty, and "
                "a list of types."
            )
        concept, name = record["concept_id"], record["canonical_name"]
        aliases, types = (_not_blank(record[field]) for field in ("aliases", "types"))
        entities.append(Entity(concept, name, aliases, types, record.get("definition")))
        lines[concept] = number
    if not entities:
        raise ValueError(f"{path} holds no concept. Give a file in scispaCy's JSONL format (kb).")
    return entities


def _problems(record: dict[str, Any], lines: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a record that are wrong, and why.

    lines: Lines of the concepts before this one.
    """
    for field in ("concept_id", "canonical_name", "aliases", "types"):
        if field not in record:
            yield field, "is missing"
    for field in ("concept_id", "canonical_name"):
        if not isinstance(record[field], str) or not record[field].strip():
            yield field, "is not a string, or blank"
    for field in ("aliases", "types"):
        values = record[field]
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            yield field, "is not a list of strings"
    if not _not_blank(record["types"]):
        yield "types", "is empty"
    if record["concept_id"] in lines:
        yield "concept_id", f"is the same as on line {lines[record['concept_id']]}"


def _not_blank(texts: list[str]) -> list[str]:
    return [text for text in texts if text.strip()]


def _index(path: Path, index: str | None, concepts: "KnowledgeBase") -> "LinkerPaths":
    """Return the index of a file. It is built unless there is one for the same contents."""
    import sklearn
    from scispacy.candidate_generation import LinkerPaths

    parent = Path(index) if index else path.parent / f"{path.name}.index"
    # The vectorizer is a pickled object of scikit-learn.
    folder = parent / f"{digest_of(path)}-sklearn-{sklearn.__version__}"
    if not folder.is_dir() or not LinkerPaths.from_directory(folder).is_locally_cached():
        with replaced_folder(folder) as temporary:
            # Sorted, so that every process builds the same index.
            _build_index(LinkerPaths.from_directory(temporary), sorted(concepts.alias_to_cuis))
    return LinkerPaths.from_directory(folder)


def _build_index(paths: "LinkerPaths", names: list[str]) -> None:
    """Build an index in scispaCy's layout, for any knowledge base and any scipy version.

    scispaCy's `create_tfidf_ann_index` rejects scipy 1.11 and later, as it writes 16-bit files. It
    uses only letter trigrams that occur in ten or more names, so it fails for few names; of 2,000
    names it would lose 71, and 82 of 2,000 other names would have a similarity of 0.95 to one of
    them (3 if all trigrams are used).
    """
    import joblib
    import nmslib
    import scipy.sparse
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), dtype=np.float32)
    vectors = vectorizer.fit_transform(names)
    joblib.dump(vectorizer, paths.tfidf_vectorizer)
    scipy.sparse.save_npz(paths.tfidf_vectors, vectors)
    Path(paths.concept_aliases_list).write_text(json.dumps(names), encoding="utf8")
    index = nmslib.init(
        method="hnsw", space="cosinesimil_sparse", data_type=nmslib.DataType.SPARSE_VECTOR
    )
    index.addDataPointBatch(vectors)
    index.createIndex(BUILD, print_progress=False)
    index.saveIndex(paths.ann_index)
