"""DescribeTopicPartitionsRequest: request, API key 75, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, string, struct


class TopicRequest(Struct):
    name: str = string("0+", default="")


class Cursor(Struct):
    topic_name: str = string("0+", default="")
    partition_index: int = int32("0+", default=0)


class DescribeTopicPartitionsRequest(Message, kind="request", versions="0", flexible="0+", api_key=75):
    topics: list[TopicRequest] = array(TopicRequest, "0+", default_factory=list)
    response_partition_limit: int = int32("0+", default=2000)
    cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)
