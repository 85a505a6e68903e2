"""RecordedRun: one simulation as somebody asked for it, with its trace, its figures and what it found.

Decides how a wish (a seed, a named scenario or a run that was written down; how long, which faults) becomes a run, and
which words have it again.
Must not know how a run is shown.

    I1  a wish is one run: the same wish has the same digest, in any process
    I2  the faults that somebody names are as frequent as each other; without names the seed draws its own mix
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from shlex import quote
from typing import Final

from kavka.simulator.faults.mix import KINDS, FaultMix
from kavka.simulator.host.trace import SIMULATOR, Event, Trace, recording
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.runs.explore import Point, run_point
from kavka.simulator.runs.regression import Regression
from kavka.simulator.runs.swarm import HOURS, SeedResult, rule_of, run_seed
from kavka.simulator.scenarios import SCENARIOS, play

NO_FAULTS: Final = "none"
NEVER_S: Final = 1e9
"""The mean pause between two faults where there are to be none: thirty years of virtual time."""
LED_TO_IT: Final = 25
"""How many events are shown that led to a violation."""
PROMISES: Final[Mapping[str, str]] = {
    "R1": "every member of the stored ISR has all that is committed",
    "R2": "whom a leader holds for in sync has all that is committed, also where another one has followed that leader",
    "R3": "a leader is a member of the ISR",
    "R4": "two replicas are equal below the lesser of their high watermarks, and below one epoch at one offset",
    "R5": "who leads has everything that ever was committed",
    "R6": "a committed record stays in the log of every member of the ISR",
    "R7": "every acknowledged record is there in the end",
    "R8": "the leader waits for every member of the stored ISR before a record is committed",
    "R9": "log start <= high watermark <= log end, and a leader's high watermark does not fall",
    "R10": "who joins an ISR has all up to the high watermark and the epoch's start, and is no former self",
    "R11": "no log is cut below its high watermark",
    "R12": "who lost records with its power does not lead while another has them",
    "R13": "along a log epochs do not fall, and its epoch checkpoint says what it says",
    "R14": "a request meant for another leader epoch, controller or life of its receiver is refused",
    "R15": "an epoch has one leader, and there is one controller",
    "R16": "what is acknowledged with acks=all is committed, and was appended under enough in-sync replicas",
    "R17": "records of a producer are in the order in which they were sent, none twice",
    "R18": "an offset never shows two values",
    "R19": "a reader sees only what is committed",
    "R20": "once all is healed, everything comes together within its bound",
    "R21": "a move of replicas ends when all targets have been in sync, or with the replicas that there were",
    "R22": "a log that failed takes nothing more; a restarted one is a prefix of itself; records only go on demand",
    "G1": "no partition has two owners in one generation of a group",
    "G2": "a commit of a past generation is refused",
    "G3": "an acknowledged commit of offsets is committed, and is what is fetched",
    "G4": "nothing below a committed offset was left out",
    "G5": "a rebalance ends in time",
    "G6": "a group that is left alone is stable",
    "SH1": "no record has two holders in a share group",
    "SH2": "what a share group has done with stays done with",
    "SH3": "a share group loses no record",
    "SH4": "a share group's start passes nothing that may still be delivered",
    "SH5": "a record is archived for its deliveries only at the limit",
    "SH6": "a lock lasts as long as its setting and its member's session say",
    "SH7": "who does not hold a record changes nothing of it",
    "SH8": "a request with a wrong share session epoch changes nothing",
    "SH9": "what a share group did counts once it is stored, by who leads",
    "SH10": "what is stored of a share group says the same, whole or in part",
    "SH11": "a share group gives out only what is committed, and of transactions what its settings say",
    "SH12": "records in flight and sessions stay within their limits",
}
"""The rules in a sentence each, where a stranger understands one; docs/design/rules.md has them in full."""
BEFELL: Final = ("killed", "power lost", "stopping", "paused", "cut", "clogged", "disk slow", "session ended")
"""Kinds of events that a scenario made, which counts no faults itself."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants simulated. `brokers` and `kinds` of None: as the seed draws them; no `kinds`: no faults.

    `regression`: this run, which was read from the file `replay`; nothing is drawn then. `point`: a story with a fault
    at one step.
    """

    seed: int
    scenario: str | None = None
    hours: float = HOURS
    brokers: int | None = None
    kinds: tuple[str, ...] | None = None
    regression: Regression | None = None
    replay: str = ""
    point: Point | None = None

    @property
    def is_swarm(self) -> bool:
        """Whether its clients are the swarm's."""
        return self.scenario is None

    @property
    def command(self) -> str:
        """What has the same run again."""
        if self.regression is not None:
            return f"kavka simulate --replay {quote(self.replay)}"
        if self.point is not None:
            return self.point.command
        words = ["kavka simulate", f"--seed {self.seed}"]
        if self.scenario is not None:
            words.append(f"--scenario {quote(self.scenario)}")
            return " ".join(words)
        words.append(f"--hours {self.hours:g}" if self.hours != HOURS else "")
        words.append(f"--brokers {self.brokers}" if self.brokers is not None else "")
        if self.kinds is not None:
            names = ",".join(self.kinds) or NO_FAULTS
            words.append(f"--faults {quote(names)}")
        return " ".join(filter(None, words))


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that was broken, or whatever else ended a run that should have gone on."""

    rule: str
    at_ms: int
    what: str
    detail: str

    def as_json(self) -> dict[str, object]:
        return {"rule": self.rule, "at_ms": self.at_ms, "what": self.what, "promise": self.promise}

    @property
    def promise(self) -> str:
        """What the rule says; empty if it is none of Kafka's promises."""
        return PROMISES.get(self.rule, "")


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What came of a wish. `figures` are World.summary's."""

    wish: Wish
    trace: Trace
    figures: Mapping[str, object]
    faults: Mapping[str, int]
    mix: str
    finding: Finding | None
    wall_seconds: float
    result: SeedResult | None
    """What the swarm says of it; None of a scenario."""

    @property
    def title(self) -> str:
        if self.wish.point is not None:
            return f"{self.wish.point.story}, with {self.wish.point.place}"
        return self.wish.scenario or f"A simulated cluster, seed {self.wish.seed}"

    @property
    def command(self) -> str:
        return self.wish.command

    @property
    def told(self) -> str:
        return ""

    @property
    def wall_start_ms(self) -> int:
        return WALL_CLOCK_START_MS

    @property
    def led_to_it(self) -> list[Event]:
        """The latest events: if there is a finding, those before it."""
        return self.trace.last(LED_TO_IT)

    def as_json(self) -> dict[str, object]:
        counts = self.trace.counts
        return {
            "seed": self.wish.seed,
            "scenario": self.wish.scenario,
            "digest": self.trace.digest,
            "simulated_hours": self.figures["simulated_hours"],
            "wall_seconds": round(self.wall_seconds, 2),
            "events_checked": self.figures["events_checked"],
            "changes_checked": self.figures["changes_checked"],
            "faults": sum(self.faults.values()),
            "faults_by_kind": dict(sorted(self.faults.items())),
            "isr_shrinks": self.trace.isr_shrinks,
            "isr_expansions": self.trace.isr_expansions,
            "leader_elections": counts["leader elected"],
            "logs_cut_back": counts["log cut back"],
            "sent": self.figures["sent"],
            "acknowledged": self.figures["acknowledged"],
            "consumed": self.figures["consumed"],
            "trace_events": self.trace.recorded,
            "violations": [self.finding.as_json()] if self.finding is not None else [],
            "again": self.wish.command,
        }


