"""Comparison: in-sync replicas (f + 1 of them) and a majority quorum (of 2f + 1), on the same faults and delays.

Decides what is drawn, when each scheme calls a write committed, and what is lost. The leader of an ISR is chosen by the
production code (`controller.decide.election`); for the quorum there is none, it follows the rule in the article: 2f + 1
replicas, f + 1 of them have a record before it is committed, the leader is who has the longest log among a majority.

The model's assumptions:

    delays      from the leader to each replica's log, log-normal, drawn for each write and replica; a replica in a slow
                spell takes `SLOW_FACTOR` times as long, a paused one answers when the pause ends. Replicas take records
                in order. All schemes see the same draws; a scheme with n replicas uses the first n brokers
    faults      each broker crashes on its own, and comes back; with `disk_loss` its log is empty then, under its old
                id, and nobody knows (as in Kafka with ZooKeeper). A crash that keeps the disk loses nothing: the page
                cache outlives the process. Pauses longer than `detect_ms` are crashes: the session has expired
    detection   a dead broker is noticed after `detect_ms` in every scheme; then, or when one comes back, a leader is
                elected at once. No follower lags longer than replica.lag.time.max.ms without being dead
    writes      one every `write_every_ms`, acks=all. One that finds no leader, or too few replicas, or whose leader
                dies before it is committed, is not acknowledged, and not tried again
    catching up a second, and 20,000 records/s

    I1  the same seed gives the same figures; schemes do not influence each other
    I2  lost are records that were acknowledged and that an elected leader does not have; nothing else

Source: article 001; PacificA; Raft (longest log among a majority).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from random import Random
from typing import Final, NamedTuple, assert_never

from kavka.controller.decide.election import Elected, elect_offline
from kavka.model import BrokerId

MEDIAN_DELAY_MS: Final = 2.0
DELAY_SIGMA: Final = 0.7
SLOW_FACTOR: Final = 30.0
SLOW_EVERY_MS: Final = 30 * 60_000
SLOW_FOR_MS: Final = 60_000
PAUSE_EVERY_MS: Final = 10 * 60_000
PAUSE_FOR_MS: Final = 400
RECORDS_PER_MS: Final = 20
CATCH_UP_MS: Final = 1_000
MAX_WRITES: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is drawn from. `failures` is f."""

    failures: int = 1
    hours: float = 24.0
    seed: int = 1
    write_every_ms: int = 1_000
    crash_every_minutes: float = 120.0
    repair_minutes: float = 5.0
    disk_loss: float = 0.02
    detect_ms: int = 6_000


class Scheme(NamedTuple):
    """How a record is committed. `quorum` is 0 for an ISR, else how many replicas make a majority."""

    name: str
    replicas: int
    min_insync_replicas: int = 1
    unclean: bool = False
    quorum: int = 0


def schemes(failures: int) -> tuple[Scheme, ...]:
    """The article's two, and an ISR on as few and on as many machines, to show what costs what."""
    few, many = failures + 1, 2 * failures + 1
    return (
        Scheme(f"ISR of {few}", few),
        Scheme(f"ISR of {few}, unclean", few, unclean=True),
        Scheme(f"ISR of {many}, min {few}", many, min_insync_replicas=few),
        Scheme(f"quorum of {many}", many, quorum=few),
    )


class Outage(NamedTuple):
    from_ms: float
    until_ms: float
    loses_disk: bool


class Spell(NamedTuple):
    from_ms: float
    until_ms: float


@dataclass(frozen=True, slots=True)
class Fate:
    """What befalls one broker, by time. Outages do not overlap."""

    outages: tuple[Outage, ...]
    slow: tuple[Spell, ...]
    pauses: tuple[Spell, ...]

    def dies_after(self, at_ms: float) -> float:
        """When the first outage begins that begins after `at_ms`."""
        index = bisect_right(self.outages, at_ms, key=lambda outage: outage.from_ms)
        return self.outages[index].from_ms if index < len(self.outages) else inf

    def is_slow(self, at_ms: float) -> bool:
        return _current(self.slow, at_ms) is not None

    def awake(self, at_ms: float) -> float:
        """When it acts that wants to act at `at_ms`."""
        pause = _current(self.pauses, at_ms)
        return at_ms if pause is None else pause.until_ms


def _current(spells: Sequence[Spell], at_ms: float) -> Spell | None:
    index = bisect_right(spells, at_ms, key=lambda spell: spell.from_ms) - 1
    return spells[index] if index >= 0 and at_ms < spells[index].until_ms else None


