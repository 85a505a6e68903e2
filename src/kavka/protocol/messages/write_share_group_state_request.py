"""WriteShareGroupStateRequest: request, API key 85, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int8, int16, int32, int64, string, uuid


class StateBatch(Struct):
    first_offset: int = int64("0+", default=0)
    last_offset: int = int64("0+", default=0)
    delivery_state: int = int8("0+", default=0)
    delivery_count: int = int16("0+", default=0)


class PartitionData(Struct):
    partition: int = int32("0+", default=0)
    state_epoch: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch, "0+", default_factory=list)
    kavka_number: int = int64("0+", tag=10000, default=-1, ignorable=True)
    kavka_broker_epoch: int = int64("0+", tag=10001, default=-1, ignorable=True)


class WriteStateData(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class WriteShareGroupStateRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=85):
    group_id: str = string("0+", default="")
    topics: list[WriteStateData] = array(WriteStateData, "0+", default_factory=list)
