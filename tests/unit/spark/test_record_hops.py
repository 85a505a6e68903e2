"""Where records start: many equally long ones in one step, and the same as one by one, whatever the bytes are."""

from __future__ import annotations

import random
from array import array

import pytest

pytest.importorskip("numpy")

from kavka.records.record import encode_varint
from kavka_spark import record_fields
from kavka_spark.record_fields import LEAST_ALIKE, hop

SIZES = (6, 20, 63, 64, 100, 1_000)


def records(draw: random.Random, kind: str, count: int) -> bytes:
    size, data = draw.choice(SIZES), bytearray()
    for _ in range(count):
        if kind == "mixed":
            size = draw.randint(1, 200)
        elif kind == "runs" and draw.random() < 0.03:
            size = draw.choice((6, 63, 64, 120, 9_000))
        data += encode_varint(size) + draw.randbytes(size)
    if kind == "damaged":
        for _ in range(3):
            data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("kind", ["alike", "mixed", "runs", "damaged"])
def test_many_at_once_are_the_same_as_one_by_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(kind)
    together = 0
    for _ in range(400):
        count = draw.randint(1, 300)
        data = records(draw, kind, count)
        if draw.random() < 0.3:
            data = data[: draw.randint(0, len(data))]
        asked = draw.randint(1, count + 2)
        found, singly = array("q"), array("q")
        end = hop(memoryview(data), 0, asked, found)
        with monkeypatch.context() as patched:
            patched.setattr(record_fields, "_hop_alike", lambda _payload, position, _count, _starts: (0, position))
            assert end == hop(memoryview(data), 0, asked, singly)
        if end is not None:
            assert found == singly
            together += len(found)
    assert together > 10_000


def test_equally_long_records_take_one_step() -> None:
    data = records(random.Random(1), "alike", 1_000)
    starts = array("q")
    taken, end = record_fields._hop_alike(memoryview(data), 0, 1_000, starts)
    assert (taken, end, len(starts)) == (1_000, len(data), 1_000)
    taken, _end = record_fields._hop_alike(memoryview(data), 0, LEAST_ALIKE - 1, starts)
    assert taken == 0
