"""scispaCy's index of the names of a knowledge base, built for any file in its JSONL format:

{"concept_id": "C0004096", "canonical_name": "Asthma", "aliases": ["bronchial asthma"],
 "types": ["T047"], "definition": null}
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...util.digests import digest_of
from ...util.lines import read_json_lines
from ...util.manifest import find_faults, read_manifest, signed_folder

if TYPE_CHECKING:  # an extra, and slow to import
    from scispacy.candidate_generation import CandidateGenerator
    from scispacy.linking_utils import Entity, KnowledgeBase
    from sklearn.feature_extraction.text import TfidfVectorizer

# Search and build parameters of nmslib. With these, 999 of 1,000 names out of 20,000 are found, and
# building is three times as fast as with scispaCy's parameters.
SEARCH = 100
BUILD = {"M": 30, "efConstruction": 400, "post": 0}
# The files of an index. Those of another layout are built again.
LAYOUT = 2
NAMES, VECTORIZER, VECTORS, GRAPH = "names.json", "vectorizer.json", "vectors.npz", "nmslib.bin"


class NameIndex(NamedTuple):
    """The names of a knowledge base, and what finds those that are similar to a text.

    names: The names, in the order of the index.
    vectorizer: Converts texts to vectors.
    ann_index: An index of nmslib.
    """

    names: list[str]
    vectorizer: "TfidfVectorizer"
    ann_index: Any


def load_candidate_generator(kb: str, index: str | None) -> "CandidateGenerator":
    """Load scispaCy's candidate generator for a knowledge base.

    kb: A file in scispaCy's JSONL format, or the name of one of its releases, in which scispaCy
        loads a pickle.
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
    names, vectorizer, ann_index = _index(path, index, concepts)
    return CandidateGenerator(ann_index, vectorizer, names, concepts)


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


def _index(path: Path, index: str | None, concepts: "KnowledgeBase") -> "NameIndex":
    """Return the index of a file. It is built unless there is one for the same contents."""
    parent = Path(index) if index else path.parent / f"{path.name}.index"
    folder = parent / f"{digest_of(path)}-{LAYOUT}"
    if not folder.is_dir() or find_faults(folder, read_manifest(folder) or {NAMES: []}):
        with signed_folder(folder) as temporary:
            # Sorted, so that every process builds the same index.
            _build_index(temporary, sorted(concepts.alias_to_cuis))
    return _load_index(folder)


def _build_index(folder: Path, names: list[str]) -> None:
    """Build an index of the names of any knowledge base, with any scipy version.

    scispaCy's `create_tfidf_ann_index` rejects scipy 1.11 and later, as it writes 16-bit files. It
    uses only letter trigrams that occur in ten or more names, so it fails for few names; of 2,000
    names it would lose 71, and 82 of 2,000 other names would have a similarity of 0.95 to one of
    them (3 if all trigrams are used). Its vectorizer is a pickle, which is neither written nor
    read here.
    """
    import scipy.sparse

    vectorizer = make_vectorizer()
    vectors = vectorizer.fit_transform(names)
    write_vectorizer(vectorizer, folder)
    scipy.sparse.save_npz(folder / VECTORS, vectors)
    (folder / NAMES).write_text(json.dumps(names), encoding="utf8")
    ann_index = _empty_index(vectors)
    ann_index.createIndex(BUILD, print_progress=False)
    ann_index.saveIndex(str(folder / GRAPH))


def _load_index(folder: Path) -> "NameIndex":
    import scipy.sparse

    ann_index = _empty_index(scipy.sparse.load_npz(folder / VECTORS).astype(np.float32))
    ann_index.loadIndex(str(folder / GRAPH))
    ann_index.setQueryTimeParams({"efSearch": SEARCH})
    names = json.loads((folder / NAMES).read_text(encoding="utf8"))
    return NameIndex(names, read_vectorizer(folder), ann_index)


def _empty_index(vectors: Any) -> Any:
    import nmslib

    index = nmslib.init(
        method="hnsw", space="cosinesimil_sparse", data_type=nmslib.DataType.SPARSE_VECTOR
    )
    index.addDataPointBatch(vectors)
    return index


def make_vectorizer(vocabulary: dict[str, int] | None = None) -> "TfidfVectorizer":
    """Create the vectorizer of names: letter trigrams within words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), dtype=np.float32, vocabulary=vocabulary
    )


def write_vectorizer(vectorizer: "TfidfVectorizer", folder: Path) -> None:
    """Write the trigrams of a vectorizer and their weights as JSON."""
    places = {trigram: int(place) for trigram, place in vectorizer.vocabulary_.items()}
    state = {"trigrams": sorted(places, key=places.__getitem__), "idf": vectorizer.idf_.tolist()}
    (folder / VECTORIZER).write_text(json.dumps(state), encoding="utf8")


def read_vectorizer(folder: Path) -> "TfidfVectorizer":
    """Read what `write_vectorizer` wrote."""
    state = json.loads((folder / VECTORIZER).read_text(encoding="utf8"))
    vectorizer = make_vectorizer({trigram: i for i, trigram in enumerate(state["trigrams"])})
    vectorizer.idf_ = np.array(state["idf"], dtype=np.float32)
    return vectorizer
