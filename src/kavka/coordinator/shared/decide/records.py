"""A record of a coordinator's topic, before anybody knows what it says: bytes with a version in front.

A key and a value each begin with a two-byte version; a null value deletes what the key names. What the bytes say stands
in `groups.decide.records` and `transactions.decide.records`.

Source: Kafka's CoordinatorRecordSerde.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kavka.errors import ProtocolViolation
from kavka.protocol.codec import UnsupportedVersion, decode, encode
from kavka.protocol.schema import Message

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_VERSION: Final = struct.Struct(">h")
GROUP_VALUE_VERSION: Final = 0
"""The version of every value of the newer groups (consumer, share, streams)."""


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


def decode_value(message_type: type[M], value: bytes) -> tuple[M, int]:
    """The message of a value, and its version. Raises `ProtocolViolation`, also for a version of the future.

    That is no UnsupportedVersion, which would be an answer to a client: whoever reads a log has nobody to answer, and
    passes over the record, as over any other that says nothing to it.
    """
    version, body = split_version(value)
    try:
        return decode(message_type, body, version), version
    except UnsupportedVersion as future:
        raise ProtocolViolation(f"{future.message}: a newer broker may have written it, or no broker") from future


def record_of(key_version: int, key: Message, value: Message | None) -> CoordinatorRecord:
    """A record of one of the newer groups; with None it deletes what the key names."""
    return CoordinatorRecord(
        with_version(key_version, encode(key, key_version)),
        None if value is None else with_version(GROUP_VALUE_VERSION, encode(value, GROUP_VALUE_VERSION)),
    )


def value_of(message_type: type[Any], value: tuple[int, bytes] | None) -> Any:
    """The message of a value that came without its version, None for a deletion. Raises `ProtocolViolation`.

    Any: the caller names the type, which mypy cannot carry through a match of versions.
    """
    if value is None:
        return None
    version, body = value
    if version != GROUP_VALUE_VERSION:
        raise ProtocolViolation(f"{message_type.__name__} has no version {version}")
    return decode(message_type, body, version)


def in_batches(
    items: Iterable[T], size_bytes: Callable[[T], int], most_bytes: int, *, most: int | None = None
) -> Iterator[list[T]]:
    """The items in order, cut where a batch is full: by bytes, but for an item that fills more alone, or by `most`."""
    batch: list[T] = []
    filled = 0
    for item in items:
        size = size_bytes(item)
        if batch and (filled + size > most_bytes or len(batch) == most):
            yield batch
            batch, filled = [], 0
        batch.append(item)
        filled += size
    if batch:
        yield batch
