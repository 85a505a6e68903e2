"""Backfill of a flow: its stream reads what its topic holds before the place where it began, in an ordinary run.

Decides which flows take the order: the one that is named and its quarantine, which reads the same topic. What is read,
and what is refused because it would be there twice, the source decides (`kavka_spark.backfill`): the ranges stand in
the flow's own checkpoint.

I1  A flow is filled in with its quarantine or not at all: else rows that belong there would be nowhere.
I2  A flow with steps that remember (watermarks, aggregates) is refused: older records would count as late.
I3  A flow into a table of merged changes is refused before its checkpoint holds the range: the table's commits do not
    take such a batch, and the flow could not go on without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kavka_spark.expectations import QUARANTINE_OF, remembers
from kavka_spark.pipelines.progress import short_name
from kavka_spark.stream_plans import nodes, set_options

if TYPE_CHECKING:
    from pyspark.pipelines.flow import Flow
    from pyspark.sql import DataFrame

SOURCE = "kavka"


class BackfillRefused(Exception):
    """A flow that cannot be filled in."""


@dataclass(slots=True)
class FlowBackfill:
    """`since` and `to` are as the source's options kavka.backfill.from and .to; an empty `to` is none."""

    flow: str
    since: str
    to: str = ""
    _seen: set[str] = field(default_factory=set)
    _taken: set[str] = field(default_factory=set)
    _quarantined: set[str] = field(default_factory=set)

    def take(self, flow: Flow, frame: DataFrame) -> None:
        """Gives the order to the stream that a flow reads, if it is about this flow. Raises `BackfillRefused`."""
        name, function = short_name(flow.name), getattr(flow.func, "__name__", "")
        of = str(getattr(flow.func, QUARANTINE_OF, ""))
        self._seen.add(name)
        if of:
            self._quarantined.add(of)
        if self.flow not in (name, of):
            if self.flow == function:
                raise BackfillRefused(f"the function {function} defines the flow {name}: name the flow")
            return
        streams = [step for step in nodes(frame) if step.is_stream]
        if len(streams) != 1 or streams[0].format != SOURCE:
            found = ", ".join(step.format or "a table" for step in streams) or "no stream"
            raise BackfillRefused(
                f'{name} reads {found}: a backfill is for a flow that reads one stream of format "{SOURCE}"'
            )
        step = next((step for step in nodes(frame) if remembers(step)), None)
        if step is not None:
            raise BackfillRefused(
                f"{name} has a step {step.name}: to it, older records would be late, and be left out. "
                "`kavka pipeline run --full-refresh TABLE` computes the table again from the start"
            )
        set_options(
            frame, SOURCE, {"kavka.backfill.from": self.since, **({"kavka.backfill.to": self.to} if self.to else {})}
        )
        self._taken.add(of or name)
        if function != name and not of:
            self._taken.add(function)

    def check(self, sinks: Mapping[str, Mapping[str, str]]) -> None:
        """After all flows were defined; `sinks` has the options of those to which flows write, by lower-case names.
        Raises `BackfillRefused`."""
        if self.flow not in self._taken:
            found = ", ".join(sorted(self._seen)) or "none"
            raise BackfillRefused(f"there is no flow {self.flow} in Python, where the flows are {found}")
        if any(sinks.get(flow, {}).get("mergekeys") for flow in self._taken):
            raise BackfillRefused(
                f"{self.flow} writes to a table of merged changes, in which an older change would replace a newer one. "
                "Nothing has been read"
            )
        missed = self._quarantined & self._taken - {self.flow}
        if missed:
            raise BackfillRefused(
                f"{self.flow} has a quarantine under the name {missed.pop()}: give the function and the flow one name"
            )
