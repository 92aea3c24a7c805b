"""Folders that a stage makes once: they are known by settings and by the content of files."""

import json
from pathlib import Path

import pytest

from spacy_mslm.util.digests import with_digests
from spacy_mslm.util.stage_folder import StageFolder


def make(path: Path, remedy: str = "Give another --folder.", **settings: object) -> StageFolder:
    return StageFolder(path, "stage.json", settings, remedy)


def test_no_folder_and_an_empty_one_have_no_record(tmp_path: Path) -> None:
    assert make(tmp_path / "new").read() is None
    assert make(tmp_path).read() is None
    (tmp_path / ".stage.json.abc").touch()  # left by a killed run
    assert make(tmp_path).read() is None


def test_the_same_settings_pass(tmp_path: Path) -> None:
    stage = make(tmp_path, steps=4, rates=(0.5, 1.0))
    stage.write({**stage.settings, "loss": 0.1})
    record = make(tmp_path, steps=4, rates=[0.5, 1.0]).read()
    assert record == {"steps": 4, "rates": [0.5, 1.0], "loss": 0.1}
    make(tmp_path, steps=4, rates=[0.5, 1.0]).check(record)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"steps": 5, "masking": {"rate": 0.5}}, "steps"),
        ({"steps": 4, "masking": {"rate": 0.6}}, r"masking\.rate"),
        ({"steps": 4, "masking": {"rate": 0.5}, "new": 1}, "new"),
        ({"steps": 4, "masking": {"rate": 0.5, "new": None}}, r"masking\.new"),
        ({"steps": 4, "masking": {}}, r"masking\.rate"),
    ],
)
def test_other_settings_are_named(tmp_path: Path, settings: dict, names: str) -> None:
    stage = make(tmp_path, steps=4, masking={"rate": 0.5})
    stage.write(stage.settings)
    other = make(tmp_path, **settings)
    record = other.read()
    assert record is not None
    with pytest.raises(ValueError, match=rf"input files: {names} differ .*--folder"):
        other.check(record)


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_folder_of_something_else_is_refused(tmp_path: Path, content: str | None) -> None:
    (tmp_path / "note.txt").touch()
    if content is not None:
        (tmp_path / "stage.json").write_text(content)
    with pytest.raises(ValueError, match=r"was not made by this step\. Give another --folder"):
        make(tmp_path).read()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(ValueError, match="was not made by this step"):
        make(path).read()


# ---- digests ----


def test_any_setting_with_a_path_counts_by_content(tmp_path: Path) -> None:
    """Also one whose name nobody has listed: it cannot be forgotten."""
    file = tmp_path / "blocklist.txt"
    file.write_text("skin")
    first = with_digests({"a": {"blocklist": str(file), "lists": [str(file)]}})
    assert str(file) not in json.dumps(first)
    file.write_text("arm")
    assert with_digests({"a": {"blocklist": str(file), "lists": [str(file)]}}) != first
    moved = file.rename(tmp_path / "moved.txt")
    moved.write_text("skin")
    assert with_digests({"a": {"blocklist": str(moved), "lists": [str(moved)]}}) == first


def test_words_and_places_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "en").mkdir()
    (tmp_path / "encoder").mkdir()
    assert with_digests({"lang": "en"}) == {"lang": "en"}
    assert with_digests({"output": str(tmp_path)}) == {"output": str(tmp_path)}
    assert with_digests({"environment": str(tmp_path)}) == {"environment": str(tmp_path)}
    assert with_digests({"encoder": "encoder"}) != {"encoder": "encoder"}
    assert with_digests({"encoder": "hub/name"}) == {"encoder": "hub/name"}
    assert with_digests({"text": "x" * 5000 + "/y"})["text"].endswith("/y")
