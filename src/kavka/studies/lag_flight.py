"""A trace from flight recordings: what live leaders saw, fetch by fetch, to ask other policies about.

Decides which of what a leader recorded becomes lines of a trace. Must not know policies.

    I1  of each partition one stretch is taken: the leadership (one leader, one life) with the most fetches; another
        leader's view is another clock's. A log end below the one before is of a repeated fetch, told late
    I2  an append is reported when a fetch or the timer first saw the leader with a longer log: never too early.
        So a follower may have lagged for longer than the trace says, by a fetch interval of the other at most
    I3  no fetch comes before the append that it had, and no append before the one before it: each block of a recording
        says how far the wall clock was ahead, and of two the later one may say a little less

In a trace broker 1 leads and 2 and 3 follow: followers are given these names in the order in which they are met.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kavka.flight.format import REFUSED, REPEATED, Check, Fetch
from kavka.flight.ring_reader import FlightRing, Told
from kavka.model import BrokerId, TopicPartition
from kavka.studies.lag_outcome import Seen
from kavka.studies.lag_workload import FOLLOWERS, LEADER

REPEATED_MS: Final = 500
"""How often a follower of an idle partition fetches: Kafka's default of replica.fetch.wait.max.ms."""


@dataclass(slots=True)
class _Stretch:
    """One leadership of one partition. `end` is the leader's log end when it was seen last."""

    begin: int
    end: int
    names: dict[BrokerId, BrokerId] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    latest_ms: dict[BrokerId, int] = field(default_factory=dict)
    fetches: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)
    """Each end, and when it was reported, in their order."""

    def on_end(self, partition: TopicPartition, at_ms: int, end: int) -> None:
        if end > self.end:
            at_ms = max(at_ms, self.ends[-1][1]) if self.ends else at_ms
            self.seen.append(Seen(at_ms, partition, LEADER, end - self.end))
            self.ends.append((end, at_ms))
            self.end = end

    def on_fetch(self, partition: TopicPartition, at_ms: int, fetch: Fetch) -> None:
        if fetch.broker_id not in self.names and len(self.names) < len(FOLLOWERS):
            self.names[fetch.broker_id] = FOLLOWERS[len(self.names)]
        follower = self.names.get(fetch.broker_id)
        # Who is further back than the stretch goes has that much to catch up with; the trace begins where it does.
        if follower is not None and self.begin <= fetch.offset <= self.end:
            self.fetches += 1
            if fetch.offset > self.begin:
                at_ms = max(at_ms, self.ends[bisect_left(self.ends, (fetch.offset, 0))][1])
            offset = fetch.offset - self.begin
            if fetch.flags & REPEATED:
                # Of fetches that were all the same the recorder keeps the first and the last.
                between = range(self.latest_ms.get(follower, at_ms) + REPEATED_MS, at_ms, REPEATED_MS)
                self.seen += [Seen(each, partition, follower, offset) for each in between]
            self.seen.append(Seen(at_ms, partition, follower, offset))
            self.latest_ms[follower] = at_ms


def fetch_trace(rings: Iterable[FlightRing]) -> list[Seen]:
    """What leaders saw, in order of time, each partition from 0 on; empty if nothing was recorded. Raises OSError."""
    longest: dict[TopicPartition, _Stretch] = {}
    for ring in rings:
        for partition, stretch in _stretches(ring):
            known = longest.get(partition)
            if stretch.fetches and (known is None or stretch.fetches > known.fetches):
                longest[partition] = stretch
    trace: list[Seen] = []
    for partition, stretch in longest.items():
        if len(stretch.names) < len(FOLLOWERS):
            stretch.seen += _always_there(partition, stretch)
        # Each partition's trace begins when its leadership did: nobody lagged before.
        begin_ms = min(each.at_ms for each in stretch.seen)
        trace += [each._replace(at_ms=each.at_ms - begin_ms) for each in stretch.seen]
    return sorted(trace, key=lambda each: each.at_ms)


def _always_there(partition: TopicPartition, stretch: _Stretch) -> list[Seen]:
    """Who plays the second follower where there is none: it has each record at once, so that no policy minds it."""
    first = min(stretch.seen, key=lambda each: each.at_ms)
    fetches = [Seen(first.at_ms, partition, FOLLOWERS[-1], 0)]
    end = 0
    for each in stretch.seen:
        if each.follower == LEADER:
            end += each.amount
            fetches.append(Seen(each.at_ms, partition, FOLLOWERS[-1], end))
    return fetches


def _stretches(ring: FlightRing) -> list[tuple[TopicPartition, _Stretch]]:
    """All leaderships that a broker recorded."""
    found: list[tuple[TopicPartition, _Stretch]] = []
    names: dict[int, TopicPartition] = {}
    present: dict[TopicPartition, _Stretch] = {}
    for told in ring.read():
        if not isinstance(told, Told):
            continue
        entry = told.entry
        if isinstance(entry, dict):
            if entry["f"] == "life" and not entry.get("again"):  # Else the same life goes on in another file.
                names.clear()
                present.clear()
            elif entry["f"] == "partition":
                names[entry["p"]] = TopicPartition(entry["topic"], entry["partition"])
            elif entry["f"] in ("lead", "follow", "stop"):
                present.pop(_named(entry, names), None)  # type: ignore[arg-type]  # None is none of them
            continue
        if not isinstance(entry, Fetch | Check) or entry.flags & REFUSED or entry.partition not in names:
            continue
        partition, at_ms = names[entry.partition], entry.at_ms + told.wall_ahead_ms
        end = entry.leader_end_offset if isinstance(entry, Fetch) else entry.log_end_offset
        stretch = present.get(partition)
        if stretch is None:
            begin = min(end, entry.offset) if isinstance(entry, Fetch) else end
            stretch = present[partition] = _Stretch(max(begin, 0), max(begin, 0))
            found.append((partition, stretch))
        stretch.on_end(partition, at_ms, end)
        if isinstance(entry, Fetch):
            stretch.on_fetch(partition, at_ms, entry)
    return found


def _named(fact: dict[str, object], names: dict[int, TopicPartition]) -> TopicPartition | None:
    number = fact.get("p")
    if isinstance(number, int):
        return names.get(number)
    topic, partition = fact.get("topic"), fact.get("partition")
    return TopicPartition(topic, partition) if isinstance(topic, str) and isinstance(partition, int) else None
