"""What is stored of a share-partition: its records' bytes, as Kafka writes them, and batches over batches, beside
a model with each offset for itself."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Sequence
from itertools import pairwise

import pytest

from kavka.coordinator.share_state.decide.batches import combined
from kavka.coordinator.share_state.decide.records import (
    ARCHIVING,
    NO_EPOCH,
    UNKNOWN_COUNT,
    UNKNOWN_START,
    ShareKey,
    ShareState,
    SnapshotRecord,
    UnreadableRecord,
    UpdateRecord,
    decode_share_state_record,
    flaw,
    snapshot_record,
    update_record,
)
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ProtocolViolation
from kavka.model import StateBatch
from kavka.share.decide.spans import RecordState

TOPIC = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
KEY = ShareKey("workers", TOPIC, 3)
KEY_BODY = b"\x00\x07workers" + TOPIC.bytes + b"\0\0\0\x03"
BATCHES = (StateBatch(5, 9, 2, 1), StateBatch(10, 10, 0, 300))
BATCHES_BODY = b"\x03" + struct.pack("!qqbhB", 5, 9, 2, 1, 0) + struct.pack("!qqbhB", 10, 10, 0, 300, 0)
STATE = ShareState(1, 2, 3, 4, 5, 6, 7, BATCHES)


# -- records


def test_a_share_partition_is_named_as_kafka_names_it() -> None:
    assert str(KEY) == "workers:ABEiM0RVZneImaq7zN3u_w:3"


@pytest.mark.parametrize(
    ("count", "tagged"), [(5, b"\x01\x00\x04\0\0\0\x05"), (0, b"\x01\x00\x04\0\0\0\0"), (-1, b"\0")]
)
def test_a_snapshot_has_the_bytes_that_kafka_writes(count: int, tagged: bytes) -> None:
    state = STATE._replace(complete_count=count)
    record = snapshot_record(KEY, state)
    assert record.key == b"\0\0" + KEY_BODY
    assert record.value == b"\0\0" + struct.pack("!iiiqqq", 1, 2, 3, 4, 6, 7) + BATCHES_BODY + tagged
    assert decode_share_state_record(record) == SnapshotRecord(KEY, state)


@pytest.mark.parametrize(("count", "tagged"), [(5, b"\x01\x00\x04\0\0\0\x05"), (-1, b"\0")])
def test_an_update_has_the_bytes_that_kafka_writes(count: int, tagged: bytes) -> None:
    update = UpdateRecord(KEY, 1, 3, 4, count, list(BATCHES))
    record = update_record(update)
    assert record.key == b"\0\1" + KEY_BODY
    assert record.value == b"\0\0" + struct.pack("!iiq", 1, 3, 4) + BATCHES_BODY + tagged
    assert decode_share_state_record(record) == update


def test_a_deletion_is_a_snapshot_without_a_value_and_an_update_without_one_says_nothing() -> None:
    deletion = snapshot_record(KEY, None)
    assert deletion == CoordinatorRecord(b"\0\0" + KEY_BODY, None)
    assert decode_share_state_record(deletion) == SnapshotRecord(KEY, None)
    assert decode_share_state_record(CoordinatorRecord(b"\0\1" + KEY_BODY, None)) is None


@pytest.mark.parametrize("version", [2, -1, 32_767])
def test_records_of_other_kinds_are_not_known(version: int) -> None:
    assert decode_share_state_record(CoordinatorRecord(struct.pack("!h", version) + KEY_BODY, b"\0\0")) is None


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\0", b"\0\0" + KEY_BODY[:-1], b"\0\1" + KEY_BODY[:-1]])
def test_a_key_that_is_cut_is_none(key: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_share_state_record(CoordinatorRecord(key, b"\0\0"))


@pytest.mark.parametrize("version", [1, -1])
def test_a_value_of_another_version_is_unreadable_and_says_which(version: int) -> None:
    for record in (snapshot_record(KEY, STATE), update_record(UpdateRecord(KEY, 1, 3, 4, 5, []))):
        assert record.value is not None
        changed = record._replace(value=struct.pack("!h", version) + record.value[2:])
        why = f"a share group's state has no version {version}"
        assert decode_share_state_record(changed) == UnreadableRecord(KEY, why)


def test_what_stands_for_what_is_not_known() -> None:
    assert (NO_EPOCH, UNKNOWN_START, UNKNOWN_COUNT) == (-1, -1, -1)
    assert RecordState(ARCHIVING) is RecordState.ARCHIVING
    assert [state for state in range(-2, 9) if flaw([StateBatch(0, 0, state, 0)]) is None] == sorted(RecordState)


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (StateBatch(0, 0, 0, 0), None),
        (StateBatch(2**63 - 1, 2**63 - 1, 4, 2**15 - 1), None),
        (StateBatch(0, 0, 5, 0), "5 is no state of a record."),
        (StateBatch(0, 0, -1, 0), "-1 is no state of a record."),
        (StateBatch(-1, 0, 0, 0), "Offsets -1 to 0 are no range."),
        (StateBatch(1, 0, 0, 0), "Offsets 1 to 0 are no range."),
        (StateBatch(0, 0, 0, -1), "A record cannot be delivered -1 times."),
    ],
)
def test_a_flaw_is_told(batch: StateBatch, why: str | None) -> None:
    assert flaw([]) is None
    assert flaw([StateBatch(0, 1, 2, 1), batch]) == why
    assert flaw([batch, StateBatch(0, 1, 99, 1)]) == why or "99 is no state of a record."


# -- batches over batches


def by_offset(batches: Sequence[StateBatch]) -> dict[int, tuple[int, int]]:
    """State and count of each offset; the later batch wins."""
    return {
        offset: (batch.state, batch.deliveries)
        for batch in batches
        for offset in range(batch.first_offset, batch.last_offset + 1)
    }


def drawn(draw: random.Random, most: int) -> list[StateBatch]:
    found = []
    for _ in range(draw.randrange(most)):
        first = draw.randrange(14)
        found.append(
            StateBatch(first, min(first + draw.choice([0, 0, 1, 2, 5]), 15), draw.choice([0, 2]), draw.choice([1, 2]))
        )
    return found


@pytest.mark.parametrize("seed", range(8))
def test_each_offset_has_what_was_said_of_it_last(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(300):
        stored = combined((), drawn(draw, 7), -1)
        newer, start = drawn(draw, 5), draw.choice([-1, 0, draw.randrange(17)])
        found = combined(stored, newer, start)
        expected = {offset: said for offset, said in by_offset([*stored, *newer]).items() if offset >= start}
        assert by_offset(found) == expected, (stored, newer, start)
        for before, after in pairwise(found):
            assert before.last_offset < after.first_offset
            assert before.last_offset + 1 < after.first_offset or before[2:] != after[2:]


@pytest.mark.parametrize(
    ("stored", "newer", "start", "expected"),
    [
        ([(0, 9)], [], -1, [(0, 9, 0, 1)]),
        ([(0, 9)], [], 9, [(9, 9, 0, 1)]),
        ([(0, 9)], [], 10, []),
        ([(0, 9)], [(10, 10)], 0, [(0, 10, 0, 1)]),
        ([(0, 9)], [(11, 11)], 0, [(0, 9, 0, 1), (11, 11, 0, 1)]),
        ([(0, 9)], [(10, 10, 0, 2)], 0, [(0, 9, 0, 1), (10, 10, 0, 2)]),
        ([(0, 9)], [(10, 10, 2, 1)], 0, [(0, 9, 0, 1), (10, 10, 2, 1)]),
        ([(0, 9)], [(3, 4, 2, 1)], 0, [(0, 2, 0, 1), (3, 4, 2, 1), (5, 9, 0, 1)]),
        ([(0, 9)], [(0, 9, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(1, 8)], [(0, 9, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(1, 8)], [(8, 9, 2, 1), (0, 1, 2, 1)], 0, [(0, 1, 2, 1), (2, 7, 0, 1), (8, 9, 2, 1)]),
        ([], [(0, 5, 2, 1), (0, 5, 0, 1)], 0, [(0, 5, 0, 1)]),
        ([], [(3, 5, 2, 1), (0, 9, 0, 1), (4, 4, 2, 2)], 0, [(0, 3, 0, 1), (4, 4, 2, 2), (5, 9, 0, 1)]),
        ([], [(5, 5, 2, 1), (0, 0, 2, 1), (2, 3, 2, 1)], 0, [(0, 0, 2, 1), (2, 3, 2, 1), (5, 5, 2, 1)]),
    ],
)
def test_newer_batches_lie_over_stored_ones(
    stored: list[tuple[int, ...]], newer: list[tuple[int, ...]], start: int, expected: list[tuple[int, ...]]
) -> None:
    def batches(rows: list[tuple[int, ...]]) -> list[StateBatch]:
        return [StateBatch(*(*row, 0, 1)[:4]) if len(row) == 2 else StateBatch(*row) for row in rows]

    assert combined(batches(stored), batches(newer), start) == tuple(batches(expected))
