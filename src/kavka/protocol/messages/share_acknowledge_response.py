"""ShareAcknowledgeResponse: response, API key 79, versions 1-2, flexible from 0.

Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, struct, uuid


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("1+", default=0)
    leader_epoch: int = int32("1+", default=0)


class PartitionData(Struct):
    partition_index: int = int32("1+", default=0)
    error_code: int = int16("1+", default=0)
    error_message: str | None = string("1+", nullable="1+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "1+", default_factory=LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "1+", default_factory=list)


class NodeEndpoint(Struct):
    node_id: int = int32("1+", default=0)
    host: str = string("1+", default="")
    port: int = int32("1+", default=0)
    rack: str | None = string("1+", nullable="1+", default=None)


class ShareAcknowledgeResponse(Message, kind="response", versions="1-2", flexible="0+", api_key=79):
    throttle_time_ms: int = int32("1+", default=0)
    error_code: int = int16("1+", default=0)
    error_message: str | None = string("1+", nullable="1+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse, "1+", default_factory=list)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "1+", default_factory=list)
