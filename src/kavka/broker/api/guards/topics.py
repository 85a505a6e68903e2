"""Guards of topics: which of them a client sees, creates, enlarges and deletes.

By name, a topic that is denied is answered as such before anybody looks whether it exists. Ids are no secret: an
id that exists and is denied is answered without its name.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from kavka.broker.api.guards.guard import Then, sort_out, then_add
from kavka.broker.api.security.authorized_operations import NOT_ASKED
from kavka.broker.api.topic_cursor import is_astray
from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS
from kavka.controller.decide.topic_plans import CLUSTER_METADATA_TOPIC
from kavka.errors import ErrorCode
from kavka.model import NO_TOPIC_ID
from kavka.protocol.connection import CLOSE_CONNECTION
from kavka.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kavka.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from kavka.protocol.messages.create_topics_request import CreateTopicsRequest
from kavka.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kavka.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kavka.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kavka.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kavka.protocol.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from kavka.broker.api.ports import ApiBroker
    from kavka.broker.authorization.authorization import Caller

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ELSEWHERE = ErrorCode.NOT_CONTROLLER
_METADATA_BY_ID = 12
_DELETION_BY_ID = 6
_DELETION_DISABLED_SINCE = 3


# -- Metadata


def metadata(broker: ApiBroker, caller: Caller, message: MetadataRequest) -> Any | Awaitable[Any]:
    """De T; C K or C T of what would be created. All topics: filtered."""
    if broker.first_metadata.is_there:
        return _metadata(broker, caller, message)
    return _metadata_later(broker, caller, message)


async def _metadata_later(broker: ApiBroker, caller: Caller, message: MetadataRequest) -> Any:
    """A broker that has just started does not know which topics there are."""
    if not await broker.first_metadata.wait():
        return CLOSE_CONNECTION  # As the handler does; asking later, it might find ids that nobody asked about here.
    return _metadata(broker, caller, message)


def _metadata(broker: ApiBroker, caller: Caller, message: MetadataRequest) -> Then:
    version, topics = caller.request.header.api_version, message.topics
    if topics is None or (version == 0 and not topics):

        def filtered(answer: MetadataResponse) -> MetadataResponse:
            answer.topics = [
                topic
                for topic in answer.topics
                if topic.name is not None
                and caller.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, quietly=True)
            ]
            return _show_operations(caller, answer)

        return Then(filtered)
    if version < _METADATA_BY_ID and any(topic.name is None or topic.topic_id.int for topic in topics):
        return Then(lambda answer: _show_operations(caller, answer))  # The handler refuses the request.
    if any(topic.topic_id.int for topic in topics):
        refused = _take_ids_out(broker, caller, message)
    else:
        refused = _take_names_out(broker, caller, message)
    none_left = version == 0 and not message.topics  # In version 0 the handler takes none for all.

    def change(answer: MetadataResponse) -> MetadataResponse:
        if none_left:
            answer.topics = []
        _show_operations(caller, answer)
        answer.topics = [*answer.topics, *refused]
        return answer

    return Then(change)


def _take_ids_out(broker: ApiBroker, caller: Caller, message: MetadataRequest) -> list[MetadataResponseTopic]:
    """Only the ids count; the handler passes over topics without one."""
    left, refused = [], {}
    for topic in message.topics or ():
        if not topic.topic_id.int:
            continue
        name = broker.metadata.topic_name(topic.topic_id)
        if name is None or caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            left.append(topic)
        else:
            refused[topic.topic_id] = MetadataResponseTopic(
                error_code=_DENIED, name=None, topic_id=topic.topic_id, partitions=[]
            )
    message.topics = left
    return list(refused.values())


def _take_names_out(broker: ApiBroker, caller: Caller, message: MetadataRequest) -> list[MetadataResponseTopic]:
    topics = message.topics or ()
    names = {topic.name for topic in topics if topic.name is not None}
    allowed = caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
    denied = names - allowed
    uncreated: set[str] = set()
    may_create = caller.request.header.api_version < 4 or message.allow_auto_topic_creation
    if may_create and broker.config.auto_create_topics_enable:
        missing = {name for name in allowed if broker.metadata.topic(name) is None}
        if missing and not caller.may_on_cluster(Operation.CREATE, quietly=True):
            uncreated = missing - caller.allowed(Operation.CREATE, ResourceType.TOPIC, missing)
    message.topics = [topic for topic in topics if topic.name not in denied and topic.name not in uncreated]
    return [
        MetadataResponseTopic(
            error_code=_DENIED,
            name=name,
            topic_id=NO_TOPIC_ID,
            is_internal=name in uncreated and name in INTERNAL_TOPICS,
            partitions=[],
        )
        for name in sorted(denied | uncreated)
    ]


def _show_operations(caller: Caller, answer: MetadataResponse) -> MetadataResponse:
    for topic in answer.topics:
        if topic.topic_authorized_operations != NOT_ASKED:
            topic.topic_authorized_operations = caller.operations(
                topic.topic_authorized_operations, ResourceType.TOPIC, topic.name or ""
            )
    if answer.cluster_authorized_operations != NOT_ASKED:
        answer.cluster_authorized_operations = cluster_operations(caller, answer.cluster_authorized_operations)
    return answer


def cluster_operations(caller: Caller, known: int) -> int:
    """Which operations on the cluster a client is shown: those that it may do, if it may Describe it."""
    if not caller.may_on_cluster(Operation.DESCRIBE):
        return 0
    return caller.operations(known, ResourceType.CLUSTER, "kafka-cluster")


# -- DescribeTopicPartitions


def describe_topic_partitions(broker: ApiBroker, caller: Caller, message: DescribeTopicPartitionsRequest) -> Any:
    """De T. All topics: filtered, before they are cut into pages."""
    if is_astray(message):
        return None  # The handler refuses it, whichever topics there are.
    refused: list[DescribeTopicPartitionsResponseTopic] = []
    # Those before the cursor were answered with an earlier page.
    first = "" if message.cursor is None else message.cursor.topic_name
    if message.topics:
        names = {topic.name for topic in message.topics if topic.name >= first}
        allowed = caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
        refused = [
            DescribeTopicPartitionsResponseTopic(
                error_code=_DENIED,
                name=name,
                topic_id=NO_TOPIC_ID,
                partitions=[],
                topic_authorized_operations=NOT_ASKED,
            )
            for name in sorted(names - allowed)
        ]
    else:
        every = (topic.name for topic in broker.metadata.topics() if topic.name >= first)
        allowed = caller.allowed(Operation.DESCRIBE, ResourceType.TOPIC, every, quietly=True)
    if not allowed:  # The handler takes none for all.
        return DescribeTopicPartitionsResponse(topics=refused, next_cursor=None)
    message.topics = [TopicRequest(name=name) for name in sorted(allowed)]
    if message.cursor is not None and message.cursor.topic_name not in allowed:
        message.cursor = (
            None  # It may have gone since the page before, as may the right: all that is left comes after it.
        )

    def change(answer: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in answer.topics:
            if topic.topic_authorized_operations != NOT_ASKED:
                topic.topic_authorized_operations = caller.operations(
                    topic.topic_authorized_operations, ResourceType.TOPIC, topic.name or ""
                )
        answer.topics = [*answer.topics, *refused]
        return answer

    return Then(change)


# -- CreateTopics, CreatePartitions, DeleteTopics. Only the controller asks for rights, others send the client there.
# They answer themselves: a handler that is let go on unasked might find itself on the controller a moment later. So it
# is with ids that are not known yet.


def create_topics(broker: ApiBroker, caller: Caller, message: CreateTopicsRequest) -> Any:
    """C K, or C T; the answer shows settings with DC T. Brokers create topics that their own clients asked for."""
    if not broker.controller.is_active:
        elsewhere = [
            CreatableTopicResult(name=topic.name, error_code=_ELSEWHERE, configs=[]) for topic in message.topics
        ]
        return CreateTopicsResponse(topics=elsewhere)
    wanted = [topic.name for topic in message.topics]
    times = Counter(wanted)
    once = {name for name, count in times.items() if count == 1} - {CLUSTER_METADATA_TOPIC}
    allowed = once
    if not caller.may_on_cluster(Operation.CREATE, quietly=True) and not (
        caller.is_broker() and caller.may_on_cluster(Operation.CLUSTER_ACTION, quietly=True)
    ):
        allowed = caller.allowed(Operation.CREATE, ResourceType.TOPIC, once)
    shown = caller.allowed(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, times, quietly=True)
    refused = [
        CreatableTopicResult(
            name=name,
            error_code=_DENIED,
            error_message="Authorization failed.",
            topic_config_error_code=ErrorCode.NONE if name in shown else _DENIED,
            configs=[],
        )
        for name in sorted(once - allowed)
    ]
    # A topic that is named twice stays, and so does KRaft's log: the handler refuses them, whoever asks.
    message.topics = [topic for topic in message.topics if topic.name in allowed or topic.name not in once]

    def change(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in answer.topics:
            if topic.name in shown:
                continue
            if topic.error_code == ErrorCode.NONE:
                topic.topic_config_error_code = _DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
            elif topic.name not in once and topic.name != CLUSTER_METADATA_TOPIC:
                topic.topic_config_error_code = _DENIED
        by_name: dict[str, deque[CreatableTopicResult]] = {}
        for topic in [*answer.topics, *refused]:
            by_name.setdefault(topic.name, deque()).append(topic)
        answer.topics = [by_name[name].popleft() for name in wanted if by_name.get(name)]
        return answer

    return Then(change)


def create_partitions(broker: ApiBroker, caller: Caller, message: CreatePartitionsRequest) -> Any:
    """A T."""
    if not broker.controller.is_active:
        elsewhere = [CreatePartitionsTopicResult(name=topic.name, error_code=_ELSEWHERE) for topic in message.topics]
        return CreatePartitionsResponse(results=elsewhere)
    times = Counter(topic.name for topic in message.topics)
    once = {name for name, count in times.items() if count == 1}
    allowed = caller.allowed(Operation.ALTER, ResourceType.TOPIC, once)
    refused = [
        CreatePartitionsTopicResult(name=name, error_code=_DENIED, error_message="The topic authorization is failed.")
        for name in sorted(once - allowed)
    ]
    # A topic that is named twice stays: the handler refuses it.
    message.topics = [topic for topic in message.topics if topic.name in allowed or times[topic.name] > 1]
    return then_add(refused, to="results")


def delete_topics(broker: ApiBroker, caller: Caller, message: DeleteTopicsRequest) -> Any:
    """D T. By id: De T first, without which not even the name is shown."""
    version = caller.request.header.api_version
    if not broker.controller.is_active:
        return _none_deleted(message, _ELSEWHERE)
    if not broker.config.delete_topic_enable:
        is_known = version >= _DELETION_DISABLED_SINCE
        return _none_deleted(message, ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST)
    wanted: list[object] = [*message.topic_names]
    if version < _DELETION_BY_ID:
        names = set(message.topic_names)
        allowed = caller.allowed(Operation.DELETE, ResourceType.TOPIC, names)
        message.topic_names = [name for name in message.topic_names if name in allowed]
        refused = [_undeleted(name, NO_TOPIC_ID) for name in sorted(names - allowed)]
    else:
        wanted += [topic.topic_id if topic.topic_id.int else topic.name for topic in message.topics]
        message.topics, refused = sort_out(message.topics, lambda topic: _refused_deletion(broker, caller, topic))
    if not refused:
        return None
    place = {each: number for number, each in reversed([*enumerate(wanted)])}

    def change(answer: DeleteTopicsResponse) -> DeleteTopicsResponse:
        answer.responses = sorted(
            [*answer.responses, *refused], key=lambda result: place.get(result.topic_id, place.get(result.name, 0))
        )
        return answer

    return Then(change)


def _refused_deletion(broker: ApiBroker, caller: Caller, topic: DeleteTopicState) -> DeletableTopicResult | None:
    by_id = bool(topic.topic_id.int)
    name = broker.metadata.topic_name(topic.topic_id) if by_id else topic.name
    if by_id and topic.name is not None:
        return None  # By both: the handler refuses it.
    if not by_id and name is None:
        return _undeleted(None, topic.topic_id)  # Nobody may delete what is nothing.
    if name is None:
        return _undeleted(None, topic.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    if by_id and not caller.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return _undeleted(None, topic.topic_id)
    if not caller.may(Operation.DELETE, ResourceType.TOPIC, name):
        return _undeleted(name, topic.topic_id)
    return None


def _undeleted(name: str | None, topic_id: Any, error: ErrorCode = _DENIED) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=None)


def _none_deleted(message: DeleteTopicsRequest, error: ErrorCode) -> DeleteTopicsResponse:
    """Said before anything is asked, and without a look at which topics there are."""
    wanted = [(topic.name, topic.topic_id) for topic in message.topics]
    wanted += [(name, NO_TOPIC_ID) for name in message.topic_names]
    return DeleteTopicsResponse(responses=[_undeleted(name, topic_id, error) for name, topic_id in wanted])
