"""What a request may say of a share group's state that no leader would: refused, and no more work than its length."""

from __future__ import annotations

import random
import time
import uuid

import pytest

from kavka.coordinator.share_state.decide.batches import combined
from kavka.coordinator.share_state.decide.records import (
    ShareKey,
    UnreadableRecord,
    UpdateRecord,
    decode_share_state_record,
    update_record,
)
from kavka.coordinator.share_state.decide.shard import MOST_BATCHES, ShareStateShard
from kavka.errors import ErrorCode, RequestError
from kavka.model import StateBatch
from kavka.share.decide.acquired_records import Acquired, LogBatch, Wish
from kavka.share.decide.share_partition import MOST_SPANS, Acknowledgement, ShareLimits, SharePartition
from kavka.share.decide.spans import RecordState

KEY = ShareKey("workers", uuid.UUID(int=1), 0)
LIES = [
    StateBatch(0, 1, 5, 1),
    StateBatch(0, 1, 99, 1),
    StateBatch(0, 1, -1, 1),
    StateBatch(5, 4, 0, 1),
    StateBatch(-1, 4, 0, 1),
    StateBatch(-(2**63), 2**63 - 1, 0, 1),
    StateBatch(0, 1, 0, -(2**15)),
]


def shard_with_state() -> ShareStateShard:
    shard = ShareStateShard(10)
    decoded = decode_share_state_record(shard.initialize(KEY, 1, 5, 0))
    assert decoded is not None
    shard.replay(decoded)
    return shard


@pytest.mark.parametrize("lie", LIES)
def test_a_state_that_no_leader_could_go_on_with_is_refused(lie: StateBatch) -> None:
    """It was stored, and every fetch of the group from then on closed its connection."""
    shard = shard_with_state()
    with pytest.raises(RequestError) as refused:
        shard.write(UpdateRecord(KEY, 0, 3, 5, 0, [StateBatch(5, 9, 2, 1), lie]), 1, 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert shard.read(KEY, -1, 0)[0].batches == ()


@pytest.mark.parametrize("lie", LIES)
def test_one_that_is_in_the_log_counts_as_unreadable(lie: StateBatch) -> None:
    decoded = decode_share_state_record(update_record(UpdateRecord(KEY, 0, 3, 5, 0, [lie])))
    assert isinstance(decoded, UnreadableRecord)


def test_every_state_that_there_is_may_be_stored() -> None:
    shard = shard_with_state()
    batches = [StateBatch(5 + state, 5 + state, state, 1) for state in RecordState]
    record = shard.write(UpdateRecord(KEY, 0, 3, 5, 0, batches), 1, 0)
    assert isinstance(decode_share_state_record(record), UpdateRecord)


def test_the_count_of_deliveries_stays_within_what_can_be_told() -> None:
    """The answer could not be written otherwise."""
    partition = SharePartition(0, [StateBatch(0, 0, RecordState.AVAILABLE, 2**15 - 1)])
    given = partition.acquire("one", [LogBatch(0, 0, is_aborted=False)], Wish(10), 0, ShareLimits(5, 1_000, 10))
    assert given == [Acquired(0, 0, 2**15 - 1)]


@pytest.mark.parametrize("seed", range(20))
def test_batches_that_overlap_lead_to_what_the_last_of_them_says(seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(50):
        batches = []
        for _number in range(drawn.randint(1, 12)):
            first = drawn.randint(0, 30)
            batches.append(
                StateBatch(first, first + drawn.randint(0, 9), drawn.choice((0, 2, 3, 4)), drawn.randint(1, 3))
            )
        split = drawn.randint(0, len(batches))
        start = drawn.randint(-1, 20)
        found = combined(combined((), batches[:split], -1), batches[split:], start)
        expected = {
            offset: batch[2:]
            for batch in batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
            if offset >= start
        }
        assert [
            (offset, batch[2:]) for batch in found for offset in range(batch.first_offset, batch.last_offset + 1)
        ] == sorted(expected.items())


def test_ten_thousands_of_overlapping_batches_hold_nobody_up() -> None:
    """With the square of their number these took minutes."""
    begin = time.process_time()
    size = 20_000
    within = [StateBatch(offset, 2 * size - offset, 2 * (offset % 2), 1) for offset in range(size)]
    assert len(combined((), within, 0)) == 2 * size - 1
    assert len(combined((), within[::-1], 0)) == 1
    gaps = [StateBatch(0, 2 * size, 0, 1), *(StateBatch(2 * offset, 2 * offset, 2, 1) for offset in range(size))]
    assert len(combined((), gaps, 0)) == 2 * size
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("offset", [-2, -(2**63)])
def test_no_group_begins_at_a_negative_offset_but_for_the_one_that_is_not_known(offset: int) -> None:
    """What was left for the group was more than an answer has room for, and nobody could describe it any more."""
    shard = shard_with_state()
    with pytest.raises(RequestError) as refused:
        shard.initialize(KEY, 2, offset, 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    with pytest.raises(RequestError) as refused:
        shard.write(UpdateRecord(KEY, 0, 3, offset, 0, ()), 1, 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    shard.initialize(KEY, 2, -1, 0)


def test_a_state_does_not_grow_write_by_write() -> None:
    """It did, until its snapshot was more than a record holds, and then nothing could be stored any more."""

    def apart(first: int, count: int) -> UpdateRecord:
        batches = [StateBatch(offset, offset, 2, 1) for offset in range(first, first + 2 * count, 2)]
        return UpdateRecord(KEY, 0, 3, -1, 0, batches)

    shard, half = shard_with_state(), MOST_BATCHES // 2
    for first in (10, 10 + 2 * half, 10):  # What is known already adds nothing.
        decoded = decode_share_state_record(shard.write(apart(first, half), 1, 0))
        assert decoded is not None
        shard.replay(decoded)
    with pytest.raises(RequestError) as refused:
        shard.write(apart(7, 1), 1, 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert len(shard.read(KEY, -1, 0)[0].batches) == MOST_BATCHES
    record = shard.renew(KEY, 0)
    assert record is not None
    assert record.value is not None
    assert len(record.value) < 1_000_000
    shard.write(apart(7, 1)._replace(start_offset=11), 1, 0)


def test_a_member_that_keeps_one_record_does_not_make_runs_without_end_behind_it() -> None:
    """The state grew beyond what a record holds, and nothing could be stored any more."""
    partition, limits = SharePartition(0), ShareLimits(5, 1_000, 2_000)
    assert partition.acquire("one", [LogBatch(0, 0)], Wish(1), 0, limits)
    for _ in range(MOST_SPANS):
        if not partition.may_take_more(limits):
            break
        first = partition.end
        taken = partition.acquire("one", [LogBatch(first, first + 1_998)], Wish(2_000), 0, limits)
        kinds = [1 + 2 * (offset % 2) for offset in range(taken[0].last - first + 1)]
        partition.acknowledge("one", [Acknowledgement(first, taken[0].last, kinds)], 0, limits)
        partition.settle(partition.take_write(), is_committed=True)
    assert MOST_SPANS <= len(partition.spans) < MOST_SPANS + 2_000
    assert partition.acquire("two", [LogBatch(partition.end, partition.end)], Wish(1), 0, limits) == []
    partition.acknowledge("one", [Acknowledgement(0, 0, [1])], 0, limits)
    partition.settle(partition.take_write(), is_committed=True)
    assert partition.may_take_more(limits)
