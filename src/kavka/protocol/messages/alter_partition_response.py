"""AlterPartitionResponse: response, API key 56, versions 0-3, flexible from 0.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 2-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int8, int16, int32, string, uuid


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    isr: list[int] = array("int32", "0+", default_factory=list)
    leader_recovery_state: int = int8("1+", default=0, ignorable=True)
    partition_epoch: int = int32("0+", default=0)


class TopicData(Struct):
    topic_name: str = string("0-1", default="", ignorable=True)
    topic_id: UUID = uuid("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class AlterPartitionResponse(Message, kind="response", versions="0-3", flexible="0+", api_key=56):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)
