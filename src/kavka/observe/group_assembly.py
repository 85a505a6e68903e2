"""GroupAssembly: what has been read of a cluster's groups, put together into views.

Decides how old a group's position is, whether a group is stuck, and how often it rebalanced. Values and `now_ms` in,
views out.

    lag in records    high watermark - committed offset
    lag in ms         now - the time at which the log was first seen to end beyond the committed offset: as long has the
                      record that is next been waiting. Known as far back as the log's ends were sampled
    stuck             it has members and lag, and none of its offsets has moved since
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kavka.model import TopicPartition
from kavka.observe.group_readings import GroupReading
from kavka.observe.snapshot import NOT_READ, GroupOffset, GroupView, MemberView, Reading

SAMPLE_EVERY_MS: Final = 5_000
SAMPLES: Final = 240
"""Of one partition's end: twenty minutes."""
MAX_SAMPLED: Final = 2_000
"""Partitions whose ends are sampled; lag in ms of further ones is unknown."""
REBALANCES_KEPT_MS: Final = 3_600_000
MAX_REBALANCES: Final = 1_000

EndOf = Callable[[TopicPartition], int | None]


@dataclass(slots=True)
class _Followed:
    """What is remembered of one group between readings."""

    members: frozenset[str] = frozenset()
    epoch: int | None = None
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    still_since_ms: int | None = None
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

    def take(self, readings: dict[str, GroupReading], end_of: EndOf) -> None:
        """What was read now; groups that are not in it are gone."""
        self.readings = readings
        for name in [name for name in self._followed if name not in readings]:
            del self._followed[name]
        for name, reading in readings.items():
            followed = self._followed.setdefault(name, _Followed())
            if reading.read_at_ms > followed.read_at_ms:
                self._follow(followed, reading, end_of)
        wanted = {partition for reading in readings.values() for partition in reading.committed}
        for partition in [partition for partition in self._samples if partition not in wanted]:
            del self._samples[partition]
        for partition in wanted:
            if partition not in self._samples and len(self._samples) < MAX_SAMPLED:
                self._samples[partition] = deque(maxlen=SAMPLES)

    def _follow(self, followed: _Followed, reading: GroupReading, end_of: EndOf) -> None:
        shown = reading.shown
        members = frozenset() if shown is None else frozenset(member.member_id for member in shown.members)
        epoch = None if shown is None else shown.epoch
        if followed.read_at_ms and (members, epoch) != (followed.members, followed.epoch):
            followed.rebalances.append(reading.read_at_ms)
        behind = any(
            (end := end_of(partition)) is not None and end > committed
            for partition, committed in reading.committed.items()
        )
        if not members or not behind or reading.committed != followed.committed:
            followed.still_since_ms = None
        elif followed.still_since_ms is None:
            followed.still_since_ms = followed.read_at_ms
        followed.members, followed.epoch, followed.committed = members, epoch, reading.committed
        followed.read_at_ms = reading.read_at_ms

    def sample(self, end_of: EndOf, now_ms: int) -> None:
        """Takes note of where the logs end now."""
        for partition, samples in self._samples.items():
            end = end_of(partition)
            if end is None or (samples and now_ms - samples[-1][0] < SAMPLE_EVERY_MS):
                continue
            samples.append((now_ms, end))

    def views(self, end_of: EndOf, now_ms: int) -> dict[str, GroupView]:
        """All groups, by id."""
        return {name: self._view(name, reading, end_of, now_ms) for name, reading in sorted(self.readings.items())}

    def _view(self, name: str, reading: GroupReading, end_of: EndOf, now_ms: int) -> GroupView:
        shown, listed, followed = reading.shown, reading.listed, self._followed[name]
        members = () if shown is None else shown.members
        owners = {partition: member.member_id for member in members for partition in member.assignment}
        offsets = tuple(
            GroupOffset(
                partition, committed, end, owners.get(partition), self._lag_ms(partition, committed, end, now_ms)
            )
            for partition, committed in sorted(reading.committed.items())
            for end in [end_of(partition)]
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
        )

    def _lag_ms(self, partition: TopicPartition, committed: int, end: int | None, now_ms: int) -> int | None:
        if end is None:
            return None
        if end <= committed:
            return 0
        samples = self._samples.get(partition)
        if not samples:
            return None
        first = bisect_right(samples, committed, key=lambda sample: sample[1])
        if first == 0:
            return None  # The record was there before anybody looked.
        return now_ms - samples[first][0] if first < len(samples) else 0
