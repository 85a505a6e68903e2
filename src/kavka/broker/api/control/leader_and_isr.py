"""LeaderAndIsr (key 4): the controller orders which partitions this broker leads, and which it follows.

Behaviour   The rules are in `broker.metadata.state_changes`.
Versions    0; 1 is_new; 2 broker epoch (KIP-380), by topic; 3 reassignments (KIP-455); 4 flexible; 5 topic ids, in the
            answer too (KIP-516); 6 leader recovery state (KIP-704); 7 KRaft controller (there is none).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING

from kavka.errors import ErrorCode
from kavka.protocol.messages.leader_and_isr_request import LeaderAndIsrRequest
from kavka.protocol.messages.leader_and_isr_response import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)

if TYPE_CHECKING:
    from kavka.broker.api.control.ports import ControlBroker
    from kavka.model import TopicPartition
    from kavka.protocol.connection import Request

_FIRST_VERSION_BY_TOPIC_ID = 5


def handle(broker: ControlBroker, request: Request, message: LeaderAndIsrRequest) -> Awaitable[LeaderAndIsrResponse]:
    return answer(broker, message, request.header.api_version)


async def answer(broker: ControlBroker, message: LeaderAndIsrRequest, version: int) -> LeaderAndIsrResponse:
    error, errors = await broker.state_changes.leader_and_isr(message)
    if version >= _FIRST_VERSION_BY_TOPIC_ID:
        return LeaderAndIsrResponse(error_code=error, topics=_by_topic(message, errors))
    return LeaderAndIsrResponse(
        error_code=error,
        partition_errors=[
            LeaderAndIsrPartitionError(topic_name=topic, partition_index=index, error_code=code)
            for (topic, index), code in errors.items()
        ],
    )


def _by_topic(message: LeaderAndIsrRequest, errors: Mapping[TopicPartition, ErrorCode]) -> list[LeaderAndIsrTopicError]:
    topics = {
        topic.topic_name: LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=[])
        for topic in message.topic_states
    }
    for (name, index), code in errors.items():
        topics[name].partition_errors.append(LeaderAndIsrPartitionError(partition_index=index, error_code=code))
    return [topic for topic in topics.values() if topic.partition_errors]
