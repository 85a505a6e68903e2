"""Monitor: how a pipeline stands, out of the events of its runs, as metrics and as conditions that somebody is told of.

Decides what is measured and which conditions hold. Must not know who is told, or how (`alerts`, `exports`).

I1  A condition has a key that stays the same while it lasts; whether it holds depends on the events and the time alone.
I2  Counters only grow while this object lives.

    condition     holds
    failed        from a run that failed, or a driver that ended without a word, until one that completes
    lag           while a flow has been more than `lag` records behind for `lag_for_s`
    broken        from a run in which a larger share of a flow's rows than `broken` broke one of its expectations, until
                  one in which that is no longer so
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from kavka.metrics import Member, Registry, render_prometheus

Rule: TypeAlias = Literal["failed", "lag", "broken"]
GROUP, KIND = "kavka", "pipeline"


class Condition(NamedTuple):
    """Something that somebody should know of."""

    rule: Rule
    key: str
    severity: Literal["critical", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """When a condition holds. None: never."""

    lag: int | None = None
    lag_for_s: float = 300.0
    broken: float | None = None
    """A share of rows, 0 to 1."""


@dataclass(slots=True)
class _Flow:
    """What is known of a flow: its figures in this run, and the sums of the runs before it."""

    figures: Mapping[str, Any] = field(default_factory=dict)
    before: dict[str, float] = field(default_factory=dict)
    behind_since: float | None = None

    def total(self, name: str) -> float:
        return self.before.get(name, 0.0) + (self.figures.get(name) or 0)

    def broken(self) -> dict[tuple[str, str], int]:
        """By name and what becomes of the rows."""
        return {(e["expectation"], e["otherwise"]): e["broken"] for e in self.figures.get("expectations", ())}


_SUMS = {
    "rows_in": "rows_in",
    "rows_out": "rows_out",
    "batches": "batches",
    "seconds": "flow_seconds",
    "checked": "rows_checked",
}
"""Figures that are added up over runs, with the names of their metrics."""


class Monitor:
    """Takes events; answers at any time."""

    def __init__(self, pipeline: str, limits: Limits) -> None:
        self._pipeline = pipeline
        self._limits = limits
        self._flows: dict[str, _Flow] = {}
        self._broken_before: dict[tuple[str, str, str], int] = {}
        self._runs = {"completed": 0, "failed": 0}
        self._last_completed_at: float | None = None
        self._run_began_at: float | None = None
        self._problem = ""
        self._conditions: dict[tuple[Rule, str], Condition] = {}
        self._kept: set[str] = set()
        """Expectations, with their flows, that enough rows kept in the last run that had any."""

    def take(self, event: Mapping[str, Any]) -> None:
        at = float(event["at"])
        match event["event"]:
            case "run began":
                self._begin(at)
            case "progress":
                self._on_progress(event, at)
            case "problem":
                about = f"flow {event['flow']}: " if event.get("flow") else ""
                self._problem = f"{about}{event['problem']}"
                if self._run_began_at is None:
                    self._fail(self._problem)
            case "run ended":
                self._on_end(event, at)
            case "ended" if event.get("status") and self._run_began_at is not None:
                self._fail(self._problem or "Spark's driver ended")

    def conditions(self, now: float) -> list[Condition]:
        """All that hold at `now`, seconds since 1970."""
        limit, patience = self._limits.lag, self._limits.lag_for_s
        found = list(self._conditions.values())
        for name, flow in self._flows.items():
            if limit is not None and flow.behind_since is not None and now - flow.behind_since >= patience:
                text = f"flow {name} is {flow.figures['lag']:,} records behind, more than {limit:,} for {patience:g} s"
                found.append(Condition("lag", name, "warning", text))
        return found

    def is_over(self, rule: str, key: str) -> bool:
        """Whether a condition that an earlier command found is known to hold no more."""
        if rule == "lag":
            flow = self._flows.get(key)
            return flow is not None and flow.figures.get("lag") is not None and flow.behind_since is None
        if (rule, key) in self._conditions:
            return False
        return self._runs["completed"] > 0 if rule == "failed" else key in self._kept

    def metrics(self) -> str:
        """Prometheus' text format."""
        registry = Registry()
        pipeline = ("pipeline", self._pipeline)

        def family(name: str, members: Iterable[Member], *, is_counter: bool = False) -> None:
            found = sorted(members)
            registry.family(GROUP, KIND, name, lambda: found, is_counter=is_counter)

        flows = self._flows.items()
        for field_name, shown in _SUMS.items():
            sums = [((pipeline, ("flow", name)), flow.total(field_name)) for name, flow in flows]
            family(shown, sums, is_counter=True)
        behind = [(name, flow.figures["lag"]) for name, flow in flows if flow.figures.get("lag") is not None]
        family("lag_records", [((pipeline, ("flow", name)), float(lag)) for name, lag in behind])
        family(
            "broken_expectations", [(self._tags(*key), float(count)) for key, count in self._broken()], is_counter=True
        )
        outcomes = [((pipeline, ("outcome", outcome)), float(count)) for outcome, count in self._runs.items()]
        family("runs", outcomes, is_counter=True)
        family("is_running", [((pipeline,), float(self._run_began_at is not None))])
        if self._last_completed_at is not None:
            family("last_completed_seconds", [((pipeline,), self._last_completed_at)])
        return render_prometheus(registry)

    def _tags(self, flow: str, expectation: str, otherwise: str) -> tuple[tuple[str, str], ...]:
        named = (("flow", flow), ("expectation", expectation), ("otherwise", otherwise))
        return (("pipeline", self._pipeline), *named)

    def _broken(self) -> list[tuple[tuple[str, str, str], int]]:
        counts = dict(self._broken_before)
        for name, flow in self._flows.items():
            for (expectation, otherwise), count in flow.broken().items():
                key = (name, expectation, otherwise)
                counts[key] = counts.get(key, 0) + count
        return list(counts.items())

    def _begin(self, at: float) -> None:
        self._broken_before = dict(self._broken())
        for flow in self._flows.values():
            flow.before = {name: flow.total(name) for name in _SUMS}
            flow.figures = {"lag": flow.figures.get("lag")}
        self._run_began_at, self._problem = at, ""

    def _on_progress(self, event: Mapping[str, Any], at: float) -> None:
        flow = self._flows.setdefault(event["flow"], _Flow())
        flow.figures = event
        lag, limit = event.get("lag"), self._limits.lag
        if limit is None or lag is None or lag <= limit:
            flow.behind_since = None
        elif flow.behind_since is None:
            flow.behind_since = at

    def _on_end(self, event: Mapping[str, Any], at: float) -> None:
        self._run_began_at = None
        self._look_at_expectations()
        if event["outcome"] != "completed":
            self._fail(self._problem or "it says no reason")
            return
        self._runs["completed"] += 1
        self._last_completed_at = at
        self._conditions.pop(("failed", self._pipeline), None)

    def _fail(self, why: str) -> None:
        self._run_began_at = None
        self._runs["failed"] += 1
        text = f"a run of {self._pipeline} failed: {' '.join(why.split())[:500]}"
        self._conditions["failed", self._pipeline] = Condition("failed", self._pipeline, "critical", text)

    def _look_at_expectations(self) -> None:
        limit = self._limits.broken
        if limit is None:
            return
        for name, flow in self._flows.items():
            rows = flow.figures.get("checked") or 0
            for (expectation, otherwise), broken in flow.broken().items():
                key = f"{name}: {expectation}"
                if rows and broken / rows > limit:
                    self._kept.discard(key)
                    text = f"{broken:,} of {rows:,} rows of flow {name} broke '{expectation}' ({otherwise})"
                    self._conditions["broken", key] = Condition("broken", key, "warning", text)
                elif rows:
                    self._kept.add(key)
                    self._conditions.pop(("broken", key), None)
