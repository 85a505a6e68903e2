"""AlterPartitionRequest: request, API key 56, versions 0-3, flexible from 0.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 2-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int8, int32, int64, string, uuid


class BrokerState(Struct):
    broker_id: int = int32("3+", default=0)
    broker_epoch: int = int64("3+", default=-1)


class PartitionData(Struct):
    partition_index: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    new_isr: list[int] = array("int32", "0-2", default_factory=list)
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+", default_factory=list)
    leader_recovery_state: int = int8("1+", default=0)
    partition_epoch: int = int32("0+", default=0)


class TopicData(Struct):
    topic_name: str = string("0-1", default="", ignorable=True)
    topic_id: UUID = uuid("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class AlterPartitionRequest(Message, kind="request", versions="0-3", flexible="0+", api_key=56):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)
