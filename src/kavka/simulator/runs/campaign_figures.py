"""Figures of a campaign: what all of its seeds came to, beside what is asked for.

Decides which figures there are, and whether each is what it must be. Must not know how the seeds were run.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.simulator.rules.rare_states import REACHED_SHARE, STATES
from kavka.simulator.runs.swarm import SeedResult
from kavka.simulator.runs.twins import SEEDS as TWINS
from kavka.simulator.runs.twins import Twin

SEEDS: Final = 300
SIMULATED_HOURS: Final = 50.0
MINUTES: Final = 10.0
"""On two cores."""
EVENTS: Final = 5_000_000
FAULTS: Final = 10_000
RATIO: Final = 20.0
"""Simulated to real time."""
ORDINARY_BROKERS: Final = 3
"""The swarm whose speed is told for one process."""


class Row(NamedTuple):
    """One figure. `is_met` is None if nothing is asked for."""

    figure: str
    target: str
    reached: str
    is_met: bool | None = None


class MutantFigures(NamedTuple):
    """What became of bugs that were put back."""

    mutants: int
    killed: int
    alive: Sequence[str] = ()
    median_tries: float = 0.0
    """Scenarios or seeds that had to be played until one was found."""


class Figures:
    """The sums over all seeds so far, and what was run beside them."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self._seeds_took_s: float | None = None
        self.seeds = 0
        self.simulated_hours = 0.0
        self.events_checked = 0
        self.changes_checked = 0
        self.acknowledged = 0
        self.consumed = 0
        self.faults: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self.failed: list[SeedResult] = []
        self.twins: list[Twin] = []
        self.mutants: MutantFigures | None = None
        self._ordinary = (0.0, 0.0)
        """Simulated and real seconds of the seeds with three brokers."""

    def add(self, result: SeedResult) -> None:
        self.seeds += 1
        self.simulated_hours += result.simulated_hours
        self.events_checked += result.events_checked
        self.changes_checked += result.changes_checked
        self.acknowledged += result.acknowledged
        self.consumed += result.consumed
        self.faults.update(result.faults)
        self.states.update(result.states)
        if result.plan is not None and result.plan.brokers == ORDINARY_BROKERS:
            simulated, real = self._ordinary
            self._ordinary = simulated + 3_600 * result.simulated_hours, real + result.wall_seconds
        if result.violation:
            self.failed.append(result)

    def seeds_done(self) -> None:
        """The seeds have all been run: what comes now is not their time."""
        self._seeds_took_s = time.perf_counter() - self._began_s

    @property
    def wall_seconds(self) -> float:
        """How long the seeds took, or have taken so far."""
        return time.perf_counter() - self._began_s if self._seeds_took_s is None else self._seeds_took_s

    @property
    def missing_states(self) -> list[str]:
        return [name for name in STATES if not self.states[name]]

    @property
    def ratio(self) -> float:
        """Simulated to real time, of all processes together."""
        return 3_600 * self.simulated_hours / self.wall_seconds

    @property
    def ordinary_ratio(self) -> float:
        """Simulated to real time of one process with a three-broker swarm."""
        simulated, real = self._ordinary
        return simulated / real if real else 0.0

    def rows(self) -> list[Row]:
        """The table. What is asked for is asked of a whole campaign."""
        reached, minutes = len(STATES) - len(self.missing_states), self.wall_seconds / 60
        is_live = [result.seed for result in self.failed if result.rule == "R20"]
        rows = [
            Row("seeds", f">= {SEEDS}", f"{self.seeds}", self.seeds >= SEEDS),
            Row(
                "simulated hours",
                f">= {SIMULATED_HOURS:.0f}",
                f"{self.simulated_hours:.1f}",
                self.simulated_hours >= SIMULATED_HOURS,
            ),
            Row("real minutes", f"<= {MINUTES:.0f}", f"{minutes:.1f}", minutes <= MINUTES),
            Row("simulated to real time", f">= {RATIO:.0f}:1", f"{self.ratio:.0f}:1", self.ratio >= RATIO),
            Row(
                "the same, one process with three brokers",
                f">= {RATIO:.0f}:1",
                f"{self.ordinary_ratio:.0f}:1",
                self.ordinary_ratio >= RATIO,
            ),
            Row("faults", f">= {FAULTS:,}", f"{self.faults.total():,}", self.faults.total() >= FAULTS),
            *(Row(f"    {kind}", "", f"{count:,}") for kind, count in sorted(self.faults.items())),
            Row(
                "steps after which all rules were checked",
                f">= {EVENTS:,}",
                f"{self.events_checked:,}",
                self.events_checked >= EVENTS,
            ),
            Row("    of them with a change that a rule speaks of", "", f"{self.changes_checked:,}"),
            Row("records acknowledged, read", "", f"{self.acknowledged:,}, {self.consumed:,}"),
            Row(
                "rules broken, runs that do not come together",
                "0, 0",
                f"{len(self.failed) - len(is_live)}, {len(is_live)}",
                not self.failed,
            ),
            Row(
                "rare states reached",
                f">= {REACHED_SHARE:.0%}",
                f"{reached} of {len(STATES)} ({reached / len(STATES):.0%})",
                reached >= REACHED_SHARE * len(STATES),
            ),
        ]
        same = sum(not twin.parted for twin in self.twins)
        if self.twins:
            rows.append(
                Row("twin runs that are one run", f"{TWINS} of {TWINS}", f"{same} of {len(self.twins)}", same >= TWINS)
            )
        if self.mutants is not None:
            killed, mutants = self.mutants.killed, self.mutants.mutants
            found = f"{killed} of {mutants}, {self.mutants.median_tries:g} tries at the median"
            rows.append(Row("bugs put back that were found", "all, >= 25", found, killed == mutants >= 25))
        return rows

    def as_json(self) -> dict[str, object]:
        facts: dict[str, object] = {
            "seeds": self.seeds,
            "simulated_hours": round(self.simulated_hours, 2),
            "simulated_to_wall": round(self.ratio, 1),
            "simulated_to_wall_of_one_process": round(self.ordinary_ratio, 1),
            "events_checked": self.events_checked,
            "changes_checked": self.changes_checked,
            "faults": self.faults.total(),
            "faults_by_kind": dict(sorted(self.faults.items())),
            "acknowledged": self.acknowledged,
            "consumed": self.consumed,
            "violations": [{"seed": result.seed, "what": result.violation} for result in self.failed],
            "states": {name: self.states[name] for name in STATES},
            "states_missing": self.missing_states,
            "wall_seconds": round(self.wall_seconds, 1),
        }
        if self.twins:
            facts["twins"] = [{"seed": twin.seed, "digest": twin.digest, "parted": twin.parted} for twin in self.twins]
        if self.mutants is not None:
            facts["mutants"] = self.mutants._asdict()
        return facts


def table(rows: Sequence[Row]) -> str:
    """The rows in columns; what was missed is marked."""
    lines = [Row("figure", "target", "reached"), *rows]
    figures = max(len(row.figure) for row in lines)
    targets = max(len(row.target) for row in lines)
    reached = max(len(row.reached) for row in lines)
    return "\n".join(
        f"{row.figure:{figures}}  {row.target:>{targets}}  {row.reached:>{reached}}"
        + ("  MISSED" if row.is_met is False else "")
        for row in lines
    )
