"""GroupAssembly: what has been read of a cluster's groups, put together into views.

Decides how old a group's position is, whether a group is stuck, and how often it rebalanced. Values and `now_ms` in,
views out.

    lag in records    high watermark - committed offset; of a partition that a member has and nothing was committed for:
                      high watermark - log start. Where its members begin (auto.offset.reset) no broker knows.
                      While a group has no members, it is about all partitions of the topics that it has committed in:
                      who comes back gets those that were added meanwhile, too. But for one that never had any (no
                      protocol type): it reads the partitions that it names
                      Of a share group: what its coordinator counts as not done
    lag in ms         now - the time at which the log was first seen to end beyond the committed offset: as long has the
                      record that is next been waiting. Known as far back as the log's ends were sampled
    stuck             it has members and lag, and none of its offsets has moved since. Partitions without a commit do
                      not count here: their members may have begun at the end, and librdkafka commits nothing before it
                      has read a record. A share group moves with each record that is done
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from kavka.client.share_group_admin import SharePosition
from kavka.model import TopicPartition
from kavka.observe.group_readings import CONSUMERS, GroupReading
from kavka.observe.snapshot import NOT_READ, GroupOffset, GroupView, MemberView, Reading

SAMPLE_EVERY_MS: Final = 5_000
SAMPLES: Final = 240
"""Of one partition's end: twenty minutes."""
MAX_SAMPLED: Final = 2_000
"""Partitions whose ends are sampled; lag in ms of further ones is unknown."""
REBALANCES_KEPT_MS: Final = 3_600_000
MAX_REBALANCES: Final = 1_000


class Logs(Protocol):
    """Where logs begin and end, None where that is unknown."""

    def high_watermark(self, partition: TopicPartition) -> int | None: ...

    def log_start(self, partition: TopicPartition) -> int | None: ...

    def partition_numbers(self, topic: str) -> Iterable[int]: ...


@dataclass(slots=True)
class _Followed:
    """What is remembered of one group between readings."""

    members: frozenset[str] = frozenset()
    epoch: int | None = None
    progress: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, SharePosition]] = field(
        default_factory=lambda: ({}, {})
    )
    """What was committed, and where a share group is."""
    still_since_ms: int | None = None
    starts: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """Of a share group: its first record that is not done, and since when it is that one."""
    rebalances: deque[int] = field(default_factory=lambda: deque(maxlen=MAX_REBALANCES))
    read_at_ms: int = 0


