"""A table of docs/clients.md that is made from pytest's reports, and the command line of the tool that makes it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "docs" / "clients.md"


class TableInPage(NamedTuple):
    """`start` and `end` are the lines around the table in the page."""

    start: str
    end: str
    table: Callable[[], str]
    record: Callable[[Iterable[Path]], None]

    def page(self) -> str:
        """The page with the table in its place."""
        before, _, rest = PAGE.read_text().partition(self.start)
        _, _, after = rest.partition(self.end)
        return f"{before}{self.start}\n{self.table()}{self.end}{after}"

    def main(self, arguments: list[str], usage: str | None) -> int:
        match arguments:
            case ["--check"]:
                return 0 if PAGE.read_text() == self.page() else 1
            case ["record", *reports]:
                self.record(map(Path, reports))
                PAGE.write_text(self.page())
            case []:
                PAGE.write_text(self.page())
            case _:
                print(usage, file=sys.stderr)
                return 2
        return 0
