"""Whoever has only this repository has all that its programs and tests need."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("benchmarks", "demo", "deploy", "playground", "recipes", "src", "tests", "tools")
FILES = [
    file
    for room in ROOMS
    for file in sorted((ROOT / room).rglob("*"))
    if file.suffix in (".py", ".sh", ".yml", ".yaml", ".toml", ".java", ".go") and ".venv" not in file.parts
]
ABOVE = re.compile(r"__file__\)(?:\.(?:resolve|absolute)\(\))?((?:\.parents\[\d+\]|\.parent\b)+)")
ABOVE_THE_ROOT = re.compile(r"\b(?:PROJECT|ROOT)\.parent|\.\./shared")


def test_no_program_looks_for_something_beside_the_checkout() -> None:
    looked = 0
    for file in FILES:
        name, text = file.relative_to(ROOT), file.read_text()
        if file.samefile(__file__):
            continue
        assert ABOVE_THE_ROOT.search(text) is None, name
        for steps in ABOVE.findall(text):
            up = sum(int(number) + 1 for number in re.findall(r"parents\[(\d+)\]", steps))
            up += len(re.findall(r"parent\b", steps))
            assert up <= len(name.parts), f"{name} goes {up} folders up"
            looked += 1
    assert looked > 20, "is the expression right?"
