"""A survey says of a batch's records what a walk over them says, whatever the bytes are, and takes many in one step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records import survey as survey_module
from kavka.records.record import encode_record, encode_varint, walk_records
from kavka.records.survey import LEAST_ALIKE, RecordsSurvey, survey

Draw = random.Random
Rows = Callable[[int], bytes]


def said_by_a_walk(payload: bytes, count: int) -> RecordsSurvey | ErrorCode:
    try:
        records = list(walk_records(payload, count))
    except RecordsError as refusal:
        return refusal.code
    times = [timestamp for _, timestamp, _ in records]
    return RecordsSurvey(
        min(times),
        max(times),
        all(has_key for _, _, has_key in records),
        [offset for offset, _, _ in records] == list(range(count)),
    )


def said_by_a_survey(payload: bytes, count: int) -> RecordsSurvey | ErrorCode:
    try:
        return survey(payload, count)
    except RecordsError as refusal:
        return refusal.code


def alike(draw: Draw, count: int) -> bytes:
    key = draw.choice([None, b"", b"k" * draw.randrange(100)])
    value = draw.choice([None, b"v" * draw.randrange(300)])
    headers = [("n" * draw.randrange(70), draw.choice([None, b"x" * 70]))] * draw.randrange(3)
    spread = draw.choice([1, 60, 5_000, 3_000_000])
    return b"".join(
        encode_record(index, index * spread // count - draw.choice([0, spread // 2]), key, value, headers)
        for index in range(count)
    )


def runs(draw: Draw, count: int) -> bytes:
    parts, value = [], b"v"
    for index in range(count):
        if draw.random() < 0.02:
            value = draw.choice([b"", b"v", b"v" * 60, b"v" * 9_000])
        key = None if draw.random() < 0.001 else b"key"
        parts.append(encode_record(index, draw.choice([0, 0, 0, 64, -1]), key, value))
    return b"".join(parts)


def mixed(draw: Draw, count: int) -> bytes:
    return b"".join(
        encode_record(
            index if draw.random() < 0.999 else draw.randrange(-5, 20_000),
            draw.choice([0, -7, 1 << 40, (1 << 63) - 1, -(1 << 63)]),
            draw.choice([None, b"k", b"k" * 80]),
            draw.choice([None, b"", b"v" * draw.randrange(200)]),
            [("h", b"x")] * draw.choice([0, 0, 0, 1, 40]),
        )
        for index in range(count)
    )


def damaged(draw: Draw, count: int) -> bytes:
    """Where lengths are, more often than not: in records of one byte."""
    data = bytearray(draw.choice([alike, runs])(draw, count))
    for _ in range(draw.choice([1, 1, 1, 5])):
        data[draw.randrange(len(data))] = draw.choice([0, 1, 2, 0x7F, 0x80, 0xFF, draw.randrange(256)])
    return bytes(data)


def damaged_short(draw: Draw, count: int) -> bytes:
    data = bytearray(b"".join(encode_record(index, index % 50, None, b"v") for index in range(count)))
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


@pytest.mark.parametrize("records", [alike, runs, mixed, damaged, damaged_short], ids=lambda make: make.__name__)
def test_a_survey_says_what_a_walk_says(records: Callable[[Draw, int], bytes]) -> None:
    draw = random.Random(records.__name__)
    accepted = refused = 0
    for _ in range(120):
        count = draw.choice([1, 8, 30, 100, 700])
        data = records(draw, count)
        if draw.random() < 0.1:
            data = data[: draw.randint(0, len(data))] + draw.randbytes(draw.randrange(3))
        asked = max(1, count + draw.choice([0, 0, 0, 0, 1, -1]))
        answer = said_by_a_survey(data, asked)
        assert answer == said_by_a_walk(data, asked)
        accepted += isinstance(answer, RecordsSurvey)
        refused += answer is ErrorCode.INVALID_RECORD
    assert accepted > 20
    assert refused > 20


LONGEST = (1 << 63) - 1


def alike_at(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], *times: int) -> Rows:
    """Records that differ in offset and time alone."""
    return lambda index: encode_record(index, times[index % len(times)], key, value, headers)


SHAPES = (
    alike_at(None, b"v", [], 0),
    alike_at(b"k", None, [], 5, 3, -2),
    alike_at(b"", b"", [("h", b"x"), ("", None)], -64, 63),
    alike_at(b"key", b"v" * 70, [("n", b"")], -65, 64, 8191, -8192),
    alike_at(None, None, [], -(1 << 63), LONGEST, LONGEST - 1),
    alike_at(b"k", b"v" * 70, [("", None)] * 29, 0),
)
"""The last one has 64 bytes of lengths and counts, as many as are looked at."""


def laid(shape: Rows, count: int) -> list[bytes]:
    return [shape(index) for index in range(count)]


def replacing(record: bytes, place: int) -> set[int]:
    """Bytes that are lengths of null, of nothing, of a byte more and less, ones that go on, and those beside it."""
    beside = record[place - 1], record[(place + 1) % len(record)], record[place] ^ 2, record[place] ^ 0x80
    return {0, 1, 2, 0x7F, 0x80, 0x81, 0xFE, 0xFF, *beside}


@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("which", [0, 1, 23, 38, 39])
def test_one_byte_of_one_record_among_alike_ones_makes_the_difference_that_a_walk_finds(
    number: int, which: int
) -> None:
    records = laid(SHAPES[number], 40)
    before, after = b"".join(records[:which]), b"".join(records[which + 1 :])
    record = records[which]
    for place in range(min(len(record), 20)):
        for byte in replacing(record, place):
            data = before + record[:place] + bytes((byte,)) + record[place + 1 :] + after
            assert said_by_a_survey(data, 40) == said_by_a_walk(data, 40), f"byte {place} is {byte:#x}"


@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_the_same_byte_of_all_records_makes_the_difference_that_a_walk_finds(number: int) -> None:
    for place in range(min(len(SHAPES[number](0)), 20)):
        for byte in replacing(SHAPES[number](0), place):
            records = [record[:place] + bytes((byte,)) + record[place + 1 :] for record in laid(SHAPES[number], 30)]
            data = b"".join(records)
            assert said_by_a_survey(data, 30) == said_by_a_walk(data, 30), f"byte {place} is {byte:#x}"


@pytest.mark.parametrize("count", [1, 23, 24, 40])
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_alike_records_that_are_cut_are_refused_by_the_number_of_the_last_one(number: int, count: int) -> None:
    data = b"".join(laid(SHAPES[number], count))
    assert said_by_a_survey(data, count) == said_by_a_walk(data, count) != ErrorCode.INVALID_RECORD
    for end in range(len(data) - 5, len(data)):
        with pytest.raises(RecordsError, match=f"(record {count - 1} of the batch|{count} records cannot fit)"):
            survey(data[:end], count)
    with pytest.raises(RecordsError, match=f"^3 bytes follow the last of the {count} records"):
        survey(data + b"???", count)


def test_extremes_are_found_among_times_of_every_width() -> None:
    draw = random.Random(5)
    for bits in range(1, 64):
        times = [draw.randrange(1 << bits - 1, 1 << bits) * draw.choice([1, -1]) for _ in range(30)]
        for chosen in (times, [abs(time) for time in times], [-abs(time) for time in times], times[:1] * 30):
            data = b"".join(encode_record(index, time, None, b"v") for index, time in enumerate(chosen))
            assert survey(data, 30) == (min(chosen), max(chosen), False, True)
            assert survey(data[: len(encode_record(0, chosen[0], None, b"v"))], 1)[:2] == (chosen[0], chosen[0])


@pytest.mark.parametrize("time", [LONGEST, -LONGEST - 1])
@pytest.mark.parametrize("count", [1, 40])
def test_the_ends_of_the_64_bits_are_times_like_others(time: int, count: int) -> None:
    data = b"".join(encode_record(index, time, b"", b"") for index in range(count))
    assert survey(data, count) == (time, time, True, True)


@pytest.mark.parametrize("last", [0x01, 0x02, 0x03, 0x7E, 0x7F])
@pytest.mark.parametrize("count", [1, 40])
def test_of_a_time_of_ten_bytes_what_is_above_64_bits_is_lost(last: int, count: int) -> None:
    one = b"\0" + b"\x80" * 9 + bytes((last,)) + b"\0\1\1\0"
    data = (encode_varint(len(one)) + one) * count
    time = (last & 1) << 62
    assert survey(data, count) == (time, time, False, count == 1)


@pytest.mark.parametrize(
    "index", [0, 1, 63, 64, 65, 8_191, 8_192, 8_193, 16_383, 16_384, (1 << 20) - 1, 1 << 20, 3 << 20]
)
def test_offsets_that_count_up_are_known_byte_by_byte(index: int) -> None:
    for width in range(1, 6):
        columns = survey_module._expected_deltas(index, width)
        if width != len(encode_varint(index)) or index >= 1 << 20:
            assert columns == ()
            continue
        rows = list(zip(*columns, strict=False))
        assert len(rows) == {1: 64, 2: 8_192}.get(width, (index // 8_192 + 1) * 8_192) - index
        for row in (0, len(rows) // 2, len(rows) - 1):
            assert bytes(rows[row]) == encode_varint(index + row)


@dataclass
class Steps:
    """What was tried together, and what was walked."""

    tried: list[int] = field(default_factory=list)
    walked: list[int] = field(default_factory=list)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    take_alike, walk_singly = survey_module._take_alike, survey_module._walk_singly

    def count_tried(walk: survey_module._Walk, tried: int) -> int:
        found.tried.append(tried)
        return take_alike(walk, tried)

    def count_walked(walk: survey_module._Walk, stop: int) -> None:
        found.walked.append(stop - walk.index)
        walk_singly(walk, stop)

    monkeypatch.setattr(survey_module, "_take_alike", count_tried)
    monkeypatch.setattr(survey_module, "_walk_singly", count_walked)
    return found


@pytest.mark.parametrize(
    ("count", "tried", "walked"),
    [
        (23, [], [23]),
        (24, [24], []),
        (64, [64], []),
        (64 + 23, [64], [23]),
        (64 + 24, [64, 24], []),
        (64 + 512 + 4096 + 30, [64, 512, 4096, 30], []),
    ],
)
@pytest.mark.parametrize("number", range(len(SHAPES)))
def test_alike_records_are_tried_in_growing_numbers_and_none_is_walked_but_few_at_the_end(
    number: int, count: int, tried: list[int], walked: list[int], steps: Steps
) -> None:
    if count > 600 and number == 5:
        return  # 600 kB
    assert survey(b"".join(laid(SHAPES[number], count)), count).counts_up
    assert (steps.tried, steps.walked) == (tried, walked)


def test_offsets_of_three_bytes_are_taken_block_by_block(steps: Steps) -> None:
    count = 2 * 8_192 + 100
    assert survey(b"".join(laid(SHAPES[0], count)), count) == (0, 0, False, True)
    assert steps.tried == [64, 512, 4_096, 11_812, 64, 512, 4_096, 3_620, 64, 36]
    assert steps.walked == []


def test_records_with_more_lengths_than_are_looked_at_are_walked(steps: Steps) -> None:
    shape = alike_at(b"k", b"v", [("", None)] * 30, 0)
    assert survey(b"".join(laid(shape, 64)), 64).counts_up
    assert steps.walked == [64]


def test_alike_records_whose_offsets_do_not_count_up_are_walked(steps: Steps) -> None:
    for offset in (0, 1, 200, 9_000, 1 << 27):
        assert survey(encode_record(offset, 7, b"k", b"v") * 40, 40) == (7, 7, True, False)
    assert steps.walked == [40] * 5


def unlike(count: int) -> bytes:
    return b"".join(encode_record(index, 0, b"k", b"v" * (index % 2)) for index in range(count))


def test_records_that_are_not_alike_are_looked_at_up_to_a_bound(steps: Steps) -> None:
    assert survey(unlike(192), 192, most_parts=192).counts_up
    assert (steps.tried, steps.walked) == ([64] * 3, [64] * 3)
    for most, index in ((191, 128), (128, 128), (127, 64), (64, 64), (63, 0), (0, 0)):
        with pytest.raises(RecordsError, match=f"too many records and headers: .* after record {index}$") as refusal:
            survey(unlike(192), 192, most_parts=most)
        assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    # Fewer than are tried together are looked at, and what is alike is not looked at one by one.
    assert survey(unlike(23), 23, most_parts=0).counts_up
    assert survey(b"".join(laid(SHAPES[0], 64 + 512)), 64 + 512, most_parts=0).counts_up


def test_headers_count_for_the_bound_as_many_as_there_can_be() -> None:
    three = encode_record(0, 0, b"k", b"v") + encode_record(1, 0, b"k", b"v", [("h", b"x")] * 3)
    assert survey(three, 2, most_parts=3).counts_up
    for most in (0, 2):
        with pytest.raises(RecordsError, match=r"after record 1$") as refusal:
            survey(three, 2, most_parts=most)
        assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE
    # It says that there are a thousand headers, and there are bytes for three.
    lying = encode_varint(12) + b"\0\0\0\1\1" + encode_varint(1_000) + b"\0" * 5
    with pytest.raises(RecordsError, match="1000 headers where 5 bytes remain"):
        survey(lying, 1, most_parts=3)
    with pytest.raises(RecordsError, match="too many"):
        survey(lying, 1, most_parts=2)
    with pytest.raises(RecordsError, match="-1 headers where"):
        survey(lying.replace(encode_varint(1_000), b"\x81\0"), 1, most_parts=0)


def test_offsets_of_every_width_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20_000
    data = b"".join(encode_record(index, index // 100, None, b"v" * 10) for index in range(count))
    walked: list[int] = []
    walk_singly = survey_module._walk_singly

    def count_walked(walk: survey_module._Walk, stop: int) -> None:
        walked.append(stop - walk.index)
        walk_singly(walk, stop)

    monkeypatch.setattr(survey_module, "_walk_singly", count_walked)
    assert survey(data, count) == (0, 199, False, True)
    assert sum(walked) < count // 20


def test_few_or_long_records_are_walked() -> None:
    for count in range(1, 2 * LEAST_ALIKE):
        data = b"".join(encode_record(index, 5 - index, b"k", b"v" * 20_000) for index in range(count))
        assert survey(data, count) == (6 - count, 5, True, True)


def test_lengths_written_longer_than_they_need_be_are_read() -> None:
    one = encode_record(0, 0, b"k", b"v")
    padded = bytes((one[0] | 0x80, 0)) + one[1:]
    for count in (1, 40):
        assert survey(padded * count, count) == (0, 0, True, count == 1)


@pytest.mark.parametrize("count", [0, -1, 2, 1 << 30])
def test_a_count_that_cannot_be_is_refused_without_a_walk(count: int) -> None:
    with pytest.raises(RecordsError, match="cannot fit") as refusal:
        survey(encode_record(0, 0, b"k", b"v"), count)
    assert refusal.value.code is ErrorCode.INVALID_RECORD


def test_records_that_are_hardly_alike_cost_little_more_than_a_walk() -> None:
    """Steps are bounded: each try looks at as many records as were alike before it, at most eight times."""
    tries: list[int] = []
    data = b"".join(encode_record(index, 0, None, b"v" * (10 + (index % 70 == 0))) for index in range(7_000))
    taken = survey_module._take_alike
    try:
        survey_module._take_alike = lambda walk, tried: tries.append(tried) or taken(walk, tried)  # type: ignore[func-returns-value]
        survey(data, 7_000)
    finally:
        survey_module._take_alike = taken
    assert sum(tries) < 8 * 7_000


def test_a_varint_of_too_many_bytes_is_refused() -> None:
    good = encode_record(0, 0, None, b"v")
    for width, bits in ((5, 32), (10, 64)):
        endless = b"\xff" * width + b"\x01"
        body = b"\0" + (endless + b"\0" if bits == 64 else b"\0" + endless) + b"\x01\x02v\0"
        record = encode_varint(len(body)) + body
        for before in (0, 40):
            with pytest.raises(RecordsError):
                survey(good * before + record, before + 1)