class GroupAssembly:
    """One cluster's groups."""

    def __init__(self) -> None:
        self.readings: dict[str, GroupReading] = {}
        self._followed: dict[str, _Followed] = {}
        self._samples: dict[TopicPartition, deque[tuple[int, int]]] = {}

    @property
    def sampled(self) -> int:
        """Partitions whose ends are sampled."""
        return len(self._samples)

    def take(self, readings: dict[str, GroupReading], logs: Logs) -> None:
        """What was read now; groups that are not in it are gone."""
        self.readings = readings
        for name in [name for name in self._followed if name not in readings]:
            del self._followed[name]
        for name, reading in readings.items():
            followed = self._followed.setdefault(name, _Followed())
            if reading.read_at_ms > followed.read_at_ms:
                self._follow(followed, reading, logs)
        wanted = {partition for reading in readings.values() for partition in _positions(reading, logs)}
        for partition in [partition for partition in self._samples if partition not in wanted]:
            del self._samples[partition]
        for partition in wanted:
            if partition not in self._samples and len(self._samples) < MAX_SAMPLED:
                self._samples[partition] = deque(maxlen=SAMPLES)

    def _follow(self, followed: _Followed, reading: GroupReading, logs: Logs) -> None:
        shown = reading.shown
        members = frozenset() if shown is None else frozenset(member.member_id for member in shown.members)
        epoch = None if shown is None else shown.epoch
        if followed.read_at_ms and (members, epoch) != (followed.members, followed.epoch):
            followed.rebalances.append(reading.read_at_ms)
        progress = (reading.committed, reading.shares)
        begun = (
            _offset(partition, at, logs, reading)
            for partition, at in _positions(reading, logs).items()
            if at is not None
        )
        behind = any(offset.lag for offset in begun)
        if not members or not behind or progress != followed.progress:
            followed.still_since_ms = None
        elif followed.still_since_ms is None:
            followed.still_since_ms = followed.read_at_ms
        followed.starts = {
            partition: known
            if (known := followed.starts.get(partition)) is not None and known[0] == at.start and at.lag
            else (at.start, reading.read_at_ms)
            for partition, at in reading.shares.items()
        }
        followed.members, followed.epoch, followed.progress = members, epoch, progress
        followed.read_at_ms = reading.read_at_ms

    def sample(self, logs: Logs, now_ms: int) -> None:
        """Takes note of where the logs end now."""
        for partition, samples in self._samples.items():
            end = logs.high_watermark(partition)
            if end is None or (samples and now_ms - samples[-1][0] < SAMPLE_EVERY_MS):
                continue
            samples.append((now_ms, end))

    def views(self, logs: Logs, now_ms: int) -> dict[str, GroupView]:
        """All groups, by id."""
        return {name: self._view(name, reading, logs, now_ms) for name, reading in sorted(self.readings.items())}

    def _view(self, name: str, reading: GroupReading, logs: Logs, now_ms: int) -> GroupView:
        shown, listed, followed = reading.shown, reading.listed, self._followed[name]
        members = () if shown is None else shown.members
        owners = {partition: member.member_id for member in members for partition in member.assignment}
        offsets = tuple(
            replace(
                at,
                member_id=owners.get(partition),
                lag_ms=self._lag_ms(at, now_ms),
                still_since_ms=followed.starts[partition][1]
                if members and at.lag and partition in followed.starts
                else None,
            )
            for partition, committed in sorted(_positions(reading, logs).items())
            for at in [_offset(partition, committed, logs, reading)]
        )
        why = reading.problem or ("" if reading.read_at_ms else NOT_READ)
        return GroupView(
            name,
            listed.kind or ("" if shown is None else shown.kind),
            listed.state if not shown else shown.state,
            listed.protocol_type,
            "" if shown is None else shown.protocol,
            listed.coordinator,
            None if shown is None else shown.epoch,
            tuple(MemberView(m.member_id, m.instance_id, m.client_id, m.host, m.assignment, m.epoch) for m in members),
            offsets,
            Reading(reading.read_at_ms, 0, why),
            sum(at > now_ms - REBALANCES_KEPT_MS for at in followed.rebalances),
            followed.still_since_ms,
            reading.records,
        )

    def _lag_ms(self, at: GroupOffset, now_ms: int) -> int | None:
        if at.lag is None or at.position is None:
            return None
        if at.lag == 0:
            return 0
        samples = self._samples.get(at.partition)
        if not samples:
            return None
        first = bisect_right(samples, at.position, key=lambda sample: sample[1])
        if first == 0:
            return None  # The record was there before anybody looked.
        return now_ms - samples[first][0] if first < len(samples) else 0


def _positions(reading: GroupReading, logs: Logs) -> dict[TopicPartition, int | None]:
    """What is committed, and None for what is to be read without a commit; where a share group has begun."""
    if reading.shares:
        return {partition: at.start for partition, at in reading.shares.items()}
    if reading.shown is None or reading.listed.protocol_type not in CONSUMERS:
        return dict(reading.committed)
    found: dict[TopicPartition, int | None] = {
        partition: None for member in reading.shown.members for partition in member.assignment
    }
    if not reading.shown.members and reading.listed.protocol_type:
        for topic in {partition.topic for partition in reading.committed}:
            found.update(dict.fromkeys(TopicPartition(topic, number) for number in logs.partition_numbers(topic)))
    return {**found, **reading.committed}


def _offset(partition: TopicPartition, committed: int | None, logs: Logs, reading: GroupReading) -> GroupOffset:
    share = reading.shares.get(partition)
    return GroupOffset(
        partition,
        committed,
        logs.high_watermark(partition),
        log_start=logs.log_start(partition),
        not_done=None if share is None or share.lag is None else max(share.lag, 0),
    )
