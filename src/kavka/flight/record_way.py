"""RecordedWay: what a flight recording tells of one record's way to its replicas.

Decides from which entry on a replica is known to have a record, and from which on the record is committed. Must not
know who wrote it: a recording holds no record and no client.

A leader's recording has each follower's fetch, with its offset and the high watermark after it. A fetch past the record
shows that the follower has it. It is the first such fetch if an earlier entry shows that the follower did not have it
yet; if the recording begins later than that, the time is a bound only (`at_latest`).

    I1  what a gap of the recording may hide makes times later, never earlier
    I2  times are the leader's wall clock
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kavka.flight.format import REFUSED, Check, Fetch
from kavka.flight.ring_reader import Gap, Told
from kavka.model import BrokerId, Offset, TopicPartition

REMOTE_BROKER, REMOTE_END = 0, 2
"""In the fields of a `RemoteSnapshot`."""


class Sighting(NamedTuple):
    """When something was seen. `at_latest`: it may have been so before."""

    at_ms: int
    at_latest: bool


class RecordedWay(NamedTuple):
    """What one leader's recording tells. None or missing: the recording does not show it."""

    broker_id: BrokerId
    in_leader: Sighting | None
    replicas: dict[BrokerId, Sighting]
    committed: Sighting | None


class _Mark:
    """A number that rises: when was it first seen above the record's offset?"""

    def __init__(self, offset: Offset) -> None:
        self._offset = offset
        self._was_below = False
        self.sighting: Sighting | None = None

    def see(self, value: Offset, at_ms: int) -> None:
        if value < 0 or self.sighting is not None:
            return
        if value > self._offset:
            self.sighting = Sighting(at_ms, not self._was_below)
        else:
            self._was_below = True


class _Follower:
    """Reads one recording for one record."""

    def __init__(self, topic_partition: TopicPartition, offset: Offset) -> None:
        self._topic_partition = topic_partition
        self._offset = offset
        self._number: int | None = None
        self.broker_id = BrokerId(-1)
        self.end, self.high_watermark = _Mark(offset), _Mark(offset)
        self.remotes: dict[BrokerId, _Mark] = {}

    def on_fact(self, fact: dict[str, Any], wall_ms: int) -> None:
        if fact["f"] == "life":
            self._number = None  # Numbers hold within a file.
            self.broker_id = BrokerId(fact.get("broker", self.broker_id))
        elif fact["f"] == "partition" and (fact["topic"], fact["partition"]) == self._topic_partition:
            self._number = fact["p"]
            if fact["role"] == "leader":
                self.end.see(fact["end"], wall_ms)
                self.high_watermark.see(fact["hw"], wall_ms)
                for remote in fact["remotes"]:
                    self._remote(BrokerId(remote[REMOTE_BROKER])).see(remote[REMOTE_END], wall_ms)

    def on_fetch(self, entry: Fetch, ahead_ms: int) -> None:
        if entry.partition == self._number and not entry.flags & REFUSED:
            at_ms = entry.at_ms + ahead_ms
            self.end.see(entry.leader_end_offset, at_ms)
            self._remote(entry.broker_id).see(entry.offset, at_ms)
            self.high_watermark.see(entry.high_watermark, at_ms)

    def on_check(self, entry: Check, ahead_ms: int) -> None:
        if entry.partition == self._number:
            self.end.see(entry.log_end_offset, entry.at_ms + ahead_ms)
            self.high_watermark.see(entry.high_watermark, entry.at_ms + ahead_ms)

    def _remote(self, broker_id: BrokerId) -> _Mark:
        return self.remotes.setdefault(broker_id, _Mark(self._offset))


def recorded_way(entries: Iterable[Told | Gap], topic_partition: TopicPartition, offset: Offset) -> RecordedWay | None:
    """What a recording (`FlightRing.read`) tells of the record; None if its broker did not lead the partition, or the
    recording does not reach back or forth to the record."""
    follower = _Follower(topic_partition, offset)
    for told in entries:
        if isinstance(told, Gap):
            continue
        match told.entry:
            case dict() as fact:
                follower.on_fact(fact, told.wall_ms)
            case Fetch() as fetch:
                follower.on_fetch(fetch, told.wall_ahead_ms)
            case Check() as check:
                follower.on_check(check, told.wall_ahead_ms)
            case _:
                pass  # a why-record
    replicas = {
        broker_id: mark.sighting for broker_id, mark in sorted(follower.remotes.items()) if mark.sighting is not None
    }
    way = RecordedWay(follower.broker_id, follower.end.sighting, replicas, follower.high_watermark.sighting)
    return way if way.in_leader or way.replicas or way.committed else None
