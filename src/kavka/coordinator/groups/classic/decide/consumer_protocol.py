"""The bytes that consumers of the classic protocol exchange through their group: subscriptions and assignments.

To a classic group they are opaque; the coordinator looks inside where it must know the topics (expiry of offsets,
OffsetDelete, a static member that comes back) and where a group changes its protocol. Clients choose every byte.

    subscription  version i16, topics [string], user data bytes, from 1 on owned [topic, partitions [i32]],
                  from 2 on generation i32, from 3 on rack string
    assignment    version i16, [topic, partitions [i32]], user data bytes

Later versions only append, so what follows the fields known here is passed over, as Kafka does. So does a name that is
not UTF-8 count as a name, of a topic that there is not. What may not be null and is, is malformed.

Source: Kafka's ConsumerProtocol.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kavka.errors import ProtocolViolation
from kavka.protocol.codec import encode
from kavka.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition

CONSUMER_PROTOCOL_TYPE = "consumer"
HIGHEST_VERSION = 3
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")


class Subscription(NamedTuple):
    """What a consumer says of itself. `owned` is topic to partitions."""

    version: int
    topics: Sequence[str]
    owned: Mapping[str, Sequence[int]]
    rack: str | None


class ConsumerAssignment(NamedTuple):
    """What a leader gives a member. `user_data` is its assignor's own, empty if there is none."""

    partitions: Mapping[str, Sequence[int]]
    user_data: bytes


class _Reader:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read_short(self) -> int:
        (value,) = _SHORT.unpack(self._take(2))
        return int(value)

    def read_int(self) -> int:
        (value,) = _INT.unpack(self._take(4))
        return int(value)

    def string(self) -> str:
        length = self.read_short()
        if length < 0:
            raise ProtocolViolation("a name in a consumer's subscription or assignment is null")
        return self._take(length).decode("utf-8", "replace")

    def optional_string(self) -> str | None:
        length = self.read_short()
        return None if length < 0 else self._take(length).decode("utf-8", "replace")

    def optional_bytes(self) -> bytes:
        return self._take(max(self.read_int(), 0))

    def count(self) -> int:
        """The length of an array: each entry takes at least two bytes, so no more than half of what is left."""
        count = self.read_int()
        if not 0 <= count <= (len(self._data) - self._at) // 2:
            raise ProtocolViolation(
                f"an array claims {count} entries, but only {len(self._data) - self._at} bytes remain"
            )
        return count

    def partitions(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _ in range(self.count()):
            topic = self.string()
            found.setdefault(topic, []).extend(self.read_int() for _ in range(self.count()))
        return found

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ProtocolViolation(f"a subscription or assignment ends too early, after {len(self._data)} bytes")
        self._at += size
        return taken


def decode_subscription(data: bytes) -> Subscription:
    """Raises `ProtocolViolation` for bytes that are no subscription."""
    reader = _Reader(data)
    version = _version(reader)
    topics = [reader.string() for _ in range(reader.count())]
    reader.optional_bytes()
    owned = reader.partitions() if version >= 1 else {}
    if version >= 2:
        reader.read_int()
    rack = reader.optional_string() if version >= 3 else None
    return Subscription(version, topics, owned, rack)


def decode_topics(data: bytes) -> frozenset[str]:
    """The topics of a subscription. Raises `ProtocolViolation`; not for what is wrong behind them, as Kafka."""
    reader = _Reader(data)
    _version(reader)
    return frozenset([reader.string() for _ in range(reader.count())])


def differ_in_topics(one: bytes, other: bytes) -> bool:
    """Whether two subscriptions are known to name different topics; False if one of them cannot be read."""
    try:
        return decode_topics(one) != decode_topics(other)
    except ProtocolViolation:
        return False


def subscription_version(data: bytes) -> int:
    """The version that a member speaks, the lowest where its bytes do not say."""
    return max(_SHORT.unpack_from(data)[0], 0) if len(data) >= _SHORT.size else 0


def decode_assignment(data: bytes) -> ConsumerAssignment:
    """Raises `ProtocolViolation` for bytes that are no assignment; no bytes are no partitions."""
    if not data:
        return ConsumerAssignment({}, b"")
    reader = _Reader(data)
    _version(reader)
    return ConsumerAssignment(reader.partitions(), reader.optional_bytes())


def encode_assignment(partitions: Mapping[str, Sequence[int]], version: int) -> bytes:
    """An assignment as a member that speaks `version` reads it."""
    version = max(0, min(version, HIGHEST_VERSION))
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic=topic, partitions=list(partitions[topic])) for topic in partitions],
        user_data=None,
    )
    return _SHORT.pack(version) + encode(message, version)


def _version(reader: _Reader) -> int:
    version = reader.read_short()
    if version < 0:
        raise ProtocolViolation(f"version {version} of the consumer protocol does not exist")
    return version
