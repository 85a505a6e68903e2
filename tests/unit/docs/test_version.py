"""All that names the version of this checkout names the same one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from kavka import __version__

ROOT = Path(__file__).resolve().parents[3]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_package_and_its_description_have_one_version() -> None:
    assert tomllib.loads(read("pyproject.toml"))["project"]["version"] == __version__


def test_the_changelog_begins_with_it_and_goes_on_with_earlier_ones() -> None:
    named = re.findall(r"^## (\d+\.\d+\.\d+)", read("CHANGELOG.md"), re.MULTILINE)
    assert named[0] == __version__
    numbers = [[int(number) for number in each.split(".")] for each in named]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(named)) == len(named)


def test_it_is_the_version_that_gets_fixes() -> None:
    (row,) = [line for line in read("SECURITY.md").splitlines() if line.startswith("|") and line.endswith("| yes |")]
    assert row.startswith(f"| {__version__}")
