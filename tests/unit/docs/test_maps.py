"""Each room's `__init__.py` is the room's map: it opens with what the room is for, and names every module of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[3] / "src"
BY_A_RULE = {
    "kavka.cli": "one module per command, named as the command",
    "kavka.protocol.messages": "one module per message, named as the message",
}
"""Rooms whose map says by which rule modules are named, and need not name each."""
ROOMS = [
    init.parent
    for package in ("kavka", "kavka_spark")
    for init in sorted((SOURCES / package).rglob("__init__.py"))
    if ".".join(init.parent.relative_to(SOURCES).parts) not in BY_A_RULE
]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: ".".join(room.relative_to(SOURCES).parts))
def test_a_rooms_map_names_each_of_its_modules(room: Path) -> None:
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    modules = {each.stem for each in room.glob("*.py")} - {"__init__"}
    rooms = {each.parent.name for each in room.glob("*/__init__.py")}
    assert text
    assert {name for name in modules | rooms if not re.search(rf"\b{name}\b", text)} == set()
