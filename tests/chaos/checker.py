"""Checker: which promises of the log did a history break?

A pure function of what clients sent and saw, in the style of Jepsen's kafka workload. It knows nothing of the faults,
nor of how the cluster works. Promises, for idempotent producers with acks=all and a clean election policy (R7, R16 to
R19 and P1 of docs/design/rules.md):

    LOST            an acknowledged record is not in the final log of its partition
    MOVED           it is there, but not at the offset that the acknowledgement named
    DUPLICATE       one record stands at two places
    REORDERED       two records of one producer stand in one partition in the other order
    INCONSISTENT    one offset showed two values, to two readers or to one at two times
    VANISHED        a record was read that the final log does not have: it was read above the high watermark
    NONMONOTONIC    a consumer that never seeks was given an offset at or below its last one
    SKIPPED         it was not given a record between two others
    LATE_OFFSET     a record sent after another was acknowledged got a lower offset
    ALIEN           something was read that nobody sent, or that is damaged

What is allowed: a record whose outcome stayed open may be in the log or not; offsets may have gaps; the end of a
consumer's reads may lie anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple, TypeAlias

from tests.chaos.history import NEVER, UNKNOWN_OFFSET, History, Reads, Value

Place: TypeAlias = tuple[int, int]
"""A partition and an offset in it."""


class Kind(Enum):
    LOST = "lost"
    MOVED = "moved"
    DUPLICATE = "duplicate"
    REORDERED = "reordered"
    INCONSISTENT = "inconsistent offset"
    VANISHED = "read and vanished"
    NONMONOTONIC = "read backwards"
    SKIPPED = "skipped"
    LATE_OFFSET = "late record at a lower offset"
    ALIEN = "alien"


class Anomaly(NamedTuple):
    """One broken promise, in words with the offsets and values concerned."""

    kind: Kind
    where: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.where}"


def _nobody(_one: Place, _other: Place) -> bool:
    return False


def check(history: History, *, is_the_clients: Callable[[Place, Place], bool] = _nobody) -> list[Anomaly]:
    """Every anomaly, partition by partition. is_the_clients: whether a second copy is no work of the brokers."""
    anomalies = [Anomaly(Kind.ALIEN, where) for where in history.alien]
    logs = {partition: _final_log(history, partition) for partition in range(history.partitions)}
    for partition, log in logs.items():
        anomalies += _check_log(history, partition, log)
        anomalies += _check_order(history, partition, log)
        for (consumer, read_partition), reads in history.reads.items():
            if read_partition == partition:
                anomalies += _check_reads(consumer, partition, reads, log)
    anomalies += _check_places(logs, is_the_clients)
    anomalies += _check_acknowledgements(history, logs)
    return anomalies


def count(anomalies: list[Anomaly]) -> dict[Kind, int]:
    return dict(Counter(anomaly.kind for anomaly in anomalies))


def _final_log(history: History, partition: int) -> dict[int, int]:
    """Offset to value; the first where the final read itself contradicts itself (INCONSISTENT tells that)."""
    log: dict[int, int] = {}
    for offset, code in history.final_of(partition):
        log.setdefault(offset, code)
    return log


def _check_log(history: History, partition: int, log: dict[int, int]) -> Iterator[Anomaly]:
    """The final read itself: rising offsets, one value each, all of them sent to this partition."""
    last = -1
    for offset, code in history.final_of(partition):
        value = Value.of_code(code)
        if log[offset] != code:
            yield Anomaly(
                Kind.INCONSISTENT, f"{partition}@{offset}: {Value.of_code(log[offset])} and {value}, final read"
            )
        if offset <= last:
            yield Anomaly(Kind.NONMONOTONIC, f"{partition}@{offset} after {last}, final read")
        last = offset
        if not _was_sent(history, value, partition):
            yield Anomaly(Kind.ALIEN, f"{partition}@{offset}: {value} was not sent there")


def _was_sent(history: History, value: Value, partition: int) -> bool:
    if value.producer >= len(history.producers):
        return False
    producer = history.producers[value.producer]
    return value.number < len(producer) and producer.partitions[value.number] == partition


def _check_places(logs: dict[int, dict[int, int]], is_the_clients: Callable[[Place, Place], bool]) -> Iterator[Anomaly]:
    """No record at two places, in one partition or in two."""
    places: dict[int, Place] = {}
    for partition, log in logs.items():
        for offset, code in log.items():
            first = places.setdefault(code, (partition, offset))
            if first != (partition, offset) and not is_the_clients(first, (partition, offset)):
                where = f"{Value.of_code(code)} at {first[0]}@{first[1]} and at {partition}@{offset}"
                yield Anomaly(Kind.DUPLICATE, where)


def _check_order(history: History, partition: int, log: dict[int, int]) -> Iterator[Anomaly]:
    """The records of one producer in the order of their sending. A second copy counts as a duplicate only."""
    highest: dict[int, tuple[int, int]] = {}
    seen: set[int] = set()
    for offset in sorted(log):
        code = log[offset]
        if code in seen:
            continue
        seen.add(code)
        value = Value.of_code(code)
        number, at_offset = highest.get(value.producer, (-1, -1))
        if value.number < number:
            before = Value(value.producer, number)
            yield Anomaly(Kind.REORDERED, f"{partition}@{offset}: {value} after {before} at {at_offset}")
        else:
            highest[value.producer] = (value.number, offset)


def _check_reads(consumer: str, partition: int, reads: Reads, log: dict[int, int]) -> Iterator[Anomaly]:
    """What one consumer saw while the faults happened, against the final log."""
    seen: dict[int, int] = {}
    ordered = sorted(log)
    index_of = {offset: index for index, offset in enumerate(ordered)}
    last = -1
    for offset, code in reads:
        where = f"{partition}@{offset}, {consumer}"
        value = Value.of_code(code)
        final = log.get(offset)
        if final is None:
            yield Anomaly(Kind.VANISHED, f"{where}: {value} is not in the final log")
        elif final != code:
            yield Anomaly(Kind.INCONSISTENT, f"{where}: {value}, and {Value.of_code(final)} in the final log")
        if seen.setdefault(offset, code) != code:
            yield Anomaly(Kind.INCONSISTENT, f"{where}: {Value.of_code(seen[offset])}, then {value}")
        if offset <= last:
            yield Anomaly(Kind.NONMONOTONIC, f"{where} after {last}")
        elif last in index_of and offset in index_of and index_of[offset] != index_of[last] + 1:
            missed = ordered[index_of[last] + 1]
            yield Anomaly(Kind.SKIPPED, f"{where}: {missed} was not given after {last}")
        last = offset


def _check_acknowledgements(history: History, logs: dict[int, dict[int, int]]) -> Iterator[Anomaly]:
    """Every acknowledged record in its place; and real time: what was acknowledged before a send stands before it."""
    offset_of = {code: offset for log in logs.values() for offset, code in log.items()}
    timeline: dict[int, list[tuple[float, int, int, int]]] = {partition: [] for partition in logs}
    for producer in history.producers:
        for number, partition in enumerate(producer.partitions):
            acknowledged_at = producer.acknowledged_at[number]
            if acknowledged_at == NEVER:
                continue
            value, offset = Value(producer.number, number), producer.offsets[number]
            found = offset_of.get(value.code)
            where = f"{value}, acknowledged at {partition}@{offset if offset != UNKNOWN_OFFSET else '?'}"
            if found is None:
                yield Anomaly(Kind.LOST, where)
            elif offset not in (UNKNOWN_OFFSET, found) and logs[partition].get(offset) != value.code:
                yield Anomaly(Kind.MOVED, f"{where}, stands at {found}")
            if offset == UNKNOWN_OFFSET:
                continue
            # An acknowledgement sorts before a send of the same instant only if it is earlier: sends first.
            timeline[partition].append((producer.sent_at[number], 0, offset, value.code))
            timeline[partition].append((acknowledged_at, 1, offset, value.code))
    for partition, moments in timeline.items():
        yield from _check_real_time(partition, moments)


def _check_real_time(partition: int, moments: list[tuple[float, int, int, int]]) -> Iterator[Anomaly]:
    """moments: (time, 0 for a send or 1 for an acknowledgement, offset, value)."""
    highest, holder = -1, -1
    for _at, is_acknowledgement, offset, code in sorted(moments):
        if is_acknowledgement:
            if offset > highest:
                highest, holder = offset, code
        elif offset < highest:
            where = (
                f"{partition}@{offset}: {Value.of_code(code)} was sent after {Value.of_code(holder)} was acknowledged"
            )
            yield Anomaly(Kind.LATE_OFFSET, f"{where} at {highest}")
