"""How commands are registered: errors become messages, settings of configs are options."""

import pytest
import typer
from typer.testing import CliRunner

from spacy_mslm.cli.common import command, config_overrides, show_table


def run(error: Exception | None, *arguments: str) -> tuple[int, str, BaseException | None]:
    app = typer.Typer()

    @command(app, "work", failure="The work failed", overrides=True)
    def work(ctx: typer.Context, name: str) -> None:
        if error is not None:
            raise error
        print(name, config_overrides(ctx))

    result = CliRunner().invoke(app, [*arguments])
    return result.exit_code, result.output, result.exception


def test_settings_of_a_config_are_options() -> None:
    code, output, _ = run(None, "a.cfg", "--vars.size", "3", "--paths.text=x.txt")
    assert code == 0
    assert output == "a.cfg {'vars.size': 3, 'paths.text': 'x.txt'}\n"


@pytest.mark.parametrize("kind", [ValueError, FileNotFoundError, ImportError])
def test_an_error_of_the_user_becomes_one_message(kind: type[Exception]) -> None:
    code, output, _ = run(kind("Give another path."), "a.cfg")
    assert code == 1
    assert output.count("The work failed") == output.count("Give another path.") == 1


def test_a_bug_keeps_its_traceback() -> None:
    code, output, exception = run(KeyError("labels"), "a.cfg")
    assert code == 1 and "The work failed" not in output
    assert isinstance(exception, KeyError)


def test_a_table_may_be_empty(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([], ("label", "P"))
    assert capsys.readouterr().out.split() == ["label", "P", "-----", "-"]
