"""Locks between processes, and lines that are appended to one file."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_mslm.util.locks import append_line, claimed, read_lines

from ..commands import run_python

fcntl = pytest.importorskip("fcntl")


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    code = (
        "import sys; from pathlib import Path; from spacy_mslm.util.locks import claimed\n"
        "with claimed(Path(sys.argv[1])) as lock: print(lock is None)"
    )
    with claimed(path) as lock:
        assert lock is not None
        assert run_python("-c", code, path).stdout.strip() == "True"
    assert run_python("-c", code, path).stdout.strip() == "False"


@given(st.lists(st.dictionaries(st.text(), st.text())), st.binary(max_size=300))
def test_an_unfinished_line_is_left_out_and_removed(tmp_path_factory, rows, rest) -> None:
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    for row in rows:
        append_line(path, row)
    assert read_lines(path) == rows
    with path.open("ab") as file:
        file.write(rest.replace(b"\n", b""))
    assert read_lines(path) == rows
    append_line(path, {"last": "line"})
    assert read_lines(path) == [*rows, {"last": "line"}]


def test_a_long_unfinished_line_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    append_line(path, {"text": "y" * 200_000})
    with path.open("ab") as file:
        file.write(b"x" * 200_000)
    append_line(path, {"last": "line"})
    assert [len(json.dumps(row)) for row in read_lines(path)] == [200_012, 16]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_told() -> None:
    with pytest.raises(OSError):
        append_line(Path("/dev/full"), {"a": 1})
