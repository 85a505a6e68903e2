"""Shipped: the pipelines that come with kavka, and how one is copied into a user's folder.

Decides nothing but which there are: each is a folder below examples/, whose pipeline.yml begins with a comment that
says what it does.

I1  Nothing that is there already is overwritten.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parent / "examples"
EMPTY: Final = "first"
"""The example that `kavka pipeline init` copies if none is named."""


class ExampleError(Exception):
    """No such example, or no room for it."""

    def __init__(self, problem: str, next_step: str) -> None:
        super().__init__(problem)
        self.next_step = next_step


def describe_examples() -> dict[str, str]:
    """Each example with the first sentence of its pipeline.yml."""
    return {path.parent.name: _purpose(path) for path in sorted(EXAMPLES.glob("*/pipeline.yml"))}


def lay(example: str, directory: Path) -> list[Path]:
    """Copies an example into a new folder and returns the files. Raises ExampleError."""
    source = EXAMPLES / example
    if not (source / "pipeline.yml").is_file():
        raise ExampleError(f"there is no example {example}", f"one of {', '.join(describe_examples())}")
    if not _is_new_or_empty(directory):
        raise ExampleError(f"{directory} is not empty", "name a folder that does not exist yet")
    try:
        shutil.copytree(source, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    except shutil.Error as problem:
        # One entry for each file, all of the same cause: the first is enough.
        _file, _copy, reason = problem.args[0][0]
        raise ExampleError(f"{directory} cannot be written: {reason}", "name another folder") from problem
    except OSError as problem:
        raise ExampleError(f"{directory} cannot be written: {problem.strerror}", "name another folder") from problem
    return sorted(path for path in directory.rglob("*") if path.is_file())


def _is_new_or_empty(directory: Path) -> bool:
    try:
        return next(directory.iterdir(), None) is None
    except FileNotFoundError:
        return True
    except OSError as problem:
        raise ExampleError(f"{directory} cannot be read: {problem.strerror}", "name another folder") from problem


def _purpose(path: Path) -> str:
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("# ").rstrip())
    text = " ".join(lines)
    return text[: text.find(". ") + 1] if ". " in text else text
