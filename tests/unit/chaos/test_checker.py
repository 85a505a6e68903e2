"""The checker finds each anomaly in a history made by hand, and none in a good one."""

from __future__ import annotations

import pytest

from tests.chaos.checker import Kind, check, count
from tests.chaos.history import UNKNOWN_OFFSET, History, Producer, Value


class Story:
    """A history with a log of its own: what is appended is acknowledged and read by all, unless the test says more."""

    def __init__(self, *, partitions: int = 1) -> None:
        self.history = History(partitions)
        self.clock = 0.0
        self.logs: list[list[Value]] = [[] for _ in range(partitions)]

    def producer(self) -> Producer:
        return self.history.producer()

    def now(self) -> float:
        self.clock += 1
        return self.clock

    def append(self, producer: Producer, partition: int = 0, *, acknowledged: bool = True) -> Value:
        value = producer.send(partition, at=self.now())
        offset = len(self.logs[partition])
        self.logs[partition].append(value)
        if acknowledged:
            producer.acknowledge(value.number, offset, at=self.now())
        return value

    def read(self, offset: int, value: Value, *, partition: int = 0, consumer: str = "a") -> None:
        self.history.reads_of(consumer, partition).read(offset, value)

    def end(self) -> dict[Kind, int]:
        """Reads the final logs, unless the test has; what the checker counts."""
        for partition, log in enumerate(self.logs):
            if partition not in self.history.final:
                for offset, value in enumerate(log):
                    self.history.final_of(partition).read(offset, value)
        return count(check(self.history))


@pytest.fixture
def story() -> Story:
    return Story()


def test_a_log_read_in_order_by_everybody_is_without_anomaly() -> None:
    story = Story(partitions=2)
    one, other = story.producer(), story.producer()
    for partition in (0, 1, 0, 0, 1):
        for producer in (one, other):
            story.append(producer, partition)
    for partition, log in enumerate(story.logs):
        for offset, value in enumerate(log):
            for consumer in ("a", "b"):
                story.read(offset, value, partition=partition, consumer=consumer)
    assert story.end() == {}


def test_a_record_whose_outcome_stayed_open_may_be_there_or_not(story: Story) -> None:
    producer = story.producer()
    story.append(producer, acknowledged=False)
    producer.send(0, at=story.now())
    story.append(producer)
    assert story.end() == {}


def test_a_reader_that_stopped_early_missed_nothing(story: Story) -> None:
    producer = story.producer()
    first = story.append(producer)
    story.append(producer)
    story.read(0, first)
    assert story.end() == {}


def test_an_offset_that_nobody_has_is_a_gap_and_no_skip(story: Story) -> None:
    producer = story.producer()
    values = [producer.send(0, at=story.now()) for _ in range(2)]
    for offset, value in zip((0, 5), values, strict=True):
        producer.acknowledge(value.number, offset, at=story.now())
        story.read(offset, value)
        story.history.final_of(0).read(offset, value)
    assert story.end() == {}


def test_an_acknowledged_record_that_the_final_log_lacks_is_lost(story: Story) -> None:
    producer = story.producer()
    story.append(producer)
    gone = producer.send(0, at=story.now())
    producer.acknowledge(gone.number, 1, at=story.now())
    assert story.end() == {Kind.LOST: 1}


def test_a_record_acknowledged_without_an_offset_is_lost_all_the_same(story: Story) -> None:
    producer = story.producer()
    gone = producer.send(0, at=story.now())
    producer.acknowledge(gone.number, UNKNOWN_OFFSET, at=story.now())
    assert story.end() == {Kind.LOST: 1}


def test_a_record_acknowledged_without_an_offset_that_is_there_is_in_order(story: Story) -> None:
    producer = story.producer()
    value = story.append(producer, acknowledged=False)
    producer.acknowledge(value.number, UNKNOWN_OFFSET, at=story.now())
    assert story.end() == {}


def test_a_record_that_stands_elsewhere_than_acknowledged_was_moved(story: Story) -> None:
    producer = story.producer()
    value = story.append(producer, acknowledged=False)
    producer.acknowledge(value.number, 7, at=story.now())
    assert story.end() == {Kind.MOVED: 1}


