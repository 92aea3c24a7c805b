"""The recipe for Spark in the guide, word for word, on a Spark that runs on this machine."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from spacy_mslm.tasks import annotate

from ..docs.pages import ROOT, read_blocks
from ..make_saved_pipeline import FOLDER
from .test_annotate import make_texts, write_jsonl

pytest.importorskip("pyspark", reason="needs Spark: pip install pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("java") or "JAVA_HOME" in os.environ), reason="Spark needs Java 17"
    ),
]
GUIDE = ROOT / "docs" / "guides" / "annotate.md"


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session with two tasks at a time, which nobody else can connect to."""
    from pyspark.sql import SparkSession

    monkeypatch.chdir(tmp_path)  # Spark reads relative paths from the folder where it was started
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.local.dir": str(tmp_path / "spark"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        "spark.driver.memory": "1g",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def test_spark_finds_what_the_command_finds(spark: Any) -> None:
    documents = {f"n{i}": text for i, text in enumerate(make_texts(20))}
    shutil.copytree(FOLDER, "training/model-best")
    write_jsonl(Path("notes.jsonl"), documents)
    own = annotate("training/model-best", Path("notes.jsonl"), Path("own.parquet"), jobs=1)
    assert own.entities > 10
    columns = {"id": list(documents), "text": list(documents.values())}
    parquet.write_table(pyarrow.table(columns), "notes.parquet", row_group_size=5)

    define, run = (
        block.code
        for block in read_blocks(GUIDE)
        if block.language == "python" and "annotate_frames" in block.code
    )
    namespace = {"__name__": "__main__", "spark": spark}
    exec(define, namespace)
    exec(run, namespace)

    found, expected = (
        parquet.read_table(path).sort_by("id").to_pylist() for path in ("entities", "own.parquet")
    )
    assert found == expected
