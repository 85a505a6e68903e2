"""The three indexes of a segment, as bytes and as answers."""

import struct

import pytest

from kavka.log.decide.indexes import (
    MAX_RELATIVE_OFFSET,
    MAX_SEGMENT_BYTES,
    AbortedTransaction,
    CorruptIndex,
    OffsetIndex,
    TimeIndex,
    aborted_bytes,
    parse_aborted,
)

BASE = 1_000


def offset_index(*entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(BASE)
    for entry in entries:
        index.append(*entry)
    return index


def time_index(*entries: tuple[int, int]) -> TimeIndex:
    index = TimeIndex(BASE)
    for entry in entries:
        index.maybe_append(*entry)
    return index


def test_an_offset_index_file_has_kafkas_bytes() -> None:
    index = offset_index((1_010, 4_200), (1_050, 8_448))
    assert index.tobytes() == struct.pack("!iiii", 10, 4_200, 50, 8_448)
    assert index.tobytes(1) == struct.pack("!ii", 50, 8_448)
    assert list(OffsetIndex.parse(index.tobytes(), BASE, 10_000)) == [(1_010, 4_200), (1_050, 8_448)]


def test_a_time_index_file_has_kafkas_bytes() -> None:
    index = time_index((1_700_000_000_123, 1_010), (1_700_000_000_456, 1_256))
    expected = struct.pack("!qiqi", 1_700_000_000_123, 10, 1_700_000_000_456, 256)
    assert index.tobytes() == expected
    assert index.tobytes(1) == expected[12:]
    assert list(TimeIndex.parse(expected, BASE)) == [(1_700_000_000_123, 1_010), (1_700_000_000_456, 1_256)]


@pytest.mark.parametrize(
    ("offset", "position"), [(0, 0), (1_009, 0), (1_010, 4_200), (1_049, 4_200), (1_050, 8_448), (1 << 40, 8_448)]
)
def test_a_scan_for_an_offset_starts_at_the_last_entry_not_above_it(offset: int, position: int) -> None:
    assert offset_index((1_010, 4_200), (1_050, 8_448)).position_for(offset) == position


@pytest.mark.parametrize(("limit", "position"), [(4_199, 0), (4_200, 4_200), (8_447, 4_200), (1 << 40, 8_448)])
def test_the_last_batch_start_within_a_position_is_found(limit: int, position: int) -> None:
    assert offset_index((1_010, 4_200), (1_050, 8_448)).last_position_within(limit) == position


def test_a_search_by_timestamp_starts_behind_the_last_older_entry() -> None:
    index = time_index((500, 1_010), (700, 1_050))
    assert [index.offset_before(timestamp) for timestamp in (0, 500, 501, 700, 701)] == [
        BASE,
        BASE,
        1_010,
        1_010,
        1_050,
    ]


def test_a_time_index_takes_only_larger_timestamps() -> None:
    index = time_index((500, 1_010), (500, 1_020), (400, 1_030), (-1, 1_040), (502, 1_050), (501, 1_060))
    assert list(index) == [(500, 1_010), (502, 1_050)]
    assert index.last_entry() == (502, 1_050)


def test_a_time_index_knows_of_the_begin_of_time_and_of_no_time_before() -> None:
    assert list(time_index((-1, 1_000))) == []
    assert list(time_index((0, 1_010))) == [(0, 1_010)]
    assert list(TimeIndex.parse(time_index((0, BASE)).tobytes(), BASE)) == [(0, BASE)]


def test_an_offset_that_does_not_grow_adds_no_entry() -> None:
    assert list(offset_index((1_010, 100), (1_010, 200))) == [(1_010, 100)]
    grown = offset_index((1_010, 100), (1_050, 200), (1_030, 300))
    assert list(grown) == [(1_010, 100), (1_050, 200)]


def test_the_zeros_behind_the_entries_of_a_preallocated_file_are_left_out() -> None:
    assert len(OffsetIndex.parse(offset_index((1_010, 4_096)).tobytes() + bytes(800), BASE, 10_000)) == 1
    assert len(TimeIndex.parse(time_index((512, 1_000)).tobytes() + bytes(1_200), BASE)) == 1
    assert len(OffsetIndex.parse(bytes(80), BASE, 0)) == 0
    three = time_index((512, 1_000), (513, 1_001), (514, 1_002))
    assert list(TimeIndex.parse(three.tobytes() + bytes(1_200), BASE)) == list(three)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes(7), "not a whole number"),
        (struct.pack("!iiii", 10, 100, 10, 200), "not in ascending order"),
        (struct.pack("!iiii", 10, 200, 20, 200), "not in ascending order"),
        (struct.pack("!ii", -1, 100), "outside"),
        (struct.pack("!ii", 10, -1), "outside"),
        (struct.pack("!ii", 10, 1_000), "outside"),
        (struct.pack("!iiii", -1, 100, 10, 200), "outside"),
        (struct.pack("!iiii", 10, -1, 20, 200), "outside"),
        (struct.pack("!iiii", 10, 100, 20, 1_000), "outside"),
    ],
)
def test_an_offset_index_that_lies_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(CorruptIndex, match=why):
        OffsetIndex.parse(data, BASE, 1_000)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes(13), "not a whole number"),
        (struct.pack("!qiqi", 5, 10, 5, 20), "not in ascending order"),
        (struct.pack("!qiqi", 5, 10, 6, 9), "not in ascending order"),
        (struct.pack("!qi", 5, -1), "before the segment"),
        (struct.pack("!qiqi", 5, -1, 6, 10), "before the segment"),
    ],
)
def test_a_time_index_that_lies_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(CorruptIndex, match=why):
        TimeIndex.parse(data, BASE)


