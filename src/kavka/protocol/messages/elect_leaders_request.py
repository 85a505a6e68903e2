"""ElectLeadersRequest: request, API key 43, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int32, string


class TopicPartitions(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class ElectLeadersRequest(Message, kind="request", versions="0-2", flexible="2+", api_key=43):
    election_type: int = int8("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default_factory=list)
    timeout_ms: int = int32("0+", default=60000)
