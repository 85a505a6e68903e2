"""Tables of commands: what names in them may not do to a terminal or to a script that reads columns."""

from __future__ import annotations

import json

import pytest

from kavka.cli.output import Table, json_text, show, show_json


def test_a_name_makes_no_column_or_line_and_is_no_order_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(["group", "state"])
    table.add("a\tb\nc\x1b[2J\x9b\u202ed", "Stable")
    table.add("ä 日本", None)
    show(table)
    assert capsys.readouterr().out == "GROUP\tSTATE\na\\tb\\nc\\x1b[2J\\x9b\\u202ed\tStable\nä 日本\t\n"


HOSTILE = "a\x1b[2J\x7f\x9b2J\u202e\U000e0041 ä 日本"


def test_json_is_no_order_to_a_terminal_and_the_same_json(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON need not escape what a terminal of eight bits obeys, nor what turns the direction of a line."""
    show_json({HOSTILE: [HOSTILE]})
    printed = capsys.readouterr().out.removesuffix("\n")
    assert printed.isprintable()
    assert "ä 日本" in printed
    assert json.loads(printed) == {HOSTILE: [HOSTILE]}
    indented = json_text({"a": [HOSTILE]}, indent=2)
    assert all(line.isprintable() for line in indented.split("\n"))
    assert json.loads(indented) == {"a": [HOSTILE]}
