"""Batches too large to be looked into at the door, broken in each way that it lets in.

Their header and checksum are right, and their records inflate to more than INFLATED_RECORDS_BYTES.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from kavka.records.batch import read_header
from kavka.records.builder import BatchBuilder, seal
from kavka.records.compression import Compression
from kavka.records.record import encode_varint
from kavka.records.validation import INFLATED_RECORDS_BYTES

NOW_MS: Final = 1_700_000_000_000
LATEST_MS: Final = 2**63 - 1
NOTHING_MORE: Final = encode_varint(0)


def record(offset_delta: int, value: bytes = b"v", *, timestamp_delta: int = 0, headers: bytes = NOTHING_MORE) -> bytes:
    fields = encode_varint(timestamp_delta) + encode_varint(offset_delta) + encode_varint(1) + b"k"
    body = b"\0" + fields + encode_varint(len(value)) + value + headers
    return encode_varint(len(body)) + body


def sealed(records: bytes, count: int, **fields: int) -> bytes:
    """A batch that says that it has `count` records, and has these bytes."""
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    header = read_header(builder.build())
    said = {"attributes": int(Compression.GZIP), "record_count": count, "last_offset_delta": count - 1, **fields}
    return seal(header._replace(**said), gzip.compress(records, 1, mtime=0))


def noise() -> bytes:
    piece = random.Random(7).randbytes(30_000)
    return piece * (INFLATED_RECORDS_BYTES // len(piece) + 1)


def first() -> bytes:
    return record(0, bytes(INFLATED_RECORDS_BYTES + 1))


KINDS: Final[Mapping[str, Callable[[], bytes]]] = {
    "noise": lambda: sealed(noise(), 5_000),
    "fewer than it says": lambda: sealed(first() + record(1), 10),
    "more than it says": lambda: sealed(first() + record(1) + record(2), 2),
    "a length over the end": lambda: sealed(first() + encode_varint(1_000) + b"\0\0", 2),
    "a key of negative length": lambda: sealed(
        first() + encode_varint(6) + b"\0\0\x02" + encode_varint(-7) + b"\0\0", 2
    ),
    "headers without end": lambda: sealed(first() + record(1, headers=encode_varint(1_000)), 2),
    "a header's name that is no text": lambda: sealed(first() + record(1, headers=b"\x02\x04\xff\xfe\x02x"), 2),
    "offsets that jump": lambda: sealed(first() + record(5_000), 2),
    "offsets that go back": lambda: sealed(first() + record(0) + record(0), 3),
    "timestamps over the end": lambda: sealed(
        first() + record(1, timestamp_delta=1 << 62), 2, base_timestamp=(1 << 63) - 5
    ),
    "a negative largest timestamp": lambda: sealed(first() + record(1), 2, max_timestamp=-5),
}


@cache
def believed(kind: str) -> bytes:
    """The batch of this kind: 70 to 200 KB."""
    return KINDS[kind]()


@cache
def over_the_end() -> bytes:
    """Two records that are looked into. The first one is so late that its time is not within 64 bits: it counts as the
    earliest there is, as in Java."""
    return sealed(record(0, timestamp_delta=5) + record(1), 2, base_timestamp=LATEST_MS - 1)
