"""BeginQuorumEpochRequest: request, API key 53, versions 0-1, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, string, uint16, uuid


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    voter_directory_id: UUID = uuid("1+", default=ZERO_UUID, ignorable=True)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class TopicData(Struct):
    topic_name: str = string("0+", default="")
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class LeaderEndpoint(Struct):
    name: str = string("1+", default="")
    host: str = string("1+", default="")
    port: int = uint16("1+", default=0)


class BeginQuorumEpochRequest(Message, kind="request", versions="0-1", flexible="1+", api_key=53):
    cluster_id: str | None = string("0+", nullable="0+", default=None)
    voter_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)
    leader_endpoints: list[LeaderEndpoint] = array(LeaderEndpoint, "1+", default_factory=list, ignorable=True)
