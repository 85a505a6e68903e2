"""Write gaps are told by partition, and put down to the faults that they overlap."""

from __future__ import annotations

import pytest

from tests.chaos.history import History, Value
from tests.chaos.nemesis import Done, Fault
from tests.chaos.report import Recovery, gaps, lines, recoveries


def acknowledged_at(history: History, partition: int, *times: float) -> None:
    producer = history.producer()
    for offset, at in enumerate(times):
        value = producer.send(partition, at=at - 0.01)
        producer.acknowledge(value.number, offset, at=at)


def test_a_gap_is_the_time_between_two_acknowledgements_of_one_partition() -> None:
    history = History(2)
    acknowledged_at(history, 0, 1.0, 1.05, 4.05)
    acknowledged_at(history, 1, 1.0, 1.04, 1.08)
    (gap,) = gaps(history)
    assert (gap.partition, gap.began_at, gap.seconds) == (0, 1.05, 3.0)


def test_the_longest_gap_is_told_for_the_fault_that_it_overlaps() -> None:
    history = History(1)
    acknowledged_at(history, 0, 10.0, 12.5, 12.52, 20.0, 20.3)
    done = [Done(Fault.KILL, "broker-1", 10.1, 11.0), Done(Fault.PAUSE, "broker-0", 20.1, 20.2)]
    text = "\n".join(lines(history, done, 10.0, 60.0))
    assert "records acknowledged and checked: 5 of 5 sent" in text
    assert "faults: 2, 2.0 a minute" in text
    assert "1 x kill -9: longest write gap median 2.50 s" in text
    assert "1 x short pause: longest write gap median 0.30 s" in text
    assert "longest 7.48 s" in text
    assert "partition 0: 7.48 s from 2.5 s on" in text


def test_a_fault_is_over_for_readers_with_the_first_record_that_one_of_them_is_given() -> None:
    history = History(1)
    acknowledged_at(history, 0, 10.0, 11.0, 11.05)
    for consumer, times in (("one", (10.0, 12.0)), ("other", (10.05, 10.1, 13.1, 13.15))):
        reads = history.reads_of(consumer, 0)
        for offset, at in enumerate(times):
            reads.read(offset, Value(0, offset), at=at)
    done = [Done(Fault.KILL, "broker-1", 10.5, 10.6), Done(Fault.KILL, "broker-2", 30.0, 31.0)]
    assert recoveries(history, done) == {Fault.KILL: pytest.approx(Recovery(2, 0.5, 1.0, 1.5, 3.0))}
