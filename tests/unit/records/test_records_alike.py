"""Records laid out alike are taken together, and one that only seems so is seen, at the edges of what is tried.

A record that differs in one byte from those around it means what a walk over the records says: it is written in each
case. `walked` says how many records were walked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records import survey as survey_module
from kavka.records.record import Header, encode_record, encode_varint, walk_records
from kavka.records.survey import LEAST_ALIKE, MAX_PLACES, WALKED_AT_ONCE, WINDOW_GROWTH, RecordsSurvey, survey

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
FIRST = 64
"""So many records are tried at first: what is behind them begins in the middle of the bytes."""


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of records that were walked."""
    found: list[int] = []
    walk_singly = survey_module._walk_singly

    def count_walked(walk: survey_module._Walk, stop: int) -> None:
        found.append(stop - walk.index)
        walk_singly(walk, stop)

    monkeypatch.setattr(survey_module, "_walk_singly", count_walked)
    return found


def alike(
    count: int,
    times: Sequence[int] = (0,),
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Sequence[Header] = (),
) -> list[bytes]:
    return [encode_record(index, times[index % len(times)], key, value, headers) for index in range(count)]


def refused(data: bytes, count: int) -> str:
    with pytest.raises(RecordsError) as refusal:
        survey(data, count)
    assert refusal.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(RecordsError, match=f"^{refusal.value.message}$"):
        list(walk_records(data, count))
    return refusal.value.message


def test_what_is_tried_together() -> None:
    assert (LEAST_ALIKE, WALKED_AT_ONCE, WINDOW_GROWTH, MAX_PLACES) == (24, 64, 8, 64)


@pytest.mark.parametrize(
    ("times", "key", "value", "headers"),
    [
        ((0,), b"k", b"v", ()),
        ((-64, 63), None, b"v", ()),
        ((64, -65, 127, 128, 8_191, -8_192), b"", b"v", ()),
        ((-4_160, -4_097, 4_096), b"", b"v", ()),
        ((1 << 61, -(1 << 61)), b"k", None, ()),
        ((LONG_MIN, LONG_MAX, LONG_MAX - 1), b"k", b"", ()),
        ((5,), b"k" * 64, b"v" * 64, (("h", b"x"),)),
        ((5,), b"", b"", (("", None), ("h" * 64, b"x" * 63))),
        ((5,), b"", b"v" * 70, (("", None),) * 29),
        ((5,), None, None, (("h", b""),) * 22),
    ],
)
@pytest.mark.parametrize("count", [24, 40, FIRST + 24, FIRST + 30])
def test_they_are_taken_whatever_they_have_in_common(
    count: int,
    times: Sequence[int],
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header],
    walked: list[int],
) -> None:
    said = survey(b"".join(alike(count, times, key, value, headers)), count)
    assert said == RecordsSurvey(min(times), max(times), key is not None, True)
    assert walked == []


def test_fewer_are_walked_and_so_are_those_with_too_many_headers(walked: list[int]) -> None:
    assert survey(b"".join(alike(23)), 23).counts_up
    assert survey(b"".join(alike(FIRST + 23)), FIRST + 23).counts_up
    many = [("", None)] * 30
    assert survey(b"".join(alike(24, headers=many)), 24).counts_up
    assert walked == [23, 23, 24]


@pytest.mark.parametrize("time", [LONG_MIN, LONG_MIN + 1, LONG_MAX, LONG_MAX - 1, 1 << 62, -(1 << 62) - 1])
@pytest.mark.parametrize("count", [1, 24])
def test_a_time_that_all_have_is_the_least_and_the_greatest(count: int, time: int) -> None:
    assert survey(b"".join(alike(count, [time])), count)[:2] == (time, time)


# -- one among them that is another


def with_one(records: Sequence[bytes], which: int, other: bytes) -> bytes:
    assert len(records[which]) == len(other), "that only one byte seems to be another"
    return b"".join((*records[:which], other, *records[which + 1 :]))


WHICH = (0, 1, 23, FIRST + 1, FIRST + 23)
COUNT = FIRST + 30


@pytest.mark.parametrize("which", WHICH)
def test_a_time_that_goes_on_takes_the_next_byte(which: int) -> None:
    """The next record's length is then read as the number of headers."""
    records = alike(COUNT, key=None, value=None)
    record = records[which]
    longer = record[:2] + b"\x80" + record[3:]
    assert refused(with_one(records, which, longer), COUNT) == (
        f"record {which} of the batch: {len(record) - 1} headers where -1 bytes remain"
    )


