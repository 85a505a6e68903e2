"""Records that every client sends and must read back unchanged.

java/Checks.java, kafkajs/checks.js and franz-go/main.go spell the same values: a change here is a change there.
"""

from __future__ import annotations

from dataclasses import dataclass

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

BASE_TIMESTAMP_MS = 1_700_000_000_000
TIMESTAMP_STEP_MS = 1_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One record: what a producer is given and what a consumer has to return."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def samples(count: int = 40) -> list[Sample]:
    """`count` records whose timestamps are one second apart; among them each kind of null and empty field.

    Number 0 mod 8 has no key, 1 no value (a tombstone), 2 an empty key and value, 3 headers (one null, one empty, one
    twice), 4 is not text, the others are plain. The values compress well.
    """
    return [_sample(number) for number in range(count)]


def _sample(number: int) -> Sample:
    key: bytes | None = f"key-{number}".encode()
    value: bytes | None = f"value-{number}-".encode() + b"abcdefghij" * 60
    headers: tuple[tuple[str, bytes | None], ...] = ()
    match number % 8:
        case 0:
            key = None
        case 1:
            value = None
        case 2:
            key, value = b"", b""
        case 3:
            headers = (("trace", b"\x00\x01\xff"), ("void", None), ("blank", b""), ("trace", "zwei-ü".encode()))
        case 4:
            value = bytes(range(256)) * 4
    return Sample(key, value, headers, BASE_TIMESTAMP_MS + number * TIMESTAMP_STEP_MS)
