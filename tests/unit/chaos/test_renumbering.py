"""A second copy is the client's only where its producer epoch rose and the client noted it; else it is a duplicate."""

from __future__ import annotations

import pytest

from tests.chaos.checker import Kind, check, count
from tests.chaos.history import History
from tests.chaos.renumbering import ClientsNotes, Renumbering
from tests.chaos.replica_logs import StoredBatch

NOTES = ["ERRSEQ [rdkafka#producer-1] ProduceRequest for chaos [0] failed due to skipped sequence numbers"]


def batch(base_offset: int, *, records: int = 1, producer_id: int = 7, epoch: int = 0) -> StoredBatch:
    return StoredBatch(base_offset, base_offset + records - 1, 0, b"", producer_id, epoch)


def two_copies() -> History:
    """The second of two records stands twice: at 1 and at 2."""
    history = History(1)
    producer = history.producer()
    values = [producer.send(0, at=1.0), producer.send(0, at=2.0)]
    for offset, value in enumerate((values[0], values[1], values[1])):
        history.final_of(0).read(offset, value)
    producer.acknowledge(0, 0, at=3.0)
    producer.acknowledge(1, 2, at=3.0)
    return history


def test_a_copy_under_a_later_epoch_of_the_same_producer_is_the_clients() -> None:
    renumbering = Renumbering({0: [batch(0, records=2), batch(2, epoch=1)]}, NOTES)
    assert check(two_copies(), is_the_clients=renumbering.is_the_clients) == []
    assert renumbering.copies == 1


@pytest.mark.parametrize(
    ("log", "notes"),
    [
        ([batch(0, records=2), batch(2)], NOTES),
        ([batch(0, records=2, epoch=1), batch(2)], NOTES),
        ([batch(0, records=2), batch(2, producer_id=8, epoch=1)], NOTES),
        ([batch(0, records=2), batch(2, epoch=1)], []),
        ([batch(0)], NOTES),
    ],
    ids=["same epoch", "earlier epoch", "another producer", "the client noted nothing", "not in the log"],
)
def test_every_other_copy_is_a_duplicate(log: list[StoredBatch], notes: list[str]) -> None:
    renumbering = Renumbering({0: log}, notes)
    found = count(check(two_copies(), is_the_clients=renumbering.is_the_clients))
    assert found == {Kind.DUPLICATE: 1}
    assert renumbering.copies == 0


def test_of_what_a_client_logs_only_skipped_sequences_are_kept() -> None:
    notes = ClientsNotes()
    logger = notes.logger()
    logger.debug("DRAIN chaos [0] beginning partition drain")
    logger.debug(NOTES[0])
    assert notes.lines == NOTES
