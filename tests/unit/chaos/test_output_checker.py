"""The output checker finds each flaw in a story made by hand, and none in a good one."""

from __future__ import annotations

import pytest

from tests.chaos.history import History, Value
from tests.chaos.output_checker import Flaw, Outputs, check_outputs, count_flaws
from tests.chaos.outputs import Event, Journal, Output, Transaction, decoded_output, encoded_output, read_journals

FIRST, SECOND = Transaction(7, 1), Transaction(7, 2)


class Story:
    """Two partitions of four inputs each; the first two of each are transformed in one transaction, the others in a
    second, and the reader saw it all."""

    def __init__(self) -> None:
        self.inputs = History(2)
        producer = self.inputs.producer()
        for offset in range(4):
            for partition in range(2):
                value = producer.send(partition, at=0.0)
                producer.acknowledge(value.number, offset, at=1.0)
                self.inputs.final_of(partition).read(offset, value)
        self.outputs = Outputs(
            {index: [self.output(index, offset) for offset in range(4)] for index in range(2)},
            {index: [self.output(index, offset) for offset in range(4)] for index in range(2)},
            {FIRST: Event.COMMITTED, SECOND: Event.COMMITTED},
        )

    def output(self, partition: int, offset: int, *, is_to_be_aborted: bool = False) -> tuple[int, Output]:
        """Where it stands, and it: a control record stands behind each transaction's two."""
        source = Value(0, offset * 2 + partition)
        transaction = FIRST if offset < 2 else SECOND
        return offset + offset // 2, Output(source, partition, offset, transaction, 4, is_to_be_aborted)

    def both(self, partition: int) -> list[list[tuple[int, Output]]]:
        return [self.outputs.final[partition], self.outputs.live[partition]]

    def flaws(self) -> dict[Flaw, int]:
        return count_flaws(check_outputs(self.inputs, self.outputs))


@pytest.fixture
def story() -> Story:
    return Story()


def test_one_output_for_each_input_is_without_flaw(story: Story) -> None:
    assert story.flaws() == {}


def test_a_reader_that_saw_only_the_beginning_is_without_flaw(story: Story) -> None:
    del story.outputs.live[0][1:], story.outputs.live[1]
    assert story.flaws() == {}


def test_a_missing_transaction_is_missing_outputs_and_undone(story: Story) -> None:
    for partition in range(2):
        for reading in story.both(partition):
            del reading[2:]
    assert story.flaws() == {Flaw.MISSING: 4, Flaw.UNDONE: 1}


def test_a_missing_record_tears_its_transaction(story: Story) -> None:
    for reading in story.both(1):
        del reading[3]
    assert story.flaws() == {Flaw.MISSING: 1, Flaw.TORN: 1}


def test_an_output_made_twice_is_a_duplicate(story: Story) -> None:
    again = story.output(0, 3)[1]._replace(transaction=Transaction(8, 1), size=1)
    for reading in story.both(0):
        reading.append((9, again))
    assert story.flaws() == {Flaw.DUPLICATE: 1}


def test_a_record_that_was_to_be_aborted_is_told_of_every_reader(story: Story) -> None:
    for reading in story.both(0):
        reading[3] = story.output(0, 3, is_to_be_aborted=True)
    assert story.flaws() == {Flaw.ABORTED: 2}


def test_a_transaction_whose_writer_was_told_that_it_is_aborted_must_not_be_seen(story: Story) -> None:
    story.outputs.told = {FIRST: Event.COMMITTED, SECOND: Event.ABORTED}
    assert story.flaws() == {Flaw.ABORTED: 8}


def test_a_transaction_of_open_outcome_may_be_seen(story: Story) -> None:
    story.outputs.told = {FIRST: Event.BEGUN}
    assert story.flaws() == {}


def test_outputs_in_another_order_than_their_inputs_are_reordered(story: Story) -> None:
    for reading in story.both(0):
        (low, first), (high, second) = reading[:2]
        reading[:2] = [(low, second), (high, first)]
    assert story.flaws() == {Flaw.REORDERED: 1}


def test_an_output_of_an_input_that_is_not_there_is_misplaced(story: Story) -> None:
    offset, output = story.output(0, 3)
    for reading in story.both(0):
        reading[3] = (offset, output._replace(source=Value(5, 5)))
    assert story.flaws() == {Flaw.MISPLACED: 1}


def test_what_only_the_live_reader_saw_has_vanished(story: Story) -> None:
    story.outputs.live[0].append((11, story.output(0, 3)[1]))
    assert story.flaws() == {Flaw.VANISHED: 1}


def test_what_the_live_reader_was_not_given_is_skipped(story: Story) -> None:
    del story.outputs.live[0][1]
    assert story.flaws() == {Flaw.SKIPPED: 1}


def test_a_live_reader_that_is_sent_backwards_is_told(story: Story) -> None:
    story.outputs.live[0].append(story.outputs.live[0][1])
    assert story.flaws() == {Flaw.SKIPPED: 1}


def test_what_nobody_wrote_is_alien(story: Story) -> None:
    story.outputs.alien.append("0@3: b'?'")
    assert story.flaws() == {Flaw.ALIEN: 1}


def test_outputs_survive_their_encoding_and_damage_is_seen(story: Story) -> None:
    output = story.output(1, 3, is_to_be_aborted=True)[1]
    data = encoded_output(output)
    assert decoded_output(data) == output
    assert decoded_output(data[:-1] + b"?") is None
    assert decoded_output(data.replace(b":4:", b":5:")) is None
    assert decoded_output(None) is None


def test_a_journal_tells_the_last_event_of_each_transaction(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("journals") / "journal"
    for event, transaction in (
        (Event.BEGUN, FIRST),
        (Event.COMMITTED, FIRST),
        (Event.BEGUN, SECOND),
    ):
        Journal(path).note(event, transaction)
    assert read_journals([path, path.with_name("none")]) == {FIRST: Event.COMMITTED, SECOND: Event.BEGUN}


def test_inputs_that_the_group_has_not_come_to_are_still_to_be_done_and_those_before_are_missing(story: Story) -> None:
    for partition in range(2):
        for reading in story.both(partition):
            del reading[2:]
    story.outputs.told = {FIRST: Event.COMMITTED}
    assert story.flaws() == {Flaw.MISSING: 4}
    story.outputs.committed = {0: 2, 1: 3}
    assert story.flaws() == {Flaw.MISSING: 1}
