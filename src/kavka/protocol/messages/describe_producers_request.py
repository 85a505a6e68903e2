"""DescribeProducersRequest: request, API key 61, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, string


class TopicRequest(Struct):
    name: str = string("0+", default="")
    partition_indexes: list[int] = array("int32", "0+", default_factory=list)


class DescribeProducersRequest(Message, kind="request", versions="0", flexible="0+", api_key=61):
    topics: list[TopicRequest] = array(TopicRequest, "0+", default_factory=list)
