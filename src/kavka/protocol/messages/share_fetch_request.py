"""ShareFetchRequest: request, API key 78, versions 1-2, flexible from 0.

Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int8, int32, int64, string, uuid


class AcknowledgementBatch(Struct):
    first_offset: int = int64("1+", default=0)
    last_offset: int = int64("1+", default=0)
    acknowledge_types: list[int] = array("int8", "1+", default_factory=list)


class FetchPartition(Struct):
    partition_index: int = int32("1+", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch, "1+", default_factory=list)


class FetchTopic(Struct):
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    partitions: list[FetchPartition] = array(FetchPartition, "1+", default_factory=list)


class ForgottenTopic(Struct):
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    partitions: list[int] = array("int32", "1+", default_factory=list)


class ShareFetchRequest(Message, kind="request", versions="1-2", flexible="0+", api_key=78):
    group_id: str | None = string("1+", nullable="1+", default=None)
    member_id: str | None = string("1+", nullable="1+", default="")
    share_session_epoch: int = int32("1+", default=0)
    max_wait_ms: int = int32("1+", default=0)
    min_bytes: int = int32("1+", default=0)
    max_bytes: int = int32("1+", default=2147483647)
    max_records: int = int32("1+", default=0)
    batch_size: int = int32("1+", default=0)
    share_acquire_mode: int = int8("2+", default=0, ignorable=True)
    is_renew_ack: bool = boolean("2+", default=False)
    topics: list[FetchTopic] = array(FetchTopic, "1+", default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "1+", default_factory=list)
