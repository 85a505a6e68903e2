"""DescribeLogDirsRequest: request, API key 35, versions 0-5, flexible from 2.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 1-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, string


class DescribableLogDirTopic(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class DescribeLogDirsRequest(Message, kind="request", versions="0-5", flexible="2+", api_key=35):
    topics: list[DescribableLogDirTopic] | None = array(
        DescribableLogDirTopic, "0+", nullable="0+", default_factory=list
    )
