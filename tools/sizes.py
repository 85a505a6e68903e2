"""Sizes that say when to look for a second idea: python tools/sizes.py prints what is too large and gives no reason.

    a file       at most 800 lines
    a function   at most 60 lines
    a class      at most 40 methods, or its docstring says why it is one: a sentence that begins with "One class"

What is generated or a table is exempt by name below, with the reason. A name that needs its exemption no more is named
too, but fails nothing: take it off the list. Split by an idea that you can say in one sentence, never for the count.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
GENERATED: Final = "src/kavka/protocol/messages/"
MAX_FILE_LINES: Final = 800
MAX_FUNCTION_LINES: Final = 60
MAX_METHODS: Final = 40
REASON: Final = "One class"

_LOOP: Final = "a loop over every record, where a call for each of its steps would cost more than the step"
EXEMPT: Final[Mapping[str, str]] = {
    "src/kavka/records/record.py:iterate_records": _LOOP,
    "src/kavka/records/survey.py:_walk_singly": _LOOP,
}
"""File, or file:function, or file:class, with the reason."""


def problems(sources: Mapping[str, str], exempt: Mapping[str, str] = EXEMPT) -> list[str]:
    """A sentence for each size that is too large."""
    return [sentence for name, sentence in _measured(sources).items() if name not in exempt]


def unneeded(sources: Mapping[str, str], exempt: Mapping[str, str] = EXEMPT) -> list[str]:
    """The exemptions that nothing needs any more."""
    found = _measured(sources)
    return [name for name in exempt if name not in found]


def _measured(sources: Mapping[str, str]) -> dict[str, str]:
    return dict(measured for path, text in sorted(sources.items()) for measured in _too_large(path, text))


def _too_large(path: str, text: str) -> Iterator[tuple[str, str]]:
    lines = text.count("\n")
    if lines > MAX_FILE_LINES:
        yield path, f"{path}: {lines} lines; at most {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{path}:{node.name}", f"{path}: {node.name} has {length} lines; at most {MAX_FUNCTION_LINES}"
        elif isinstance(node, ast.ClassDef):
            methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
            if methods > MAX_METHODS and REASON not in (ast.get_docstring(node) or ""):
                what = f"{path}: {node.name} has {methods} methods; at most {MAX_METHODS}"
                yield f"{path}:{node.name}", f'{what}, or its docstring says why it is "{REASON}"'


def read(root: Path = ROOT) -> dict[str, str]:
    """The package's files, without those that are generated."""
    paths = {file.relative_to(root).as_posix(): file for file in (root / "src").rglob("*.py")}
    return {path: file.read_text(encoding="utf-8") for path, file in paths.items() if not path.startswith(GENERATED)}


def main() -> int:
    sources = read()
    for name in unneeded(sources):
        print(f"tools/sizes.py: {name} is exempt, and need not be")
    found = problems(sources)
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
