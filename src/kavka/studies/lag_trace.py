"""Traces: what a leader saw, as a file of lines, and files of any kind that a history can be read from.

Decides the form of a trace and tells the kinds of files apart. A trace is JSON, one object on a line:

    {"trace":1,"workload":"bursts","ailments":[...]}     first; what ails whom, so that false alarms can be told
    {"at_ms":120,"topic":"orders","partition":0,"append":5000}
    {"at_ms":131,"topic":"orders","partition":0,"fetch":2,"offset":4200}

A line that is none of these, a why-record or a line of Kafka's log tells nothing and is passed over; the reader says
how many told something.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kavka.decisions import MalformedDecision, decode_decision
from kavka.model import BrokerId, TopicPartition
from kavka.studies.isr_history import IsrChange, IsrHistory, from_decision, history, parse_kafka_line
from kavka.studies.lag_outcome import Seen
from kavka.studies.lag_workload import LEADER, REPLICAS, Ailment, AilmentKind, Workload

TRACE_VERSION: Final = 1
MAX_TRACE_LINES: Final = 5_000_000
"""A trace is held in memory: about 200 bytes for a line."""


class MalformedTrace(ValueError):
    """A trace that cannot be run again."""


@dataclass(slots=True)
class Recorded:
    """What was found in files."""

    trace: list[Seen] = field(default_factory=list)
    ailments: list[Ailment] = field(default_factory=list)
    changes: list[IsrChange] = field(default_factory=list)
    lines: int = 0
    decision_ids: set[str] = field(default_factory=set)

    def read(self, lines: Iterable[bytes]) -> None:
        """Takes in what `lines` say. Raises MalformedTrace."""
        for line in lines:
            self.lines += 1
            if line.startswith(b"["):
                change = parse_kafka_line(line.decode(errors="replace"))
                if change is not None:
                    self.changes.append(change)
            elif line.startswith(b"{"):
                self._read_object(line)

    def _read_object(self, line: bytes) -> None:
        try:
            recorded = decode_decision(line)
        except MalformedDecision:
            self._read_trace(line)
            return
        # A record may stand in several files: the ring, the topic, the rings of a copied directory.
        if recorded.decision_id not in self.decision_ids:
            self.decision_ids.add(recorded.decision_id)
            change = from_decision(recorded.decision)
            if change is not None:
                self.changes.append(change)

    def _read_trace(self, line: bytes) -> None:
        try:
            fields = json.loads(line)
        except ValueError:
            return  # A torn line, of whatever it was.
        try:
            if "trace" in fields:
                self.ailments += [_ailment(each) for each in fields["ailments"]]
            elif "append" in fields:
                self._add(Seen(int(fields["at_ms"]), _partition(fields), LEADER, int(fields["append"])))
            elif "fetch" in fields:
                follower = BrokerId(int(fields["fetch"]))
                self._add(Seen(int(fields["at_ms"]), _partition(fields), follower, int(fields["offset"])))
        except (KeyError, TypeError, ValueError) as problem:
            raise MalformedTrace(f"{line[:100]!r} is no line of a trace: {problem!r}") from problem

    def _add(self, seen: Seen) -> None:
        if seen.follower not in REPLICAS:
            raise MalformedTrace(f"broker {seen.follower} fetched; a trace has leader 1 and followers 2 and 3")
        if seen.at_ms < 0 or seen.amount < 0 or (seen.follower == LEADER and seen.amount == 0):
            raise MalformedTrace(f"neither times nor amounts are negative, and an append has a record: {seen}")
        if len(self.trace) == MAX_TRACE_LINES:
            raise MalformedTrace(f"a trace has at most {MAX_TRACE_LINES:,} lines")
        self.trace.append(seen)

    def check(self) -> None:
        """Raises MalformedTrace where a fetch lies beyond what its leader had then."""
        ends: dict[TopicPartition, int] = {}
        self.trace.sort(key=lambda seen: seen.at_ms)
        new = [each for each in self.ailments if each.kind is AilmentKind.NEW]
        for seen in self.trace:
            if seen.partition not in ends:
                behind = (each.behind for each in new if each.topic in (None, seen.partition.topic))
                ends[seen.partition] = max(behind, default=0)
            end = ends[seen.partition]
            if seen.follower == LEADER:
                ends[seen.partition] = end + seen.amount
            elif seen.amount > end:
                raise MalformedTrace(
                    f"broker {seen.follower} fetched {seen.partition} at {seen.amount} at {seen.at_ms} ms, the log "
                    f"ended at {end}"
                )

    def history(self) -> IsrHistory:
        return history(self.changes)


def trace_lines(workload: Workload, trace: Iterable[Seen]) -> Iterator[str]:
    """A trace as it is written."""
    ailments = [
        {
            "kind": each.kind.value,
            "follower": each.follower,
            "from_ms": each.from_ms,
            "until_ms": each.until_ms,
            "topic": each.topic,
            "behind": each.behind,
        }
        for each in workload.ailments
    ]
    yield json.dumps({"trace": TRACE_VERSION, "workload": workload.name, "ailments": ailments}) + "\n"
    for seen in trace:
        topic, partition = seen.partition
        fields: dict[str, object] = {"at_ms": seen.at_ms, "topic": topic, "partition": partition}
        if seen.follower == LEADER:
            fields["append"] = seen.amount
        else:
            fields["fetch"], fields["offset"] = seen.follower, seen.amount
        yield json.dumps(fields, separators=(",", ":")) + "\n"


def _partition(fields: dict[str, object]) -> TopicPartition:
    return TopicPartition(str(fields["topic"]), int(str(fields["partition"])))


def _ailment(fields: dict[str, object]) -> Ailment:
    topic = fields["topic"]
    return Ailment(
        AilmentKind(fields["kind"]),
        BrokerId(int(str(fields["follower"]))),
        int(str(fields["from_ms"])),
        int(str(fields["until_ms"])),
        topic=None if topic is None else str(topic),
        behind=int(str(fields["behind"])),
    )
