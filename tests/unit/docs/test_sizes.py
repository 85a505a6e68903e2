"""Files, functions and classes that are too large are found, and so are exemptions that nobody needs any more.

`make check` looks at the project itself.
"""

from __future__ import annotations

import pytest
from tools.sizes import problems, unneeded

METHODS = "".join(f"    def method_{number}(self) -> None: ...\n" for number in range(41))


LONG = "def long() -> None:\n" + "    pass\n" * 60
WIDE = "class Wide:\n" + METHODS


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("\n" * 801, "a.py: 801 lines; at most 800"),
        (LONG, "a.py: long has 61 lines; at most 60"),
        (WIDE, 'a.py: Wide has 41 methods; at most 40, or its docstring says why it is "One class"'),
    ],
)
def test_what_is_too_large_is_found(text: str, found: str) -> None:
    assert problems({"a.py": text}, {}) == [found]


def test_a_class_may_have_many_methods_where_it_says_why() -> None:
    text = f'class Wide:\n    """Wide. One class, because it is an automaton."""\n{METHODS}'
    assert problems({"a.py": text}, {}) == []


def test_an_exemption_that_nobody_needs_is_found() -> None:
    table = {"a.py": "a table"}
    assert problems({"a.py": "\n" * 801}, table) == []
    assert unneeded({"a.py": "\n" * 801}, table) == []
    assert unneeded({"a.py": ""}, table) == ["a.py"]