def test_a_time_that_ends_early_leaves_its_byte_to_the_offset() -> None:
    records = [b"\x0e\0\x80\1" + encode_varint(index) + b"\1\1\0" for index in range(30)]
    assert survey(b"".join(records), 30) == (64, 64, False, True)
    # A time of -64 in one byte, an offset of -1, a key of one byte.
    assert survey(with_one(records, 1, b"\x0e\0\x7f\1\2\1\1\0"), 30) == (-64, 64, False, False)


@pytest.mark.parametrize("which", WHICH)
def test_a_record_without_the_key_that_the_others_have_is_seen(which: int) -> None:
    records = alike(COUNT, key=b"", value=b"v")
    assert survey(b"".join(records), COUNT).all_have_keys
    keyless = encode_record(which, 0, None, b"v")
    assert not survey(with_one(records, which, keyless), COUNT).all_have_keys


@pytest.mark.parametrize("which", WHICH)
def test_a_record_whose_length_is_another_byte_of_those_beside_it_is_seen(which: int) -> None:
    records = alike(COUNT, [2], value=b"value")
    record = records[which]
    for place in range(len(record)):
        for byte in {record[place - 1], record[(place + 1) % len(record)], 0, 1}:
            other = with_one(records, which, record[:place] + bytes((byte,)) + record[place + 1 :])
            assert said(other) == said_by_a_walk(other), f"byte {place} is {byte:#x}"


@pytest.mark.parametrize("which", WHICH)
def test_one_with_other_headers_is_seen(which: int) -> None:
    records = alike(COUNT, [2], headers=[("name", b"content"), ("n", None)])
    record = records[which]
    for place in range(len(record)):
        for byte in {record[place] ^ 2, record[place] ^ 1, record[place] ^ 0x80}:
            other = with_one(records, which, record[:place] + bytes((byte,)) + record[place + 1 :])
            assert said(other) == said_by_a_walk(other), f"byte {place} is {byte:#x}"


def said(data: bytes) -> RecordsSurvey | str:
    """Or which record is refused."""
    try:
        return survey(data, COUNT)
    except RecordsError as refusal:
        return refusal.message.partition(":")[0]


def said_by_a_walk(data: bytes) -> RecordsSurvey | str:
    try:
        records = list(walk_records(data, COUNT))
    except RecordsError as refusal:
        return refusal.message.partition(":")[0]
    times = [timestamp for _, timestamp, _ in records]
    all_have_keys = all(has_key for _, _, has_key in records)
    counts_up = [offset for offset, _, _ in records] == list(range(COUNT))
    return RecordsSurvey(min(times), max(times), all_have_keys, counts_up)


# -- all of them malformed, and cut ones


def all_malformed(count: int, *behind_offset: int) -> bytes:
    bodies = [b"\0\0" + encode_varint(index) + bytes(behind_offset) for index in range(count)]
    return b"".join(encode_varint(len(body)) + body for body in bodies)


@pytest.mark.parametrize(
    ("behind_offset", "words"),
    [
        ((1, 1, 2, 1), "1 headers where 1 bytes remain"),
        ((1, 1, 2, 1, 0), "header key of -1 bytes where 1 remain"),
        ((1, 1, 2, 1, 1), "header key of -1 bytes where 1 remain"),
        ((1, 1, 1, 0), "-1 headers where 1 bytes remain"),
        ((1, 1, 2, 0, 2), "header of 1 bytes where 0 remain"),
        ((1, 1, 0, 0), "record should end at byte 8 and ends at 7"),
    ],
)
def test_records_that_are_malformed_in_one_way_are_refused_by_the_first(
    behind_offset: tuple[int, ...], words: str
) -> None:
    assert refused(all_malformed(24, *behind_offset), 24) == f"record 0 of the batch: {words}"


@pytest.mark.parametrize("count", [24, FIRST + 24, FIRST + 40])
@pytest.mark.parametrize("cut", [1, 3, 5])
def test_the_last_one_may_not_lack_a_byte_of_its_content(count: int, cut: int) -> None:
    """The bytes that it lacks are no length and no count."""
    data = b"".join(alike(count, headers=[("h", b"12345")]))
    words = refused(data[:-cut], count)
    record_bytes = len(alike(count, headers=[("h", b"12345")])[-1]) - 1
    assert words == (
        f"record {count - 1} of the batch: record of {record_bytes} bytes where {record_bytes - cut} remain"
    )
    assert refused(data + b"12", count) == f"2 bytes follow the last of the {count} records"
