"""The table of commands and the modules agree, and the table is all that the program's own help imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import kavka.cli
from kavka.cli.app import TABLE, Commands, Entry, app
from kavka.cli.help import summary

OF_THE_PROGRAM = {"app", "help", "login", "main", "options", "output"}
"""What the program's own help needs of kavka.cli."""
IDS = [each.name for each in TABLE]


@pytest.mark.parametrize("entry", TABLE, ids=IDS)
def test_a_module_has_the_command_that_the_table_names_with_its_summary(entry: Entry) -> None:
    command = Commands()[entry.name]
    assert command.name == entry.name
    assert summary(command) == entry.summary
    assert not command.hidden


def test_every_command_that_a_module_has_stands_in_the_table() -> None:
    for module in {each.module for each in TABLE}:
        group = typer.main.get_group(sys.modules[f"kavka.cli.{module}"].app)
        named = {each.name for each in TABLE if each.module == module}
        assert named == ({group.name} if group.name in named else set(group.commands))


def test_every_module_with_commands_of_its_own_stands_in_the_table_or_below_one_that_does() -> None:
    room = Path(next(iter(kavka.cli.__path__)))
    modules = {path: ".".join(path.relative_to(room).with_suffix("").parts) for path in room.rglob("*.py")}
    with_commands = {name for path, name in modules.items() if "\napp = CommandLine(" in path.read_text()}
    assert with_commands - {each.module for each in TABLE} == {"app", "run.console_audit", "run.console_users"}


def test_a_name_that_is_not_there_is_no_command() -> None:
    assert "nonsense" not in Commands()
    assert len(Commands()) == len(TABLE) == len(list(Commands()))


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["nonsense"]])
def test_what_is_about_no_command_imports_no_command(words: list[str]) -> None:
    program = (
        "import sys; from kavka.cli.app import run; run(sys.argv[1:]);"
        "print('modules', *(n.removeprefix('kavka.cli.') for n in sys.modules if n.startswith('kavka.cli.')))"
    )
    answer = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert set(answer.stdout.splitlines()[-1].split()[1:]) <= OF_THE_PROGRAM


def test_a_command_imports_the_modules_of_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    program = (
        "import sys; from kavka.cli.app import run; run(['topics', 'list', '--help']);"
        "print('modules', *(n.removeprefix('kavka.cli.') for n in sys.modules if n.startswith('kavka.cli.')))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(answer.stdout.splitlines()[-1].split()[1:])
    assert imported & {each.module for each in TABLE} <= {"topics.topics", "cluster.configs"}
    assert app.info.name == "kavka"


def test_the_page_of_the_command_line_has_the_table() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "command-line.md").read_text()
    section, found = "", []
    for left, name, text in re.findall(r"^\| (\w*) ?\| `([a-z-]+)` \| (.*) \|$", page, re.MULTILINE):
        section = left or section
        found.append((name, section, text))
    assert found == [(each.name, each.section, each.summary) for each in TABLE]