def find_scenarios(words: str) -> list[str]:
    """The names that `words` may mean: one that it is, else those that begin so, else those that have it in them."""
    if words in SCENARIOS:
        return [words]
    wanted = words.casefold()
    folded = {name: name.casefold() for name in SCENARIOS}
    begin = [name for name, fold in folded.items() if fold.startswith((f"{wanted}:", f"{wanted},"))]
    return begin or [name for name, fold in folded.items() if wanted in fold]


def parse_faults(words: str) -> tuple[str, ...]:
    """Kinds, comma-separated; `none` for none. Raises ValueError."""
    kinds = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    if kinds == (NO_FAULTS,):
        return ()
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or not kinds:
        raise ValueError(f"no such kind of fault: {', '.join(unknown) or 'nothing named'}")
    return kinds


def run(wish: Wish) -> RecordedRun:
    """Runs it to its end, or to the first rule that it breaks."""
    began_s = time.perf_counter()
    with recording() as trace:
        finding, mix, result = _play(wish, trace) if wish.scenario is not None else _run_swarm(wish, trace)
    figures = trace.figures
    if finding is not None:
        trace.on_node(SIMULATOR, "rule broken", f"{finding.rule}: {finding.what}")
    # What clients were told is in the observer's digest; with it, it is in the trace's.
    trace.on_node(SIMULATOR, "end", f"what was stored, committed and told: {figures['digest']}")
    faults = figures["faults"]
    if not isinstance(faults, Mapping) or wish.scenario is not None:
        faults = {kind: trace.counts[kind] for kind in BEFELL if trace.counts[kind]}
    return RecordedRun(wish, trace, figures, faults, mix, finding, time.perf_counter() - began_s, result)


def _run_swarm(wish: Wish, trace: Trace) -> tuple[Finding | None, str, SeedResult]:
    if wish.regression is not None:
        result = wish.regression.play()
        mix = f"{len(wish.regression.strikes)}, as they are written down"
    elif wish.point is not None:
        result = run_point(wish.point).as_seed_result()
        mix = f"{len(result.strikes)}: those of the story, and {wish.point.place}"
    else:
        result = run_seed(wish.seed, hours=wish.hours, brokers=wish.brokers, mix=_mix(wish.seed, wish.kinds))
        mix = "none" if wish.kinds == () else result.mix
    if not result.violation:
        return None, mix, result
    return _finding(result.rule, trace.now_ms, result.violation, result.detail), mix, result


def _play(wish: Wish, trace: Trace) -> tuple[Finding | None, str, None]:
    assert wish.scenario is not None
    try:
        play(wish.scenario, wish.seed)
    except Exception as failure:  # noqa: BLE001  # whatever ends a scenario is a finding, and is told as one
        detail = "".join(traceback.format_exception(failure)[-12:])
        return _finding(rule_of(failure), trace.now_ms, str(failure), detail), "as the scenario tells", None
    return None, "as the scenario tells", None


def _finding(rule: str, at_ms: int, text: str, detail: str) -> Finding:
    """What a Violation says begins with its rule and time, which the finding has by itself."""
    for known in (f"{rule} at {at_ms} ms: ", "SimulationStuck: ", f"{rule}: "):
        text = text.removeprefix(known)
    return Finding(rule, at_ms, text, detail)


def _mix(seed: int, kinds: Sequence[str] | None) -> FaultMix | None:
    if kinds is None:
        return None
    if not kinds:
        return FaultMix({KINDS[0]: 1.0}, NEVER_S)
    return FaultMix(dict.fromkeys(kinds, 1.0), 2.0 + Random(f"faults {seed}").random() * 15.0)
