"""The functions of `spacy_mslm.tasks`, as a notebook imports them."""

import ast
import inspect
from pathlib import Path

import pytest

from spacy_mslm import tasks
from spacy_mslm.tasks.configs import read_config

from ..commands import run_python

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("name", tasks.__all__)
def test_every_task_is_typed_and_documented(name: str) -> None:
    task = getattr(tasks, name)
    assert task.__doc__ and task.__module__.startswith("spacy_mslm.")
    if inspect.isfunction(task):
        signature = inspect.signature(task)
        assert signature.return_annotation not in (inspect.Signature.empty, None)
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(inspect.getsource(tasks))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert names == set(tasks.__all__)


def test_importing_the_package_is_cheap() -> None:
    code = "import sys; import spacy_mslm.tasks; print('torch' in sys.modules)"
    result = run_python("-c", code, fresh=True)
    assert result.stdout.split() == ["False"], result.stderr
    with pytest.raises(AttributeError, match="no attribute 'none'"):
        _ = tasks.none


def test_a_config_without_the_block_is_refused() -> None:
    settings = read_config(CONFIGS / "weak.cfg", {"paths.output": "out"}, block="labelling")
    assert settings["paths"]["output"] == "out"
    with pytest.raises(ValueError, match=r"has no \[pretraining\] block.*configs/pretrain\.cfg"):
        read_config(CONFIGS / "weak.cfg", None, block="pretraining")
