"""A new way to halt a broker shows: each raise of InvariantViolation has a row which says why no request gets there."""

from __future__ import annotations

from tools.invariants import problems, read

RAISES = """
class Partition:
    def commit(self):
        def check():
            raise InvariantViolation(f"{self} cannot")
        raise ValueError("no")

raise InvariantViolation("at an import")
"""


def test_each_place_where_kavka_halts_has_its_reason() -> None:
    assert problems(read()) == []


def test_a_raise_without_a_row_is_named_with_its_function() -> None:
    found = problems({"log/new.py": RAISES}, {})
    assert [line.split(" ")[0] for line in found] == ["log/new.py:", "log/new.py:check"]


def test_a_row_without_its_raise_is_named() -> None:
    rows = {"log/new.py:": "never imported", "log/new.py:check": "asked before", "log/old.py:check": "gone"}
    (line,) = problems({"log/new.py": RAISES}, rows)
    assert line.startswith("log/old.py:check raises no InvariantViolation any more")
