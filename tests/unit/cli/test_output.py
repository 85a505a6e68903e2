"""Tables of commands: what names in them may not do to a terminal or to a script that reads columns."""

from __future__ import annotations

import pytest

from kavka.cli.output import Table, show


def test_a_name_makes_no_column_or_line_and_is_no_order_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(["group", "state"])
    table.add("a\tb\nc\x1b[2J\x9b\u202ed", "Stable")
    table.add("ä 日本", None)
    show(table)
    assert capsys.readouterr().out == "GROUP\tSTATE\na\\tb\\nc\\x1b[2J\\x9b\\u202ed\tStable\nä 日本\t\n"
