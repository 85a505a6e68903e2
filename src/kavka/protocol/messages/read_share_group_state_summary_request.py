"""ReadShareGroupStateSummaryRequest: request, API key 87, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int32, string, uuid


class PartitionData(Struct):
    partition: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)


class ReadStateSummaryData(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[PartitionData] = array(PartitionData, "0+", default_factory=list)


class ReadShareGroupStateSummaryRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=87):
    group_id: str = string("0+", default="")
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData, "0+", default_factory=list)
    kavka_due_letters: bool = boolean("0+", tag=10000, default=False, ignorable=True)