class Write(NamedTuple):
    """A write, and how long it is under way to the log of each broker."""

    at_ms: float
    delays_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """What all schemes live through."""

    circumstances: Circumstances
    fates: tuple[Fate, ...]
    writes: tuple[Write, ...]

    @property
    def end_ms(self) -> float:
        return self.circumstances.hours * 3_600_000


def draw(circumstances: Circumstances) -> Drawn:
    """Faults and delays for 2f + 1 brokers."""
    end_ms = circumstances.hours * 3_600_000
    brokers = range(2 * circumstances.failures + 1)
    fates = tuple(
        _draw_fate(Random(f"fate {broker} {circumstances.seed}"), circumstances, end_ms) for broker in brokers
    )
    random = Random(f"writes {circumstances.seed}")
    writes = []
    for number in range(int(end_ms / circumstances.write_every_ms)):
        at_ms = number * circumstances.write_every_ms + random.random() * circumstances.write_every_ms
        delays = tuple(
            MEDIAN_DELAY_MS * random.lognormvariate(0, DELAY_SIGMA) * (SLOW_FACTOR if fate.is_slow(at_ms) else 1)
            for fate in fates
        )
        writes.append(Write(at_ms, delays))
    return Drawn(circumstances, fates, tuple(writes))


def _draw_fate(random: Random, circumstances: Circumstances, end_ms: float) -> Fate:
    outages, at_ms = [], 0.0
    while True:
        at_ms += random.expovariate(1 / (circumstances.crash_every_minutes * 60_000))
        if at_ms >= end_ms:
            break
        until_ms = at_ms + random.expovariate(1 / (circumstances.repair_minutes * 60_000))
        outages.append(Outage(at_ms, until_ms, random.random() < circumstances.disk_loss))
        at_ms = until_ms
    slow = _draw_spells(random, SLOW_EVERY_MS, SLOW_FOR_MS, end_ms, most_ms=inf)
    pauses = _draw_spells(random, PAUSE_EVERY_MS, PAUSE_FOR_MS, end_ms, most_ms=circumstances.detect_ms)
    return Fate(tuple(outages), slow, pauses)


def _draw_spells(random: Random, every_ms: float, for_ms: float, end_ms: float, *, most_ms: float) -> tuple[Spell, ...]:
    spells, at_ms = [], random.expovariate(1 / every_ms)
    while at_ms < end_ms:
        until_ms = at_ms + min(random.expovariate(1 / for_ms), most_ms)
        spells.append(Spell(at_ms, until_ms))
        at_ms = until_ms + random.expovariate(1 / every_ms)
    return tuple(spells)


# -- what came of it


@dataclass(frozen=True, slots=True)
class SchemeOutcome:
    """What a scheme did. Latencies are of acknowledged writes, ordered."""

    scheme: Scheme
    writes: int
    acknowledged: int
    lost: int
    losses: int
    """Elections that lost something."""
    latencies_ms: tuple[float, ...]
    gaps: tuple[Spell, ...]
    """When nothing was acknowledged: from the first write that was not to the next that was."""

    @property
    def availability(self) -> float:
        return self.acknowledged / self.writes if self.writes else 0.0

    def latency_ms(self, share: float) -> float:
        """What `share` of the acknowledged writes did not exceed; 0 where there are none."""
        ordered = self.latencies_ms
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "scheme": self.scheme.name,
            "replicas": self.scheme.replicas,
            "min_insync_replicas": None if self.scheme.quorum else self.scheme.min_insync_replicas,
            "unclean": self.scheme.unclean,
            "writes": self.writes,
            "acknowledged": self.acknowledged,
            "availability": round(self.availability, 6),
            "commit_p50_ms": round(self.latency_ms(0.5), 3),
            "commit_p99_ms": round(self.latency_ms(0.99), 3),
            "commit_max_ms": round(self.latency_ms(1.0), 3),
            "lost_acknowledged": self.lost,
            "losses": self.losses,
        }


def run_scheme(scheme: Scheme, drawn: Drawn) -> SchemeOutcome:
    """One scheme through all that was drawn."""
    return _SchemeRun(scheme, drawn).run()


class _Kind(IntEnum):
    """What happens to a broker, in the order in which it does at the same moment."""

    NOTICED = 0
    RETURNS = 1
    CRASHES = 2
    SYNCED = 3


