"""Draws which room imports which, from the imports themselves: python tools/dependency_picture.py writes the picture
into ARCHITECTURE.md.

With --check it writes nothing, and fails where the page shows another picture than the imports make.

The order of the rows is that of the layers in pyproject.toml, which import-linter keeps: every import goes down, so a
triangle is enough. A room's name stands at the end of its row and on top of its column.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "ARCHITECTURE.md"
BEGIN: Final = "<!-- picture: written by tools/dependency_picture.py -->"
END: Final = "<!-- end of picture -->"
SPARK: Final = "kavka_spark"
BELOW_SPARK: Final = "studies"  # of which Spark's pipelines make use
GROUND: Final = "ground floor"  # the single modules that every room may import, as one row

Layers = Sequence[Sequence[str]]
Imports = frozenset[tuple[str, str]]


def picture(layers: Layers, imports: Imports) -> str:
    """The triangle: a mark in row r and column c where room c imports room r. A blank line parts two layers."""
    rooms = list(chain.from_iterable(layers))
    place = {room: index for index, room in enumerate(rooms)}
    for importer, imported in sorted(imports):
        if place[importer] >= place[imported]:
            raise ValueError(f"{importer} imports {imported}, which does not stand below it")
    lines = []
    for layer in layers:
        for room in layer:
            marks = ["●" if (above, room) in imports else "·" for above in rooms[: place[room]]]
            lines.append(" ".join([*marks, room]))
        lines.append("")
    return "\n".join(lines[:-1])


def layers() -> list[list[str]]:
    """The rooms by layer, top to bottom, as pyproject.toml has them; Spark's package above what it uses."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "layers" and each["containers"] == ["kavka"])
    found = [re.findall(r"\w+", layer) for layer in contract["layers"]]
    found.insert(next(index for index, layer in enumerate(found) if BELOW_SPARK in layer), [SPARK])
    folders = [room for room in found[-1] if (ROOT / "src/kavka" / room).is_dir()]
    return [*found[:-1], folders, [GROUND]]


def imports(rooms: Iterable[str]) -> Imports:
    """(importer, imported) for each pair of rooms; imports for the type checker alone count as well."""
    graph = grimp.build_graph("kavka", SPARK)
    known = set(rooms)

    def room(module: str) -> str | None:
        top, _, rest = module.partition(".")
        name = top if top == SPARK else rest.partition(".")[0]
        return name if name in known else GROUND if name else None  # `kavka` itself has the version only

    pairs = {
        (room(module), room(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
    }
    return frozenset((above, below) for above, below in pairs if above and below and above != below)


def current() -> str:
    """The picture of the imports as they are, as it stands in the page."""
    rows = layers()
    return f"{BEGIN}\n```text\n{picture(rows, imports(chain.from_iterable(rows)))}\n```\n{END}"


def with_picture(page: str, drawn: str) -> str:
    """The page with the picture in its place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"ARCHITECTURE.md must have the lines {BEGIN} and {END}")
    return before + drawn + after


def main(arguments: Sequence[str]) -> int:
    """The status: 1 where --check found another picture."""
    page = PAGE.read_text(encoding="utf-8")
    wanted = with_picture(page, current())
    if "--check" not in arguments:
        PAGE.write_text(wanted, encoding="utf-8")
    elif page != wanted:
        print("ARCHITECTURE.md: its picture of the imports is out of date; run `make picture`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