def test_truncation_drops_the_entries_of_what_is_gone() -> None:
    index = offset_index((1_010, 4_200), (1_050, 8_448))
    index.truncate(8_448)
    assert list(index) == [(1_010, 4_200)]
    times = time_index((500, 1_010), (700, 1_050))
    times.truncate(1_050)
    assert list(times) == [(500, 1_010)]


def test_what_lies_just_inside_of_a_segment_is_believed() -> None:
    first = (BASE, 999), (BASE + 10, 0)
    assert [list(OffsetIndex.parse(offset_index(entry).tobytes(), BASE, 1_000)) for entry in first] == [
        [entry] for entry in first
    ]
    # A marker may be the first record of a segment, of a transaction that began in another one.
    entry = AbortedTransaction(producer_id=7, first_offset=BASE - 9, last_offset=BASE, last_stable_offset=BASE + 1)
    assert parse_aborted(aborted_bytes(entry), BASE) == [entry]


def test_an_entry_holds_31_bits_of_an_offset_and_of_a_position_and_no_more() -> None:
    widest = (1 << 31) - 1
    assert {MAX_RELATIVE_OFFSET, MAX_SEGMENT_BYTES} == {widest}
    assert list(offset_index((BASE + MAX_RELATIVE_OFFSET, MAX_SEGMENT_BYTES))) == [(BASE + widest, widest)]
    assert list(time_index((1, BASE + MAX_RELATIVE_OFFSET))) == [(1, BASE + widest)]
    for entry in ((BASE + MAX_RELATIVE_OFFSET + 1, 0), (BASE, MAX_SEGMENT_BYTES + 1)):
        with pytest.raises(OverflowError):
            offset_index(entry)


def test_aborted_transactions_have_kafkas_34_bytes() -> None:
    entry = AbortedTransaction(producer_id=7, first_offset=1_003, last_offset=1_009, last_stable_offset=1_010)
    data = aborted_bytes(entry)
    assert data == struct.pack("!hqqqq", 0, 7, 1_003, 1_009, 1_010)
    assert parse_aborted(data * 2, BASE) == [entry, entry]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (bytes(33), "not a whole number"),
        (struct.pack("!hqqqq", 1, 7, 1_003, 1_009, 1_010), "version 1"),
        (struct.pack("!hqqqq", 0, 7, 3, 9, 10), "does not end in the segment"),
    ],
)
def test_a_transaction_index_that_lies_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(CorruptIndex, match=why):
        parse_aborted(data, BASE)
