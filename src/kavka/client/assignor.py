"""Who reads what in a group: the embedded protocol of consumers, and the range assignor.

Decides the assignment from the members' subscriptions and the topics' partition counts; the member that leads the
group runs it. It must not know the broker's part, to which subscriptions and assignments are opaque bytes.

Source: Kafka's ConsumerProtocol (versions 0 to 3 differ in what they append; version 0 is understood by all, and
longer ones are read up to what is known here), RangeAssignor.

    subscription = version i16, topics [string], user data bytes, ...
    assignment   = version i16, [topic string, partitions [i32]], user data bytes
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kavka.errors import ProtocolViolation
from kavka.model import TopicPartition

PROTOCOL_TYPE = "consumer"
RANGE = "range"
_VERSION = 0

Assignment: TypeAlias = dict[str, list[TopicPartition]]
"""Member id to its partitions."""


def assign_range(members: Mapping[str, Sequence[str]], partition_counts: Mapping[str, int]) -> Assignment:
    """Gives each member of a topic, in the order of their ids, a run of its partitions; the first get one more.

    `members`: member id to the topics it subscribes to; `partition_counts`: of the topics that exist.
    """
    assignment: Assignment = {member: [] for member in members}
    for topic in sorted({topic for topics in members.values() for topic in topics}):
        readers = sorted(member for member, topics in members.items() if topic in topics)
        share, rest = divmod(partition_counts.get(topic, 0), len(readers))
        start = 0
        for index, member in enumerate(readers):
            end = start + share + (1 if index < rest else 0)
            assignment[member].extend(TopicPartition(topic, partition) for partition in range(start, end))
            start = end
    return assignment


def encode_subscription(topics: Sequence[str]) -> bytes:
    return struct.pack("!hi", _VERSION, len(topics)) + b"".join(map(_string, topics)) + b"\xff\xff\xff\xff"


def decode_subscription(data: bytes) -> list[str]:
    """The topics; raises `ProtocolViolation` for bytes that are no subscription."""
    try:
        _, count = struct.unpack_from("!hi", data)
        _check(count, 2, data, 6)
        topics, position = [], 6
        for _ in range(count):
            topic, position = _read_string(data, position)
            topics.append(topic)
    except (struct.error, UnicodeDecodeError) as failure:
        raise ProtocolViolation(f"a member's subscription is malformed: {failure}") from failure
    return topics


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [struct.pack("!hi", _VERSION, len(by_topic))]
    for topic, numbers in by_topic.items():
        parts.append(_string(topic))
        parts.append(struct.pack(f"!i{len(numbers)}i", len(numbers), *numbers))
    return b"".join(parts) + b"\xff\xff\xff\xff"


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions; none for the empty bytes that a broker gives before the leader has assigned.

    Raises `ProtocolViolation` for bytes that are no assignment.
    """
    if not data:
        return []
    try:
        _, count = struct.unpack_from("!hi", data)
        _check(count, 6, data, 6)
        partitions, position = [], 6
        for _ in range(count):
            topic, position = _read_string(data, position)
            (numbers,) = struct.unpack_from("!i", data, position)
            position += 4
            _check(numbers, 4, data, position)
            partitions += [TopicPartition(topic, n) for n in struct.unpack_from(f"!{numbers}i", data, position)]
            position += 4 * numbers
    except (struct.error, UnicodeDecodeError) as failure:
        raise ProtocolViolation(f"an assignment is malformed: {failure}") from failure
    return partitions


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("!h", len(data)) + data


def _read_string(data: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("!h", data, position)
    position += 2
    _check(length, 1, data, position)
    return data[position : position + length].decode(), position + length


def _check(count: int, width: int, data: bytes, position: int) -> None:
    if not 0 <= count * width <= len(data) - position:
        raise ProtocolViolation(f"{count} entries where {len(data) - position} bytes remain")
