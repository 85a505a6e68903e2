"""Metadata (key 3): brokers, topics, partitions and their leaders.

Behaviour   All topics (null, or empty in version 0), or those named. A topic that does not exist is
            UNKNOWN_TOPIC_OR_PARTITION. Where both the client and `auto.create.topics.enable` allow it, it is
            LEADER_NOT_AVAILABLE, and the broker creates the topic meanwhile, with num.partitions and
            default.replication.factor (`broker.topics.auto_creation`; as Kafka 3.9 and not as 4). Where any topic has
            an id that is not zero, only the ids count: the broker ignores a name beside an id (Java's admin client
            sends the empty one) and topics without an id, and creates nothing.
            A broker that has just started waits until it knows the cluster before it answers. Where that takes
            longer than a moment it closes the connection, so that the client asks another broker (Kafka 3.9 answers
            with no brokers, which librdkafka 2.16 never recovers from).
Versions    0: only replicas that the client can reach, and REPLICA_NOT_AVAILABLE where there are more; 1 controller id,
            is_internal, rack; 2 cluster id; 3-4 auto-creation is the client's choice; 5 offline replicas; 6
            LISTENER_NOT_FOUND, where older ones get LEADER_NOT_AVAILABLE; 7 leader epoch; 8 authorised operations
            (KIP-430); 9 flexible; 10 topic ids; 11; 12 by topic id; 13 error code above all (KIP-1102).
            Without an authorizer the answer reports every operation as allowed; with one see `api/guards/topics.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.broker.api.endpoints import reachable_brokers
from kavka.broker.api.security.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS, PartitionMetadata, TopicMetadata
from kavka.errors import ErrorCode
from kavka.logger import Logger
from kavka.model import NO_LEADER, NO_TOPIC_ID
from kavka.protocol.connection import CLOSE_CONNECTION, Response
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from kavka.broker.api.topics.ports import TopicsBroker
    from kavka.protocol.connection import Request

logger = Logger(__name__)
_FIRST_VERSION_WITH_LISTENER_NOT_FOUND = 6
_FIRST_VERSION_BY_TOPIC_ID = 12


def handle(
    broker: TopicsBroker, request: Request, message: MetadataRequest
) -> MetadataResponse | Awaitable[MetadataResponse | Response]:
    if not broker.first_metadata.is_there:
        return _wait_and_answer(broker, request, message)
    version = request.header.api_version
    topics = message.topics
    if topics is None or (version == 0 and not topics):
        answers = [_topic(broker, request, topic, message) for topic in broker.metadata.topics()]
        return _response(broker, request, message, answers)
    if version < _FIRST_VERSION_BY_TOPIC_ID and any(topic.name is None or topic.topic_id.int for topic in topics):
        return _refusal(topics)
    # Each id or name is answered once.
    wanted_ids = {topic.topic_id: None for topic in topics if topic.topic_id.int}
    if wanted_ids:
        return _response(broker, request, message, _by_id(broker, request, message, wanted_ids))
    names = list({topic.name: None for topic in topics if topic.name is not None})
    if len(names) < len({topic.name for topic in topics}):
        return _refusal(topics)
    missing = [name for name in names if broker.metadata.topic(name) is None]
    errors: Mapping[str, ErrorCode] = {}
    if missing and broker.config.auto_create_topics_enable and (version < 4 or message.allow_auto_topic_creation):
        errors = broker.auto_creation.ask(missing)
    return _response(broker, request, message, _by_name(broker, request, message, names, errors))


async def _wait_and_answer(
    broker: TopicsBroker, request: Request, message: MetadataRequest
) -> MetadataResponse | Response:
    """The answer of a broker that has just started, once it knows the cluster; else none, and the connection ends."""
    if not await broker.first_metadata.wait():
        logger.info("connection closed", why="no controller has sent this broker the cluster's metadata yet")
        return CLOSE_CONNECTION
    answer = handle(broker, request, message)
    return answer if isinstance(answer, MetadataResponse) else await answer


def _refusal(topics: Sequence[MetadataRequestTopic]) -> MetadataResponse:
    """The answer to a request that names a topic in a way that its version does not know, or not at all: nothing but
    the error."""
    return MetadataResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        controller_id=NO_LEADER,
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id, partitions=[]
            )
            for topic in topics
        ],
    )


def _by_id(
    broker: TopicsBroker, request: Request, message: MetadataRequest, topic_ids: Iterable[uuid.UUID]
) -> list[MetadataResponseTopic]:
    answers = []
    for topic_id in topic_ids:
        name = broker.metadata.topic_name(topic_id)
        topic = None if name is None else broker.metadata.topic(name)
        if topic is None:
            unknown = MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[]
            )
            answers.append(unknown)
        else:
            answers.append(_topic(broker, request, topic, message))
    return answers


def _by_name(
    broker: TopicsBroker,
    request: Request,
    message: MetadataRequest,
    names: Iterable[str],
    errors: Mapping[str, ErrorCode],
) -> list[MetadataResponseTopic]:
    """An answer for each name. `errors`: the codes of topics that do not exist yet and may be created."""
    answers = []
    for name in names:
        topic = broker.metadata.topic(name)
        if topic is not None:
            answers.append(_topic(broker, request, topic, message))
            continue
        error = errors.get(name) or broker.invalid_topic_name(name) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answers.append(
            MetadataResponseTopic(
                error_code=error,
                name=name,
                topic_id=NO_TOPIC_ID,
                is_internal=name in INTERNAL_TOPICS,
                partitions=[],
                topic_authorized_operations=_operations(message),
            )
        )
    return answers


def _topic(
    broker: TopicsBroker, request: Request, topic: TopicMetadata, message: MetadataRequest
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        # A partition that the controller said nothing of yet has no replicas, and is left out, as by Apache Kafka.
        partitions=[
            _partition(broker, request, index, partition)
            for index, partition in enumerate(topic.partitions)
            if partition.replicas
        ],
        topic_authorized_operations=_operations(message),
    )


def _operations(message: MetadataRequest) -> int:
    """Also of a topic that is not there: what is allowed goes by its name."""
    return TOPIC_OPERATIONS if message.include_topic_authorized_operations else NOT_ASKED


def _partition(
    broker: TopicsBroker, request: Request, index: int, partition: PartitionMetadata
) -> MetadataResponsePartition:
    metadata, listener = broker.metadata, request.context.listener_name
    leader, replicas, isr = partition.state.leader, partition.replicas, partition.state.isr
    if not request.header.api_version:
        # Clients of this version do not know brokers that are not in the list.
        replicas = tuple(replica for replica in replicas if metadata.endpoint(replica, listener) is not None)
        isr = tuple(replica for replica in isr if metadata.endpoint(replica, listener) is not None)
    error = ErrorCode.NONE
    if leader == NO_LEADER or not metadata.is_alive(leader):
        error = ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    elif metadata.endpoint(leader, listener) is None:
        knows = request.header.api_version >= _FIRST_VERSION_WITH_LISTENER_NOT_FOUND
        error = ErrorCode.LISTENER_NOT_FOUND if knows else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_LEADER
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.state.isr):
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.state.leader_epoch,
        replica_nodes=list(replicas),
        isr_nodes=list(isr),
        offline_replicas=list(partition.offline_replicas),
    )


def _response(
    broker: TopicsBroker, request: Request, message: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in reachable_brokers(broker.metadata, request)
    ]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=broker.metadata.cluster_id,
        controller_id=broker.metadata.controller_id,
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS
        if message.include_cluster_authorized_operations
        else NOT_ASKED,
    )
