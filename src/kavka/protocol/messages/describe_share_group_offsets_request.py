"""DescribeShareGroupOffsetsRequest: request, API key 90, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, string


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = string("0+", default="")
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, "0+", nullable="0+", default_factory=list
    )


class DescribeShareGroupOffsetsRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=90):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup, "0+", default_factory=list
    )
    kavka_records_only: bool = boolean("0+", tag=10000, default=False, ignorable=True)
