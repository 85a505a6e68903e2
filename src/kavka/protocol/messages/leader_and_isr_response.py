"""LeaderAndIsrResponse: response, API key 4, versions 0-7, flexible from 4.

Apache Kafka 3.9.2: 0-7.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, uuid


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", default="", ignorable=True)
    partition_index: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)


class LeaderAndIsrTopicError(Struct):
    topic_id: UUID = uuid("5+", default=ZERO_UUID)
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+", default_factory=list)


class LeaderAndIsrResponse(Message, kind="response", versions="0-7", flexible="4+", api_key=4):
    error_code: int = int16("0+", default=0)
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4", default_factory=list)
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+", default_factory=list)
