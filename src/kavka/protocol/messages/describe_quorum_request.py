"""DescribeQuorumRequest: request, API key 55, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int32, string


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)


class TopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class DescribeQuorumRequest(Message, kind="request", versions="0-2", flexible="0+", api_key=55):
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)
