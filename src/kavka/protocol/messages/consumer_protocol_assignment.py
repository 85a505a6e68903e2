"""ConsumerProtocolAssignment: stored value, versions 0-3, never flexible.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 0-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, string


class TopicPartition(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class ConsumerProtocolAssignment(Message, kind="data", versions="0-3"):
    assigned_partitions: list[TopicPartition] = array(TopicPartition, "0+", default_factory=list)
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
