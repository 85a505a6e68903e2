"""IsrHistory: who left and joined ISRs in a real cluster, and what another lag policy would have said to it.

Decides what lines of Apache Kafka's server.log and kavka's why-records tell; asks the production `LagPolicy` about each
follower that was thrown out, with the offsets and times that the leader had then. Must not know where the lines were
read.

    I1  what a record does not say is not guessed: the policy is asked with the least and the greatest value that it
        can have had, and where the answers differ the verdict is UNKNOWN
    I2  a history knows only the moments in which somebody was thrown out. A follower that another policy would have
        thrown out at another time is in no record: numbers of removals under other policies are lower bounds

Forms of Apache Kafka's lines that are read (the logger's own prefix must be the default, `[2026-01-31 10:42:07,123]`):

    0.8 - 0.11  Partition [t,0] on broker 1: Shrinking ISR for partition [t,0] from 1,2 to 1      (no evidence)
    1.0 - 2.1   [Partition t-0 broker=1] Shrinking ISR from 1,2 to 1                              (no evidence)
    2.2 - 3.5   ... to 1. Leader: (highWatermark: 0, endOffset: 20). Out of sync replicas: (brokerId: 2, endOffset: 19).
    3.6 - 4.x   ... (brokerId: 2, endOffset: 19, lastCaughtUpTimeMs: 1795245857791)
    to 2.6      ... Expanding ISR from 1 to 1,2
    from 2.7    ... ISR updated to 1,2  and version updated to 47; [1,2]; 1,2 (under-min-isr): the only line of one that
                joins. Who joined is known where the ISR before is

Those of 3.9 and 4.x were checked against these releases, the older ones against their descriptions only. The lines name
no time zone, `lastCaughtUpTimeMs` is in UTC: zones differ by quarters of an hour, so an age is taken modulo that.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from time import strptime
from typing import Final, NamedTuple

from kavka.decisions import Decision, DecisionKind, Fact
from kavka.model import BrokerId, Offset, TopicPartition
from kavka.replication.decide.replica import NEVER_MS, RemoteReplica
from kavka.studies.lag_outcome import Choice
from kavka.studies.lag_policy import MIN_INSYNC_REPLICAS
from kavka.studies.lag_workload import PATIENCE_MS

ZONE_STEP_MS: Final = 15 * 60_000
_LINE: Final = re.compile(
    r"\[(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(?P<ms>\d{3})\] \w+ "
    r"(?:\[Partition (?P<topic>\S+)-(?P<partition>\d+) broker=(?P<leader>\d+)\]"
    r"|Partition \[(?P<old_topic>[^,\]]+),(?P<old_partition>\d+)\] on broker (?P<old_leader>\d+):) (?P<rest>.*)"
)
_CHANGE: Final = re.compile(
    r"(?P<verb>Shrinking|Expanding) ISR (?:for partition \S+ )?from (?P<before>[\d,]+) to (?P<after>[\d,]+)"
)
_UPDATED: Final = re.compile(r"ISR updated to \[?(?P<after>\d+(?:,\d+)*)")
_LEADER: Final = re.compile(r"Leader: \(highWatermark: (\d+), endOffset: (\d+)\)")
_FOLLOWER: Final = re.compile(r"\(brokerId: (\d+), endOffset: (-?\d+)(?:, lastCaughtUpTimeMs: (-?\d+))?\)")


class Progress(NamedTuple):
    """How far a follower was, as its leader knew when it threw it out; None if the record does not say."""

    follower: BrokerId
    log_end_offset: Offset | None = None
    last_caught_up_ms: int | None = None
    last_fetch_ms: int | None = None


class IsrChange(NamedTuple):
    """An ISR that changed. `before` is empty where it is not known.

    `by_controller`: it took out who died; no lag policy had a say in that, and nobody was thrown out.
    """

    at_ms: int
    partition: TopicPartition
    leader: BrokerId
    before: tuple[BrokerId, ...]
    after: tuple[BrokerId, ...]
    log_end_offset: Offset | None = None
    progress: tuple[Progress, ...] = ()
    by_controller: bool = False

    @property
    def left(self) -> tuple[BrokerId, ...]:
        """Who was thrown out for lagging."""
        if self.by_controller:
            return ()
        return tuple(broker_id for broker_id in self.before if broker_id not in self.after)


class Verdict(Enum):
    """What a policy says of a follower that was thrown out."""

    OUT = "out"
    STAYS = "stays"
    UNKNOWN = "unknown"


class Removal(NamedTuple):
    """A follower that was thrown out. `back_after_ms` is None if it did not come back."""

    at_ms: int
    partition: TopicPartition
    follower: BrokerId
    log_end_offset: Offset | None
    progress: Progress
    back_after_ms: int | None

    @property
    def was_needless(self) -> bool:
        """Whether it was back so soon that its operator would not have minded its lag."""
        return self.back_after_ms is not None and self.back_after_ms <= PATIENCE_MS


class Judgement(NamedTuple):
    """What one policy says to all removals of a history."""

    choice: Choice
    out: int
    stays: int
    unknown: int
    needless: int
    """Of those that it would have thrown out as well: back at once."""
    late: int
    """Of those that it would have kept then: not back for longer than `PATIENCE_MS`; noticed later, or never."""


@dataclass(frozen=True, slots=True)
class IsrHistory:
    """Changes by time."""

    changes: tuple[IsrChange, ...]

    @property
    def shrinks(self) -> int:
        return sum(bool(change.left) for change in self.changes)

    @property
    def expands(self) -> int:
        return sum(not change.left and not change.by_controller for change in self.changes)

    @property
    def updates(self) -> int:
        """What leaders wrote, or had the controller write."""
        return self.shrinks + self.expands

    def removals(self) -> list[Removal]:
        """Who was thrown out, by time."""
        found = []
        next_in_ms: dict[tuple[TopicPartition, BrokerId], int] = {}
        for change in reversed(self.changes):
            for follower in change.left:
                known = next((each for each in change.progress if each.follower == follower), Progress(follower))
                back_ms = next_in_ms.get((change.partition, follower))
                after_ms = None if back_ms is None else back_ms - change.at_ms
                found.append(Removal(change.at_ms, change.partition, follower, change.log_end_offset, known, after_ms))
            for member in change.after:
                next_in_ms[change.partition, member] = change.at_ms
        return found[::-1]

    def refused_ms(self) -> int:
        """How long, summed over partitions, an ISR was too small for min.insync.replicas=2; as far as it is known."""
        total, since = 0, dict[TopicPartition, int]()
        for change in self.changes:
            if len(change.after) < MIN_INSYNC_REPLICAS:
                since.setdefault(change.partition, change.at_ms)
            elif change.partition in since:
                total += change.at_ms - since.pop(change.partition)
        return total + sum(self.changes[-1].at_ms - at_ms for at_ms in since.values())

    def median_out_ms(self) -> int | None:
        times = [each.back_after_ms for each in self.removals() if each.back_after_ms is not None]
        return round(median(times)) if times else None

    def judge(self, choice: Choice) -> Judgement:
        removals = self.removals()
        verdicts = [judge(removal, choice) for removal in removals]
        pairs = list(zip(removals, verdicts, strict=True))
        return Judgement(
            choice,
            verdicts.count(Verdict.OUT),
            verdicts.count(Verdict.STAYS),
            verdicts.count(Verdict.UNKNOWN),
            sum(verdict is Verdict.OUT and removal.was_needless for removal, verdict in pairs),
            sum(verdict is Verdict.STAYS and not removal.was_needless for removal, verdict in pairs),
        )


def judge(removal: Removal, choice: Choice) -> Verdict:
    """Whether the policy would have thrown the follower out at that moment (I1)."""
    known, at_ms = removal.progress, removal.at_ms
    if removal.log_end_offset is None or known.log_end_offset is None:
        return Verdict.UNKNOWN
    caught_up = _extremes(known.last_caught_up_ms, NEVER_MS, at_ms)
    answers = set()
    for last_caught_up_ms in caught_up:
        # A fetch that caught up was a fetch: the last one was not before it.
        for last_fetch_ms in _extremes(known.last_fetch_ms, last_caught_up_ms, at_ms):
            replica = RemoteReplica(known.follower)
            replica.log_end_offset = known.log_end_offset
            replica.last_caught_up_ms, replica.last_fetch_ms = last_caught_up_ms, last_fetch_ms
            answers.add(choice.policy.is_in_sync(replica, removal.log_end_offset, at_ms))
    if len(answers) > 1:
        return Verdict.UNKNOWN
    return Verdict.STAYS if answers == {True} else Verdict.OUT


def _extremes(known: int | None, least: int, greatest: int) -> tuple[int, ...]:
    return (least, greatest) if known is None else (known,)


# -- what is read


def history(changes: Iterable[IsrChange]) -> IsrHistory:
    """All changes by time, each once: what `ISR updated` says again after another line is no change of its own.

    Where such a line shows that somebody left as well, the controller took him out (a broker that died): no lag policy
    had a say in that, so it is no removal here.
    """
    current: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    found = []
    for change in sorted(changes, key=lambda change: change.at_ms):
        known = current.get(change.partition, ())
        before = change.before or tuple(broker_id for broker_id in known if broker_id in change.after)
        current[change.partition] = change.after
        if set(before) != set(change.after):
            found.append(change._replace(before=before))
    return IsrHistory(tuple(found))


def parse_kafka_line(line: str) -> IsrChange | None:
    """The ISR change that a line of Kafka's server.log reports; None if it reports none."""
    match = _LINE.match(line)
    if match is None:
        return None
    rest = match["rest"]
    changed, updated = _CHANGE.match(rest), _UPDATED.match(rest)
    if changed is None and updated is None:
        return None
    at_ms = timegm(strptime(match["time"], "%Y-%m-%d %H:%M:%S")) * 1000 + int(match["ms"])
    partition = TopicPartition(match["topic"] or match["old_topic"], int(match["partition"] or match["old_partition"]))
    leader = BrokerId(int(match["leader"] or match["old_leader"]))
    if changed is None:
        assert updated is not None
        return IsrChange(at_ms, partition, leader, (), _brokers(updated["after"]))
    offsets = _LEADER.search(rest)
    progress = tuple(
        Progress(BrokerId(int(broker)), int(end), None if caught_up is None else _in_zone(int(caught_up), at_ms))
        for broker, end, caught_up in (found.groups() for found in _FOLLOWER.finditer(rest))
    )
    end_offset = None if offsets is None else int(offsets[2])
    before, after = _brokers(changed["before"]), _brokers(changed["after"])
    return IsrChange(at_ms, partition, leader, before, after, end_offset, progress)


