"""ConsumerProtocolSubscription: stored value, versions 0-3, never flexible.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 0-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, int32, string


class TopicPartition(Struct):
    topic: str = string("1+", default="")
    partitions: list[int] = array("int32", "1+", default_factory=list)


class ConsumerProtocolSubscription(Message, kind="data", versions="0-3"):
    topics: list[str] = array("string", "0+", default_factory=list)
    user_data: bytes | None = binary("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", default_factory=list, ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)
