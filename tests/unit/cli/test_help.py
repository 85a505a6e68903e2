"""Help of every command: it has examples that parse, names and defaults for what it takes, and says what is claimed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from kavka.cli.app import TABLE, app
from kavka.cli.help import ClickException, split_docstring
from kavka.cli.options import HABITS

ROOT: Any = typer.main.get_command(app)


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(leaves(ROOT))
IDS = [" ".join(path) for path in COMMANDS]


def parse(words: list[str]) -> None:
    """Raises what a wrong command line raises; nothing is carried out."""
    command, rest = ROOT, list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        command.resolve_command(command.make_context("group", list(rest)), rest)
    command.make_context("kavka", rest)


@pytest.fixture
def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("COLUMNS", "80")

    def show(*path: str) -> str:
        assert not app([*path, "--help"], prog_name="kavka", standalone_mode=False)
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_every_command_has_examples_that_are_right(path: tuple[str, ...]) -> None:
    _, examples = split_docstring(COMMANDS[path].help)
    assert examples
    assert any(f"kavka {' '.join(path)}" in example for example in examples)
    for example in examples:
        for piece in re.split(r"\||&&|>", example):
            words = shlex.split(piece)
            if words and words[0] == "kavka":
                parse(words[1:])


def test_an_example_that_is_wrong_would_be_noticed() -> None:
    for wrong in (["topics", "create", "--no-such"], ["consume", "orders", "-c", "many"], ["nonsense"]):
        with pytest.raises(ClickException):
            parse(wrong)


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_every_command_prints_json_when_asked(path: tuple[str, ...]) -> None:
    assert any("--json" in parameter.opts for parameter in COMMANDS[path].params)


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_everything_that_takes_a_value_names_it_and_says_what_it_is_for(path: tuple[str, ...]) -> None:
    for parameter in COMMANDS[path].params:
        if getattr(parameter, "hidden", False):
            continue
        assert parameter.help, parameter.name
        takes_value = not getattr(parameter, "is_flag", False) and not parameter.secondary_opts
        assert parameter.metavar or not takes_value, parameter.name


@pytest.mark.parametrize("path", COMMANDS, ids=IDS)
def test_help_fits_a_terminal_and_is_silent_on_habits(path: tuple[str, ...], help_of: Callable[..., str]) -> None:
    text = help_of(*path)
    _, examples = split_docstring(COMMANDS[path].help)
    for line in text.splitlines():
        assert len(line) <= 80 or line.strip() in examples, line
    assert "without it" not in text
    assert "<bool>" not in text
    assert not any(habit in text for habit in HABITS)


def test_help_as_a_whole(help_of: Callable[..., str]) -> None:
    text = help_of("topics", "create")
    assert text.startswith("Usage: kavka topics create [OPTIONS] NAME...\n\nCreate topics.\n\nExamples:\n  kavka ")
    assert "  -p, --partitions N " in text
    assert "[default: the broker's num.partitions]" in " ".join(text.split())
    assert "      --dry-run " in text


def test_the_programs_own_help_lists_every_command_in_a_section(help_of: Callable[..., str]) -> None:
    lines = help_of().splitlines()
    section, found = "", {}
    for line in lines:
        if row := re.fullmatch(r"(\S*) +([a-z-]+)  +(\S.*)", line):
            section = row[1] or section
            found[row[2]] = (section, row[3])
    assert found == {each.name: (each.section, each.summary) for each in TABLE}
    assert list(dict.fromkeys(section for section, _ in found.values())) == [
        "Run",
        "Look",
        "Change",
        "Understand",
        "Pipelines",
    ]
    assert lines[0] == "Usage: kavka COMMAND ...   `kavka COMMAND --help` has examples."
    assert lines[-1].startswith("Options: ")
    assert "--version" in lines[-1]


@pytest.mark.parametrize("path", [(), *COMMANDS], ids=["the program", *IDS])
def test_help_fits_a_screen(path: tuple[str, ...], help_of: Callable[..., str]) -> None:
    assert len(help_of(*path).splitlines()) <= 40


def test_the_programs_own_help_is_no_wider_than_a_terminal(help_of: Callable[..., str]) -> None:
    assert all(len(line) <= 80 for line in help_of().splitlines())