def _brokers(text: str) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(int(each)) for each in text.split(",") if each)


def _in_zone(utc_ms: int, at_ms: int) -> int:
    """The time that `utc_ms` was in the zone of a line of `at_ms`."""
    return at_ms - (at_ms - utc_ms) % ZONE_STEP_MS


def from_decision(decision: Decision) -> IsrChange | None:
    """The ISR change that a why-record reports; None if it reports none."""
    if decision.kind not in (DecisionKind.ISR_SHRUNK, DecisionKind.ISR_EXPANDED) or decision.partition is None:
        return None
    before, after = _isr(decision.before), _isr(decision.after)
    evidence = decision.evidence
    progress = tuple(
        Progress(
            broker_id,
            _number(evidence, f"broker_{broker_id}_log_end_offset"),
            _number(evidence, f"broker_{broker_id}_last_caught_up_ms"),
            _number(evidence, f"broker_{broker_id}_last_fetch_ms"),
        )
        for broker_id in before
        if broker_id not in after
    )
    end_offset = _number(evidence, "log_end_offset")
    by_controller = decision.controller_epoch >= 0
    return IsrChange(
        decision.at_ms, decision.partition, decision.broker_id, before, after, end_offset, progress, by_controller
    )


def _isr(facts: Mapping[str, Fact]) -> tuple[BrokerId, ...]:
    members = facts.get("isr")
    if not isinstance(members, Sequence) or isinstance(members, str):
        return ()
    return tuple(BrokerId(each) for each in members if isinstance(each, int))


def _number(facts: Mapping[str, Fact], name: str) -> int | None:
    value = facts.get(name)
    return value if isinstance(value, int) else None
