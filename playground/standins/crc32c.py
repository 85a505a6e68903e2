"""Stands in for the package crc32c, which is C, where no C can be loaded: the same function, a table a byte.

Source: RFC 3720, appendix B.4: the Castagnoli polynomial, bits reversed.
"""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78


def _row(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ _POLYNOMIAL if byte & 1 else byte >> 1
    return byte


_TABLE = tuple(map(_row, range(256)))


def crc32c(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """CRC-32C of `data`; `value` is that of what comes before it."""
    table = _TABLE
    crc = value ^ 0xFFFFFFFF
    for byte in bytes(data):
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF
