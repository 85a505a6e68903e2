"""Order: what a driver's process must do, as JSON on its command line.

Decides the form between `runner` and `driver`: JSON, one argument.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from kavka_spark.pipelines.spec import PipelineSpec, read_spec

Mode: TypeAlias = Literal["run", "check", "continuous"]


@dataclass(frozen=True, slots=True)
class Order:
    """One pipeline, to be run in one of the ways.

    `every_s` repeats triggered runs with so long a pause. `for_s` ends a long session after so long. Tables to refresh
    are SDP's: `refresh` none means all; `full_refresh` begins them anew.
    """

    spec_file: str
    journal: str
    mode: Mode
    bootstrap: str | None = None
    settings: tuple[str, ...] = ()
    every_s: float | None = None
    for_s: float | None = None
    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    backfill: tuple[str, str, str] | None = None
    """A flow, and what is to be read of its topic: as the source's options kavka.backfill.from and .to."""

    @property
    def is_of_all_tables(self) -> bool:
        """False: some are named, and those may need no broker."""
        return not (self.refresh or self.full_refresh)

    def spec(self) -> PipelineSpec:
        """Raises SpecError."""
        return read_spec(Path(self.spec_file)).with_changes(self.bootstrap, self.settings)

    def with_journal(self, path: Path) -> Order:
        return replace(self, journal=str(path))


def encode_order(order: Order) -> str:
    return json.dumps(asdict(order))


def decode_order(text: str) -> Order:
    fields = json.loads(text)
    for name in ("settings", "refresh", "full_refresh"):
        fields[name] = tuple(fields[name])
    fields["backfill"] = None if fields["backfill"] is None else tuple(fields["backfill"])
    return Order(**fields)