def test_a_record_at_two_offsets_is_a_duplicate_once(story: Story) -> None:
    producer = story.producer()
    value = story.append(producer)
    story.append(producer)
    story.logs[0].append(value)
    assert story.end() == {Kind.DUPLICATE: 1}


def test_a_record_in_two_partitions_is_a_duplicate_and_alien_in_one() -> None:
    story = Story(partitions=2)
    value = story.append(story.producer(), 0)
    story.logs[1].append(value)
    assert story.end() == {Kind.DUPLICATE: 1, Kind.ALIEN: 1}


def test_two_records_of_one_producer_in_the_other_order_are_reordered(story: Story) -> None:
    producer = story.producer()
    first, second = (producer.send(0, at=story.now()) for _ in range(2))
    story.logs[0] += [second, first]
    assert story.end() == {Kind.REORDERED: 1}


def test_two_producers_have_no_order_between_them(story: Story) -> None:
    one, other = story.producer(), story.producer()
    sent = [producer.send(0, at=story.now()) for producer in (one, other)]
    story.logs[0] += reversed(sent)
    assert story.end() == {}


def test_an_offset_with_another_value_in_the_final_log_is_inconsistent(story: Story) -> None:
    one, other = story.producer(), story.producer()
    unlucky = one.send(0, at=story.now())
    story.read(0, unlucky)
    story.append(other)
    assert story.end() == {Kind.INCONSISTENT: 1}


def test_an_offset_with_two_values_at_two_times_is_inconsistent_and_read_backwards(story: Story) -> None:
    one, other = story.producer(), story.producer()
    unlucky = one.send(0, at=story.now())
    value = story.append(other)
    story.read(0, unlucky)
    story.read(0, value)
    assert story.end() == {Kind.INCONSISTENT: 2, Kind.NONMONOTONIC: 1}


def test_a_final_read_that_contradicts_itself_is_inconsistent(story: Story) -> None:
    one, other = story.producer(), story.producer()
    for value in (story.append(one), other.send(0, at=story.now())):
        story.history.final_of(0).read(0, value)
    assert story.end() == {Kind.INCONSISTENT: 1, Kind.NONMONOTONIC: 1}


def test_a_record_read_that_the_final_log_lacks_was_read_above_the_high_watermark(story: Story) -> None:
    producer = story.producer()
    first = story.append(producer)
    story.read(0, first)
    story.read(1, producer.send(0, at=story.now()))
    assert story.end() == {Kind.VANISHED: 1}


def test_a_reader_that_is_sent_back_reads_backwards(story: Story) -> None:
    producer = story.producer()
    values = [story.append(producer) for _ in range(2)]
    for offset in (0, 1, 0, 1):
        story.read(offset, values[offset])
    assert story.end() == {Kind.NONMONOTONIC: 1}


def test_a_reader_that_is_not_given_a_record_in_between_was_made_to_skip(story: Story) -> None:
    producer = story.producer()
    values = [story.append(producer) for _ in range(3)]
    story.read(0, values[0])
    story.read(2, values[2])
    assert story.end() == {Kind.SKIPPED: 1}


def test_a_record_sent_after_an_acknowledgement_must_stand_behind_it(story: Story) -> None:
    one, other = story.producer(), story.producer()
    first = one.send(0, at=story.now())
    one.acknowledge(first.number, 1, at=story.now())
    second = other.send(0, at=story.now())
    other.acknowledge(second.number, 0, at=story.now())
    story.logs[0] += [second, first]
    assert story.end() == {Kind.LATE_OFFSET: 1}


def test_records_sent_at_the_same_time_may_stand_in_either_order(story: Story) -> None:
    one, other = story.producer(), story.producer()
    sent = [(producer, producer.send(0, at=story.now())) for producer in (one, other)]
    for offset, (producer, value) in enumerate(reversed(sent)):
        producer.acknowledge(value.number, offset, at=story.now())
        story.logs[0].append(value)
    assert story.end() == {}


def test_a_record_that_nobody_sent_is_alien(story: Story) -> None:
    story.append(story.producer())
    story.logs[0].append(Value(3, 0))
    story.history.alien.append("0@9: b'rubbish'")
    assert story.end() == {Kind.ALIEN: 2}
