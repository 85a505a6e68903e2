"""Snappy is written in the blocks of snappy-java: 32 KiB of records each, the last one with what is left."""

from __future__ import annotations

import cramjam
import pytest

from kavka.records.compression import Compression, compress, decompress

KIB_32 = 32_768
HEADER_BYTES = 16


def sizes(stream: bytes) -> list[int]:
    """What each block says that it holds."""
    found, position = [], HEADER_BYTES
    while position < len(stream):
        length = int.from_bytes(stream[position : position + 4], "big")
        position += 4 + length
        found.append(int(cramjam.snappy.decompress_raw_len(stream[position - length : position])))
    return found


@pytest.mark.parametrize(
    ("size", "blocks"),
    [
        (0, []),
        (1, [1]),
        (KIB_32 - 1, [KIB_32 - 1]),
        (KIB_32, [KIB_32]),
        (KIB_32 + 1, [KIB_32, 1]),
        (3 * KIB_32 + 5, [KIB_32] * 3 + [5]),
    ],
)
def test_each_block_but_the_last_holds_32_kib(size: int, blocks: list[int]) -> None:
    data = bytes(range(251)) * (size // 251) + bytes(size % 251)
    stream = compress(Compression.SNAPPY, data)
    assert sizes(stream) == blocks
    assert bytes(decompress(Compression.SNAPPY, stream)) == data
