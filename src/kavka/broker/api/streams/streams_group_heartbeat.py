"""StreamsGroupHeartbeat (key 88): a member of a Kafka Streams application joins, stays or leaves, and learns its tasks.

Behaviour   The rules are in `coordinator.groups.streams.decide.heartbeat`. The answer waits until every change that the
            heartbeat caused is in the log, but not for internal topics: those that are missing are created meanwhile,
            and the member is told which they are, and why one could not be created. UNSUPPORTED_VERSION while the
            cluster's streams.version is 0 or group.coordinator.rebalance.protocols does not name this protocol. With
            an authorizer internal topics are created only where the member may create all of them.
Versions    0.
Not supported  As in Apache Kafka 4.3: static members, warm-up tasks, task offsets, regular expressions for source
            topics, another topology in a group that has one (INVALID_REQUEST each).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kavka.broker.api.topology_names import flaw, topic_names
from kavka.coordinator.groups.streams.decide.endpoints import TopicPartitions as Served
from kavka.coordinator.groups.streams.decide.group import Endpoint as UserEndpoint
from kavka.coordinator.groups.streams.decide.heartbeat import StreamsAnswer, StreamsHeartbeat
from kavka.coordinator.groups.streams.decide.records import ids_of
from kavka.coordinator.groups.streams.decide.tasks import TaskIds as Ids
from kavka.coordinator.groups.streams.decide.topology import StatusCode, topology_of
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.streams_group_heartbeat_request import KeyValue, StreamsGroupHeartbeatRequest
from kavka.protocol.messages.streams_group_heartbeat_request import TaskIds as OwnedIds
from kavka.protocol.messages.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicPartition,
)
from kavka.security.acls import Operation
from kavka.security.resource_patterns import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.streams.ports import StreamsBroker
    from kavka.broker.authorization.authorization import Caller
    from kavka.protocol.connection import Request

MOST_FAILURES_TOLD: Final = 3
"""Kafka's number."""


def handle(
    broker: StreamsBroker, request: Request, message: StreamsGroupHeartbeatRequest
) -> Awaitable[StreamsGroupHeartbeatResponse]:
    return _beat(broker, request, message)


async def _beat(
    broker: StreamsBroker, request: Request, message: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse:
    try:
        if not broker.serves_streams_groups():
            raise RequestError(ErrorCode.UNSUPPORTED_VERSION)
        answer = await broker.groups.streams_heartbeat(_heartbeat(broker, request, message))
    except RequestError as refused:
        return StreamsGroupHeartbeatResponse(error_code=refused.code, error_message=refused.message or None)
    statuses = [Status(status_code=status.code, status_detail=status.detail) for status in answer.statuses]
    if answer.missing:
        told = _have_created(broker, request, answer)
        for status in statuses:
            if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
                status.status_detail += told
    tasks = answer.tasks
    return StreamsGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        status=statuses,
        active_tasks=None if tasks is None else _told(tasks.active),
        standby_tasks=None if tasks is None else _told(tasks.standby),
        warmup_tasks=None if tasks is None else _told(tasks.warmup),
        endpoint_information_epoch=answer.endpoint_epoch,
        partitions_by_user_endpoint=None
        if answer.endpoints is None
        else [
            EndpointToPartitions(
                user_endpoint=Endpoint(host=one.endpoint.host, port=one.endpoint.port),
                active_partitions=_partitions(one.active),
                standby_partitions=_partitions(one.standby),
            )
            for one in answer.endpoints
        ],
    )


def _heartbeat(broker: StreamsBroker, request: Request, message: StreamsGroupHeartbeatRequest) -> StreamsHeartbeat:
    """Raises `RequestError` (STREAMS_INVALID_TOPOLOGY)."""
    topology, endpoint = None, message.user_endpoint
    if message.topology is not None:
        why = flaw(broker, topic_names(message.topology.subtopologies))
        if why is not None:
            raise RequestError(ErrorCode.STREAMS_INVALID_TOPOLOGY, why)
        topology = topology_of(message.topology.epoch, message.topology.subtopologies)
    return StreamsHeartbeat(
        message.group_id,
        message.member_id,
        message.member_epoch,
        message.endpoint_information_epoch,
        message.instance_id,
        message.rack_id,
        message.rebalance_timeout_ms,
        topology,
        _owned(message.active_tasks),
        _owned(message.standby_tasks),
        _owned(message.warmup_tasks),
        message.process_id,
        None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        None if message.client_tags is None else _tags(message.client_tags),
        message.task_offsets is not None,
        message.task_end_offsets is not None,
        message.shutdown_application,
        request.header.client_id or "",
        f"/{request.context.client_host}",
    )


def _owned(parts: Sequence[OwnedIds] | None) -> Ids | None:
    """Also a subtopology of which the member names no task: it must be one of the topology's."""
    return None if parts is None else {**{part.subtopology_id: frozenset() for part in parts}, **ids_of(parts)}


def _tags(tags: Sequence[KeyValue]) -> tuple[tuple[str, str], ...]:
    named: Mapping[str, str] = {tag.key: tag.value for tag in tags}
    return tuple(sorted(named.items()))


def _have_created(broker: StreamsBroker, request: Request, answer: StreamsAnswer) -> str:
    """Creates missing internal topics if the member may create them. Returns the status for its answer."""
    if broker.authorization is not None:
        refused = not_to_create(broker.authorization.caller(request), answer.missing)
        if refused:
            return f"; Unauthorized to CREATE on topics {', '.join(refused)}."
    broker.streams_topics.ask(answer.missing, remember_ms=2 * answer.heartbeat_interval_ms)
    failures = broker.streams_topics.failures(answer.missing)
    if not failures:
        return ""
    listed = [f"{name} ({error.name})" for name, error in failures.items()]
    more = len(listed) - MOST_FAILURES_TOLD
    shown = ", ".join(listed[:MOST_FAILURES_TOLD]) + (f" and {more} more" if more > 0 else "")
    return f"; Creation failed: {shown}."


def not_to_create(caller: Caller, names: Iterable[str]) -> list[str]:
    """Those of these topics that the caller may not create."""
    if caller.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True):
        return []
    listed = list(names)
    allowed = caller.allowed(Operation.CREATE, ResourceType.TOPIC, listed)
    return [name for name in listed if name not in allowed]


def _told(ids: Ids) -> list[TaskIds]:
    return [TaskIds(subtopology_id=name, partitions=sorted(ids[name])) for name in sorted(ids)]


def _partitions(served: Sequence[Served]) -> list[TopicPartition]:
    return [TopicPartition(topic=one.topic, partitions=list(one.partitions)) for one in served]
