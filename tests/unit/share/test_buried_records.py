"""Of which offsets there are dead letters, and what is copied into them: where the log has records, and can be read."""

from __future__ import annotations

import pytest

from kavka.broker.share.buried_records import BuriedRecords
from kavka.log.decide.compacted_batches import emptied, read_entries, retain_entries
from kavka.records.batch import RecordBatch, batch_at
from kavka.records.builder import BatchBuilder
from kavka.records.compression import Compression
from kavka.records.control import ControlType, EndTransactionMarker, build_marker
from tests.kit.dead_letter_case import DeadLetterCase, at_limit, rejected


def batch(first: int, count: int, compression: Compression = Compression.NONE) -> bytes:
    builder = BatchBuilder(compression)
    for offset in range(first, first + count):
        builder.append(1_000, b"k%d" % offset, b"v%d" % offset)
    return builder.build(base_offset=first)


def read(data: bytes) -> RecordBatch:
    found = batch_at(memoryview(data))
    assert found is not None
    return found


def compacted(first: int, count: int, *kept: int) -> bytes:
    """A batch of which compaction has left these offsets."""
    whole = read(batch(first, count))
    if not kept:
        return emptied(whole)
    entries = read_entries(whole.inflate(), count)
    return retain_entries(whole, whole.inflate(), [entry for entry in entries if first + entry.offset_delta in kept])


def marker(offset: int) -> bytes:
    return build_marker(
        EndTransactionMarker(ControlType.COMMIT, 0), producer_id=7, producer_epoch=0, timestamp=0, base_offset=offset
    )


def with_holes(case: DeadLetterCase) -> None:
    """Offsets 0 to 11: records at 0, 1, 4, 10 and 11; 2 is a marker, compaction removed the rest."""
    case.source.add(0, 1, batch(0, 2))
    case.source.add(2, 2, marker(2))
    case.source.add(3, 5, compacted(3, 3, 4))
    case.source.add(6, 7, compacted(6, 2))
    case.source.add(10, 11, batch(10, 2, Compression.ZSTD))


@pytest.mark.parametrize("copies", [False, True])
def test_offsets_without_a_record_have_no_dead_letter(*, copies: bool) -> None:
    case = DeadLetterCase(copies=copies)
    with_holes(case)
    assert case.bury_now(at_limit(0, 11)) == 12
    assert case.log.offsets() == [0, 1, 4, 10, 11]
    values = [record.value for record in case.log.taken]
    assert values == ([b"v0", b"v1", b"v4", b"v10", b"v11"] if copies else [None] * 5)
    assert "has given up records 0 to 11 (5 of them)" in case.told[-1].why


def test_where_no_offset_has_a_record_nothing_is_written() -> None:
    case = DeadLetterCase()
    with_holes(case)
    assert case.bury_now(at_limit(5, 9)) == 5
    assert (case.log.appends, case.told) == (0, [])


@pytest.mark.parametrize("copies", [False, True])
def test_what_a_member_has_rejected_has_a_dead_letter_though_compaction_has_removed_it(*, copies: bool) -> None:
    case = DeadLetterCase(copies=copies)
    with_holes(case)
    assert case.bury_now(rejected(3, 4), at_limit(5, 6)) == 4
    assert case.log.offsets() == [3, 4]


def test_what_lies_below_the_start_of_the_log_has_a_dead_letter_and_what_follows_is_copied() -> None:
    case = DeadLetterCase(copies=True)
    case.source.log_start_offset = 2
    case.source.add(2, 3, batch(2, 2))
    assert case.bury_now(at_limit(0, 3)) == 4
    assert [record.value for record in case.log.taken] == [None, None, b"v2", b"v3"]


@pytest.mark.parametrize("copies", [False, True])
def test_records_in_a_batch_that_nobody_can_read_have_dead_letters(*, copies: bool) -> None:
    damaged = bytearray(compacted(2, 3, 2, 4))
    damaged[-8:] = b"\xff" * 8
    case = DeadLetterCase(copies=copies)
    case.source.add(0, 1, batch(0, 2))
    case.source.add(2, 4, bytes(damaged))
    case.source.add(5, 5, batch(5, 1))
    assert case.bury_now(at_limit(0, 5)) == 6
    assert case.log.offsets() == [0, 1, 2, 3, 4, 5]
    copied = {offset: record.value for offset, record in enumerate(case.log.taken)}
    assert (copied[1], copied[3], copied[5]) == ((b"v1", None, b"v5") if copies else (None, None, None))


@pytest.mark.parametrize("at", [0, 1], ids=["first", "behind another"])
def test_behind_a_batch_with_an_unreadable_header_there_are_headers_alone(at: int) -> None:
    """Nobody knows where the next one begins; that does not hold the dead letters up."""
    header = bytearray(batch(2, 2))
    header[16] = 99  # The format's number.
    case = DeadLetterCase(copies=True)
    data = bytes(header) if at == 0 else batch(2, 1) + bytes(header)
    case.source.add(2, 9, data)
    assert case.bury_now(at_limit(2, 9)) == 8
    assert case.log.offsets() == list(range(2, 10))
    assert [record.value for record in case.log.taken] == [b"v2" if at else None, *[None] * 7]


def test_spans_far_behind_each_other_are_copied_and_what_is_done_between_them_is_not_read() -> None:
    case = DeadLetterCase(copies=True)
    for first in range(0, 1_000, 10):
        case.source.add(first, first + 9, batch(first, 10))
    assert case.bury_now(rejected(3, 3), rejected(501, 502), at_limit(998, 998)) == 4
    assert [record.value for record in case.log.taken] == [b"v3", b"v501", b"v502", b"v998"]
    assert case.source.reads == 3


def test_copies_end_where_they_are_as_large_as_a_batch_may_be() -> None:
    found = BuriedRecords([rejected(0, 9)], 6)
    found.take(batch(0, 10))
    assert (found.is_full, found.known_to, found.position) == (True, 2, None)
    assert found.contents == {0: (b"k0", b"v0"), 1: (b"k1", b"v1")}
    case = DeadLetterCase(copies=True)
    case.max_message_bytes = 700
    case.source.add(0, 9, batch(0, 10))
    assert case.bury_now(rejected(0, 9)) < 10
    assert case.log.offsets() == list(range(len(case.log.taken)))
    assert case.log.taken[0].value == b"v0"


def test_batches_without_holes_are_not_inflated_for_headers_alone() -> None:
    whole = bytearray(batch(0, 3, Compression.ZSTD))
    whole[-5:] = b"\xff" * 5
    found = BuriedRecords([at_limit(0, 2)], None)
    found.take(bytes(whole))
    assert (found.position, found.missing) == (None, set())
