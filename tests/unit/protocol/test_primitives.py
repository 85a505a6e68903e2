"""Varints, ids, sizes of records."""

from __future__ import annotations

import uuid

import pytest

from kavka.errors import ProtocolViolation
from kavka.protocol.primitives import UUID_CACHE_ENTRIES, UUIDS, make_uuid, records_size, uvarint, uvarint_tail

VARINTS = {
    0: b"\x00",
    1: b"\x01",
    127: b"\x7f",
    128: b"\x80\x01",
    300: b"\xac\x02",
    16_383: b"\xff\x7f",
    16_384: b"\x80\x80\x01",
    2**21 - 1: b"\xff\xff\x7f",
    2**21: b"\x80\x80\x80\x01",
    2**31 - 1: b"\xff\xff\xff\xff\x07",
    2**32 - 1: b"\xff\xff\xff\xff\x0f",
}


@pytest.mark.parametrize("value", VARINTS)
def test_a_varint_is_written_and_read(value: int) -> None:
    encoded = VARINTS[value]
    assert uvarint(value) == encoded
    if value > 127:
        assert uvarint_tail(encoded, 1, encoded[0]) == (value, len(encoded))


def test_a_varint_may_be_longer_than_it_must_be() -> None:
    assert uvarint_tail(b"\x81\x80\x00", 1, 0x81) == (1, 3)


@pytest.mark.parametrize("encoded", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x00"])
def test_a_varint_over_32_bits_or_5_bytes_is_a_violation(encoded: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        uvarint_tail(encoded, 1, encoded[0])


def test_the_memory_of_ids_is_bounded() -> None:
    for number in range(UUID_CACHE_ENTRIES + 10):
        raw = number.to_bytes(16, "big")
        assert make_uuid(raw) == uuid.UUID(int=number)
        assert len(UUIDS) <= UUID_CACHE_ENTRIES


def test_the_size_of_records_counts_all_pieces() -> None:
    assert records_size(b"12") == 2
    assert records_size([b"12", memoryview(b"345")]) == 5
