"""What a flight recording tells of one record's way."""

from __future__ import annotations

from typing import Any

from kavka.flight.format import REFUSED, Check, Fetch
from kavka.flight.record_way import RecordedWay, Sighting, recorded_way
from kavka.flight.ring_reader import Gap, Told
from kavka.model import BrokerId, TopicPartition

ORDERS = TopicPartition("orders", 3)
AHEAD_MS = 1_000_000


def told(entry: Any, wall_ms: int = 0) -> Told:
    return Told(wall_ms, AHEAD_MS, entry)


def life() -> Told:
    return told({"f": "life", "broker": 2})


def partition(number: int = 1, *, end: int = 10, hw: int = 10, wall_ms: int = AHEAD_MS, **other: Any) -> Told:
    remotes = [[each, 0, 10, 10, 0, 0, 5] for each in (1, 3)]
    fact = {"f": "partition", "p": number, "topic": "orders", "partition": 3, "role": "leader", "remotes": remotes}
    return told({**fact, "end": end, "hw": hw, **other}, wall_ms)


def fetch(
    broker_id: int, at_ms: int, offset: int, *, end: int = 11, hw: int = 10, number: int = 1, flags: int = 0
) -> Told:
    return told(Fetch(number, BrokerId(broker_id), at_ms, offset, end, 0, 5, hw, flags))


def way(*entries: Told | Gap, offset: int = 10) -> RecordedWay | None:
    return recorded_way(entries, ORDERS, offset)


def test_the_first_fetch_past_the_record_shows_the_replica_and_the_high_watermark_its_commit() -> None:
    found = way(life(), partition(), fetch(1, 5, 11), fetch(3, 7, 10), fetch(3, 9, 11, hw=11), fetch(1, 12, 12, end=12))
    assert found == RecordedWay(
        BrokerId(2),
        Sighting(AHEAD_MS + 5, at_latest=False),
        {BrokerId(1): Sighting(AHEAD_MS + 5, at_latest=False), BrokerId(3): Sighting(AHEAD_MS + 9, at_latest=False)},
        Sighting(AHEAD_MS + 9, at_latest=False),
    )


def test_a_recording_that_begins_behind_the_record_gives_bounds() -> None:
    behind = [[each, 0, 20, 20, 0, 0, 5] for each in (1, 3)]
    found = way(life(), partition(end=20, hw=20, wall_ms=AHEAD_MS + 3, remotes=behind), fetch(1, 5, 20, end=20, hw=20))
    assert found is not None
    bound = Sighting(AHEAD_MS + 3, at_latest=True)
    assert (found.in_leader, found.committed, set(found.replicas.values())) == (bound, bound, {bound})


def test_the_timer_shows_a_commit_without_followers() -> None:
    found = way(life(), partition(remotes=[]), told(Check(1, 50, 11, 11, 0, False)))
    assert found is not None
    assert found.committed == Sighting(AHEAD_MS + 50, at_latest=False)
    assert found.replicas == {}


def test_other_partitions_refused_fetches_and_gaps_show_nothing() -> None:
    gap = Gap("file", 0, 9, "torn", at_end=False)
    entries = (life(), partition(), gap, fetch(1, 5, 11, number=2, hw=11), fetch(3, 6, 11, flags=REFUSED, hw=11))
    assert way(*entries) is None
    assert way(life(), fetch(1, 5, 11)) is None


def test_a_number_holds_within_its_file() -> None:
    other = told({"f": "partition", "p": 1, "topic": "other", "partition": 0, "role": "leader", "end": 0, "hw": 0})
    assert way(life(), partition(), life(), other, fetch(1, 5, 11, hw=11)) is None


def test_a_follower_has_nothing_to_tell() -> None:
    assert way(life(), partition(role="follower", end=20, hw=20, remotes=[])) is None
