"""BeginQuorumEpochResponse: response, API key 53, versions 0-1, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string, uint16


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class TopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class BeginQuorumEpochResponse(Message, kind="response", versions="0-1", flexible="1+", api_key=53):
    error_code: int = int16("0+", default=0)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", tag=0, default_factory=list)
