"""Which record of a key is the latest, and how many keys fit."""

from __future__ import annotations

import pytest

from kavka.log.decide.offset_map import DIRECT_KEY_BYTES, ENTRY_BYTES, OffsetMap


@pytest.mark.parametrize(
    ("memory_bytes", "load_factor", "most"),
    [
        (ENTRY_BYTES * 1000, 1.0, 1000),
        (ENTRY_BYTES * 1000 - 1, 1.0, 999),
        (ENTRY_BYTES * 1000, 0.9, 900),
        (ENTRY_BYTES * 1000, 0.0005, 1),
        (ENTRY_BYTES * 1000, 1.5, 1000),
        (ENTRY_BYTES * 1000, 7.0, 1000),
        (ENTRY_BYTES * 1000, float("inf"), 1000),
        (ENTRY_BYTES * 1000, float("nan"), 1000),
        (ENTRY_BYTES * 1000, 0.0, 1),
        (ENTRY_BYTES * 1000, -1.0, 1),
        (ENTRY_BYTES * 1000, float("-inf"), 1),
        (0, 1.0, 1),
        (ENTRY_BYTES * 2, 1.0, 2),
    ],
)
def test_the_memory_and_the_load_factor_bound_the_keys(memory_bytes: int, load_factor: float, most: int) -> None:
    """Any number may stand in log.cleaner.io.buffer.load.factor; a map with no room at all would never end a log."""
    offsets = OffsetMap(memory_bytes, load_factor)
    assert offsets.max_keys == most
    for number in range(most):
        assert offsets.put(b"%d" % number, number)
    assert not offsets.put(b"one more", most)
    assert len(offsets) == most
    assert offsets.utilization == 1.0


def test_all_of_the_memory_is_for_keys_where_no_load_factor_is_given() -> None:
    assert OffsetMap(ENTRY_BYTES * 7).max_keys == 7


def test_the_latest_offset_of_a_key_is_what_was_put_last() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 4)
    assert (len(offsets), offsets.latest_offset, offsets.utilization) == (0, -1, 0.0)
    assert offsets.get(b"") == -1
    assert offsets.put(b"", 0)
    assert offsets.put(b"a", 3)
    assert offsets.put(b"a", 9)
    assert (offsets.get(b""), offsets.get(b"a"), offsets.get(b"b")) == (0, 9, -1)
    assert (len(offsets), offsets.utilization) == (2, 0.5)
    assert offsets.latest_offset == -1, "it is for its owner to say what was looked at"


@pytest.mark.parametrize("size", [DIRECT_KEY_BYTES - 1, DIRECT_KEY_BYTES, DIRECT_KEY_BYTES + 1, 48, 4096])
def test_keys_of_one_size_are_told_apart_by_their_first_and_their_last_byte(size: int) -> None:
    offsets = OffsetMap(ENTRY_BYTES * 5)
    keys = [b"k" * size, b"a" + b"k" * (size - 1), b"k" * (size - 1) + b"a", b"\x00" * size]
    for number, key in enumerate(keys):
        assert offsets.get(key) == -1
        assert offsets.put(key, number)
    assert [offsets.get(key) for key in keys] == [0, 1, 2, 3]
    assert offsets.put(keys[1], 8)
    assert [offsets.get(key) for key in keys] == [0, 8, 2, 3]
    assert len(offsets) == 4


def test_a_full_map_still_takes_later_offsets_of_its_keys() -> None:
    offsets = OffsetMap(ENTRY_BYTES * 2)
    long = b"k" * 100
    assert offsets.put(b"a", 1)
    assert offsets.put(long, 2)
    for offset in (3, 4):
        assert not offsets.put(b"b", offset)
        assert offsets.put(long, offset)
        assert offsets.put(b"a", offset)
    assert [offsets.get(key) for key in (b"a", long, b"b")] == [4, 4, -1]
