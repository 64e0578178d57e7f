from __future__ import annotations

import pytest
from typer import Context
from typer.testing import CliRunner

from authfabric.cli import COMMANDS, Commands, app

COLUMNS = 80


def commands():
    """Every command, in the words that call it."""
    group = Commands(name="authfabric")
    context = Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        yield (name,), command
        for each, below in getattr(command, "commands", {}).items():
            yield (name, each), below


EVERY = dict(commands())


def help_of(*words):
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": str(COLUMNS)})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_help_names_every_option_in_full_and_no_type_of_python(words):
    page = help_of(*words)
    for parameter in EVERY[words].params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            assert not option.startswith("--") or option in page.replace(",", " ").split()
    assert "<" not in page.replace("<=", "")
    assert max(map(len, page.splitlines())) <= COLUMNS


def test_help_lists_every_command_with_its_whole_first_sentence():
    page = " ".join(help_of().split())
    for (name, *below), command in EVERY.items():
        if not below:
            sentence = " ".join(command.help.partition("\n\n")[0].split())
            assert f" {name} {sentence}" in page


def test_a_flag_takes_no_value_and_an_option_says_which():
    lines = help_of("ask").splitlines()
    assert any(line.split()[:2] == ["--json", "Print"] for line in lines)
    assert any(line.split()[:2] == ["--strategy", "flood|queue|hedge"] for line in lines)
    assert lines[0].endswith(" ask [OPTIONS] SUBJECT OBJECT ACTION")


def test_arguments_that_may_be_missing_or_repeated_are_shown_so():
    assert help_of("rules", "check").splitlines()[0].endswith(" check [OPTIONS] FILES...")
    assert help_of("context", "get").splitlines()[0].endswith(" get [OPTIONS] TABLE [ROW]")


def test_a_command_that_is_nearly_right_is_suggested():
    done = CliRunner().invoke(app, ["polcy"])
    assert done.exit_code == 2
    assert "Did you mean 'policy'?" in done.stderr
