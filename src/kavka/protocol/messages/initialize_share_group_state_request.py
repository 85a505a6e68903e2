"""InitializeShareGroupStateRequest: request, API key 83, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int32, int64, string, uuid


class PartitionData(Struct):
    partition: int = int32("0+", default=0)
    state_epoch: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)
    kavka_number: int = int64("0+", tag=10000, default=-1, ignorable=True)
    kavka_broker_epoch: int = int64("0+", tag=10001, default=-1, ignorable=True)
    kavka_coordinator_epoch: int = int32("0+", tag=10002, default=-1, ignorable=True)
    kavka_coordinators_topic: UUID = uuid("0+", tag=10003, default=ZERO_UUID, ignorable=True)


class InitializeStateData(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class InitializeShareGroupStateRequest(Message, kind="request", versions="0", flexible="0+", api_key=83):
    group_id: str = string("0+", default="")
    topics: list[InitializeStateData] = array(InitializeStateData, "0+", default_factory=list)
