"""DescribeTopicPartitions (key 75): topics and partitions page by page (KIP-966).

Behaviour   Topics in the order of their names, from the cursor on, at most min(response_partition_limit,
            max.request.partition.size.limit) partitions, but one at least; the next cursor names where to go on, which
            may be a topic that does not exist. No topics named means all. A cursor at a negative partition, or at a
            topic that is not among those named, is INVALID_REQUEST for each of them.
            With kavka.eligible.leader.replicas.enable the broker reads the eligible leader replicas from ZooKeeper; no
            request of a controller carries them in a ZooKeeper cluster. Otherwise, and where ZooKeeper does not answer,
            their lists are empty, as from Apache Kafka while the feature is off.
Versions    0.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.security.authorized_operations import TOPIC_OPERATIONS
from kavka.broker.api.topic_cursor import is_astray
from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS, TopicMetadata
from kavka.errors import ErrorCode, ZooKeeperError
from kavka.model import NO_LEADER, NO_TOPIC_ID, TopicPartition
from kavka.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from kavka.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.api.topics.ports import TopicsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: TopicsBroker, request: Request, message: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse | Awaitable[DescribeTopicPartitionsResponse]:
    response = _describe(broker, message)
    if broker.config.kavka_eligible_leader_replicas_enable:
        return _with_eligible(broker, response)
    return response


async def _with_eligible(
    broker: TopicsBroker, response: DescribeTopicPartitionsResponse
) -> DescribeTopicPartitionsResponse:
    described = {
        TopicPartition(topic.name or "", partition.partition_index): partition
        for topic in response.topics
        for partition in topic.partitions
    }
    try:
        states = await broker.read_partition_states(list(described))
    except ZooKeeperError:
        return response
    for key, state in states.items():
        described[key].eligible_leader_replicas = list(state.eligible_leader_replicas)
        described[key].last_known_elr = list(state.last_known_elr)
    return response


def _describe(broker: TopicsBroker, message: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    if is_astray(message):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(
                    error_code=ErrorCode.INVALID_REQUEST, name=topic.name, topic_id=NO_TOPIC_ID, partitions=[]
                )
                for topic in message.topics
            ],
            next_cursor=None,
        )
    room = max(1, min(message.response_partition_limit, broker.config.max_request_partition_size_limit))
    names = sorted({topic.name for topic in message.topics} or {topic.name for topic in broker.metadata.topics()})
    first_partition = 0
    if message.cursor is not None:
        start = message.cursor.topic_name
        names = [name for name in names if name >= start]
        if names and names[0] == start:
            first_partition = message.cursor.partition_index
    response = DescribeTopicPartitionsResponse(topics=[], next_cursor=None)
    for name in names:
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = broker.metadata.topic(name)
        if topic is None:
            response.topics.append(_unknown(broker, name))
        else:
            end = min(len(topic.partitions), first_partition + room)
            shown = range(first_partition, end)
            response.topics.append(_topic(topic, shown))
            room -= len(shown)
            if end < len(topic.partitions):
                response.next_cursor = Cursor(topic_name=name, partition_index=end)
                break
        first_partition = 0
    return response


def _unknown(broker: TopicsBroker, name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=broker.invalid_topic_name(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        name=name,
        topic_id=NO_TOPIC_ID,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _topic(topic: TopicMetadata, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for index in indexes:
        partition = topic.partitions[index]
        leader = partition.state.leader
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
                partition_index=index,
                leader_id=leader,
                leader_epoch=partition.state.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.state.isr),
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=list(partition.offline_replicas),
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
