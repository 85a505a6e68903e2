"""ShareAcknowledgeRequest: request, API key 79, versions 1-2, flexible from 0.

Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int32, int64, string, uuid


class AcknowledgementBatch(Struct):
    first_offset: int = int64("1+", default=0)
    last_offset: int = int64("1+", default=0)
    acknowledge_types: list[int] = array("int8", "1+", default_factory=list)


class AcknowledgePartition(Struct):
    partition_index: int = int32("1+", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "1+", default_factory=list)


class AcknowledgeTopic(Struct):
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition, "1+", default_factory=list)


class ShareAcknowledgeRequest(Message, kind="request", versions="1-2", flexible="0+", api_key=79):
    group_id: str | None = string("1+", nullable="1+", default=None)
    member_id: str | None = string("1+", nullable="1+", default="")
    share_session_epoch: int = int32("1+", default=0)
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic, "1+", default_factory=list)
