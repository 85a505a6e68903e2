"""A record of a coordinator's topic, before anybody knows what it says: bytes with a version in front.

A key and a value each begin with a two-byte version; a null value deletes what the key names. What the bytes say stands
in `groups.decide.records` and `transactions.decide.records`.

Source: Kafka's CoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from kavka.errors import ProtocolViolation

_VERSION: Final = struct.Struct(">h")


class CoordinatorRecord(NamedTuple):
    """A record to write, or read back."""

    key: bytes
    value: bytes | None


class OpenTransaction(NamedTuple):
    """What a log holds of a transaction that has not ended when the log is read to its end."""

    producer_id: int
    producer_epoch: int
    records: Sequence[CoordinatorRecord]


def with_version(version: int, body: bytes) -> bytes:
    """A key or value as the log has it."""
    return _VERSION.pack(version) + body


def split_version(data: bytes) -> tuple[int, bytes]:
    """The version in front of a key or value, and what follows. Raises `ProtocolViolation`."""
    if len(data) < _VERSION.size:
        raise ProtocolViolation(f"a coordinator record of {len(data)} bytes has no version")
    return _VERSION.unpack_from(data)[0], data[_VERSION.size :]
