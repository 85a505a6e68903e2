"""Where a reader's log parts from this one: what a fetch with the epoch of its last record is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.errors import OffsetOutOfRange
from kavka.log.unified_log import UnifiedLog
from kavka.replication.decide.divergence import diverging_epoch
from tests.unit.log.log_support import NOW_MS, batch, new_log

EPOCHS = (1, 1, 4, 4, 4)
"""Of each record, from offset 0 on: epoch 1 ends at 2, epoch 4 at 5."""


def log_of(path: Path, epochs: tuple[int, ...] = EPOCHS) -> UnifiedLog:
    log = new_log(path)
    for offset, epoch in enumerate(epochs):
        log.append_as_follower(batch(leader_epoch=epoch, base_offset=offset), NOW_MS)
    return log


@pytest.mark.parametrize(
    ("last_fetched_epoch", "offset", "parts"),
    [
        (4, 5, None),
        (4, 3, None),
        (4, 6, (4, 5)),  # the reader has one more record of this epoch
        (1, 2, None),
        (1, 3, (1, 2)),
        (1, 0, None),
        (3, 4, (1, 2)),  # an epoch that never was here, behind one that was
        (3, 1, (1, 2)),  # whatever the offset
        (0, 0, None),  # an epoch before the first one ends where that begins
        (0, 1, (0, 0)),
        (-1, 0, None),  # the reader does not say
        (-1, 99, None),
    ],
)
def test_logs_part_where_the_epoch_of_the_readers_last_record_ends_here(
    tmp_path: Path, last_fetched_epoch: int, offset: int, parts: tuple[int, int] | None
) -> None:
    """Kafka's Partition.readRecords, with LeaderEpochFileCache.endOffsetFor."""
    assert diverging_epoch(log_of(tmp_path), last_fetched_epoch, offset) == parts


def test_a_reader_that_does_not_say_its_epoch_is_served_from_an_empty_log_too(tmp_path: Path) -> None:
    assert diverging_epoch(new_log(tmp_path), -1, 0) is None


def test_a_reader_of_an_epoch_of_which_nothing_is_known_is_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(OffsetOutOfRange, match="orders-0 knows no epoch up to 5"):
        diverging_epoch(log_of(tmp_path), 5, 5)


def test_a_reader_below_the_log_start_is_out_of_range_and_one_at_it_is_not(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.advance_high_watermark(5)
    assert log.delete_records(3)
    assert diverging_epoch(log, 4, 3) is None
    with pytest.raises(OffsetOutOfRange, match="orders-0: offset 2 is below 3"):
        diverging_epoch(log, 4, 2)


def test_an_epoch_that_ends_at_offset_0_is_an_answer(tmp_path: Path) -> None:
    assert diverging_epoch(log_of(tmp_path, (4,)), 2, 1) == (2, 0)
