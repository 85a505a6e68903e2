"""A survey says of a batch's records what a walk over them says, whatever the bytes are, and takes many in one step."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kavka.errors import ErrorCode, RecordsError
from kavka.records import survey as survey_module
from kavka.records.record import encode_record, encode_varint, walk_records
from kavka.records.survey import LEAST_ALIKE, RecordsSurvey, survey

Draw = random.Random


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
    for _ in range(250):
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