class _SchemeRun:
    """Replicas as prefixes of the leader's log: `_ends` says how far each one has it."""

    def __init__(self, scheme: Scheme, drawn: Drawn) -> None:
        self._scheme = scheme
        self._drawn = drawn
        self._detect_ms = drawn.circumstances.detect_ms
        self._brokers = [BrokerId(number) for number in range(scheme.replicas)]
        self._fates = drawn.fates[: scheme.replicas]
        self._alive = set(self._brokers)
        self._isr: tuple[BrokerId, ...] = tuple(self._brokers)
        self._leader: BrokerId | None = self._brokers[0]
        self._ends = [0] * scheme.replicas
        self._pending: list[deque[tuple[float, int]]] = [deque() for _ in self._brokers]
        self._synced_ms = [0.0] * scheme.replicas
        self._may_elect_ms = 0.0
        self._acked: list[bool] = []
        self._lost = self._losses = 0
        self._events: list[tuple[float, _Kind, int, bool]] = []
        for broker, fate in zip(self._brokers, self._fates, strict=True):
            for outage in fate.outages:
                noticed_ms = min(outage.from_ms + self._detect_ms, outage.until_ms)
                self._events.append((outage.from_ms, _Kind.CRASHES, broker, False))
                self._events.append((noticed_ms, _Kind.NOTICED, broker, False))
                self._events.append((outage.until_ms, _Kind.RETURNS, broker, outage.loses_disk))
        heapq.heapify(self._events)

    def run(self) -> SchemeOutcome:
        latencies: list[float] = []
        gaps: list[Spell] = []
        gap_ms: float | None = None
        for write in self._drawn.writes:
            while self._events and self._events[0][0] <= write.at_ms:
                self._on_event(*heapq.heappop(self._events))
            latency_ms = self._write(write)
            if latency_ms is None:
                gap_ms = write.at_ms if gap_ms is None else gap_ms
                continue
            latencies.append(latency_ms)
            if gap_ms is not None:
                gaps.append(Spell(gap_ms, write.at_ms))
                gap_ms = None
        if gap_ms is not None:
            gaps.append(Spell(gap_ms, self._drawn.end_ms))
        count = len(latencies)
        latencies.sort()
        return SchemeOutcome(
            self._scheme, len(self._drawn.writes), count, self._lost, self._losses, tuple(latencies), tuple(gaps)
        )

    # -- faults

    def _on_event(self, at_ms: float, kind: _Kind, number: int, loses_disk: bool) -> None:
        broker = self._brokers[number]
        self._settle(at_ms)
        match kind:
            case _Kind.CRASHES:
                self._on_crash(broker, at_ms)
            case _Kind.NOTICED:
                self._on_notice(broker, at_ms)
            case _Kind.RETURNS:
                self._on_return(broker, at_ms, loses_disk=loses_disk)
            case _Kind.SYNCED:
                self._on_synced(broker, at_ms)
            case _:
                assert_never(kind)

    def _on_crash(self, broker: BrokerId, at_ms: float) -> None:
        self._alive.discard(broker)
        self._pending[broker].clear()
        self._synced_ms[broker] = inf
        if broker == self._leader:
            self._leader = None
            self._may_elect_ms = min(at_ms + self._detect_ms, self._returns(broker, at_ms))

    def _returns(self, broker: BrokerId, crashed_ms: float) -> float:
        outages = self._fates[broker].outages
        return outages[bisect_right(outages, crashed_ms, key=lambda outage: outage.from_ms) - 1].until_ms

    def _on_notice(self, broker: BrokerId, at_ms: float) -> None:
        """The dead leave the ISR while there is a leader to say so; the last one that led stays in it."""
        if self._leader is None:
            self._elect(at_ms)
        elif broker not in self._alive:
            self._isr = tuple(member for member in self._isr if member != broker)

    def _on_return(self, broker: BrokerId, at_ms: float, *, loses_disk: bool) -> None:
        self._alive.add(broker)
        if loses_disk:
            self._ends[broker] = 0
        if self._leader is None:
            self._elect(at_ms)
        else:
            self._begin_sync(broker, at_ms)

    def _on_synced(self, broker: BrokerId, at_ms: float) -> None:
        """It has all that the leader has, unless a crash or another leader came in between."""
        if self._leader is None or at_ms != self._synced_ms[broker]:
            return
        self._ends[broker] = len(self._acked)
        if broker not in self._isr:
            self._isr = (*self._isr, broker)

    def _elect(self, at_ms: float) -> None:
        if at_ms < self._may_elect_ms:
            return
        leader = self._elect_from_quorum() if self._scheme.quorum else self._elect_from_isr()
        if leader is None:
            return
        self._leader = leader
        end = self._ends[leader]
        lost = sum(self._acked[end:])
        self._lost += lost
        self._losses += lost > 0
        del self._acked[end:]
        for broker in self._brokers:
            self._pending[broker].clear()
            self._ends[broker] = min(self._ends[broker], end)
            if broker != leader and broker in self._alive:
                self._begin_sync(broker, at_ms)

    def _elect_from_isr(self) -> BrokerId | None:
        result = elect_offline(self._brokers, self._isr, sorted(self._alive), unclean_allowed=self._scheme.unclean)
        if not isinstance(result, Elected):
            return None
        self._isr = result.isr
        return result.leader

    def _elect_from_quorum(self) -> BrokerId | None:
        if len(self._alive) < self._scheme.quorum:
            return None
        return max(sorted(self._alive), key=lambda broker: self._ends[broker])

    def _begin_sync(self, broker: BrokerId, at_ms: float) -> None:
        """The replica copies what it lacks. Who is a member of the ISR, or one of a quorum, is waited for meanwhile."""
        missing = len(self._acked) - self._ends[broker]
        synced_ms = at_ms + (CATCH_UP_MS + missing / RECORDS_PER_MS if missing else 0)
        self._synced_ms[broker] = synced_ms
        heapq.heappush(self._events, (synced_ms, _Kind.SYNCED, broker, False))

    def _settle(self, now_ms: float) -> None:
        """Followers have what has arrived by now; the leader has all of it."""
        for broker, pending in enumerate(self._pending):
            while pending and pending[0][0] <= now_ms:
                self._ends[broker] = pending.popleft()[1]
        if self._leader is not None:
            self._ends[self._leader] = len(self._acked)

    # -- writes

    def _write(self, write: Write) -> float | None:
        """How long until it is acknowledged; None if it is not."""
        leader = self._leader
        if leader is None or self._is_short():
            return None
        at_ms, fate = write.at_ms, self._fates[leader]
        started_ms = fate.awake(at_ms)
        end = len(self._acked) + 1
        arrivals = {
            broker: self._arrival_ms(broker, at_ms, started_ms + write.delays_ms[broker], end)
            for broker in self._brokers
            if broker != leader and broker in self._alive
        }
        own_ms = started_ms + write.delays_ms[leader]
        if self._scheme.quorum:
            committed_ms = self._committed_by_quorum(own_ms, arrivals)
        else:
            committed_ms = self._committed_by_isr(own_ms, arrivals, at_ms)
        is_acked = committed_ms < fate.dies_after(at_ms)
        self._acked.append(is_acked)
        return committed_ms - at_ms if is_acked else None

    def _is_short(self) -> bool:
        if self._scheme.quorum:
            return len(self._alive) < self._scheme.quorum
        return len(self._isr) < self._scheme.min_insync_replicas

    def _arrival_ms(self, broker: BrokerId, at_ms: float, there_ms: float, end: int) -> float:
        """When the record is in the log of a follower that lives at `at_ms`; never, if it dies before that."""
        pending = self._pending[broker]
        earliest_ms = max(there_ms, self._synced_ms[broker], pending[-1][0] if pending else 0.0)
        arrival_ms = self._fates[broker].awake(earliest_ms)
        if arrival_ms >= self._fates[broker].dies_after(at_ms):
            return inf
        pending.append((arrival_ms, end))
        return arrival_ms

    def _committed_by_quorum(self, own_ms: float, arrivals: dict[BrokerId, float]) -> float:
        ordered = sorted([own_ms, *arrivals.values()])
        return ordered[self._scheme.quorum - 1] if len(ordered) >= self._scheme.quorum else inf

    def _committed_by_isr(self, own_ms: float, arrivals: dict[BrokerId, float], at_ms: float) -> float:
        """When all of the ISR have it, those that die meanwhile having been taken out of it."""
        committed_ms, have = own_ms, 1
        for member in self._isr:
            if member == self._leader:
                continue
            arrival_ms = arrivals.get(member, inf)
            have += arrival_ms < inf
            committed_ms = max(committed_ms, arrival_ms if arrival_ms < inf else self._noticed_ms(member, at_ms))
        return committed_ms if have >= self._scheme.min_insync_replicas else inf

    def _noticed_ms(self, broker: BrokerId, at_ms: float) -> float:
        """When it is noticed that a member is dead, or will be."""
        fate = self._fates[broker]
        index = bisect_right(fate.outages, at_ms, key=lambda outage: outage.until_ms)
        outage = fate.outages[index]
        return min(outage.from_ms + self._detect_ms, outage.until_ms)
