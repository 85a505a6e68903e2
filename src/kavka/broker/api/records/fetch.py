"""Fetch (key 1): record batches from partitions that this broker leads, as slices of the log's own files.

Behaviour   Incremental fetch sessions (KIP-227). The request waits in the purgatory, up to max_wait_ms, for min_bytes.
            The first batch is returned whole whatever its size (KIP-74). The others end at the limits, possibly within
            a batch; clients discard the incomplete part. Consumers read below the high watermark; read_committed ones
            read below the last stable offset, and get the list of aborted transactions. An offset within a batch gets
            the whole batch. With an authorizer, a request that waited is asked for its rights again if these changed.
            Records never pass through this process: an answer carries slices that the network room
            sends with sendfile.
            Where a session names a topic that was deleted, and made again under its name, its id is unknown:
            UNKNOWN_TOPIC_ID. Apache Kafka remembers the name, and answers INCONSISTENT_TOPIC_ID. A request that
            names a partition which is not here, or not allowed, does not wait. One for an offset that is there, and
            that the consumer may not see yet, waits; Apache Kafka answers it at once.
            Replicas on other brokers (replica id >= 0) read up to the log end. The offset that they ask for shows how
            far they have come. From version 11 on a consumer may read from a follower, up to that follower's high
            watermark. Where replica.selector.class selects by rack, the leader names the replica to read from.
Versions    4 isolation level; 5 log start offset; 6; 7 sessions; 8; 9 current leader epoch (KIP-320); 10 zstd; 11 rack
            (KIP-392); 12 flexible, last fetched epoch (KIP-595); 13 topic ids (KIP-516); 14; 15 replica state
            (KIP-903); 16 node endpoints (KIP-951); 17 directory id; 18 high watermark of the replica.
Not supported  Versions 0-3 (old record formats): Apache Kafka 4 dropped them too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from kavka.broker.api.endpoints import addresses_of
from kavka.broker.api.records.current_leader import leader_of
from kavka.broker.api.records.may_follow import may_follow
from kavka.broker.reads.fetch_session import FetchContext
from kavka.errors import NO_ERROR, ErrorCode, RequestError
from kavka.model import NO_TOPIC_ID, BrokerId, TopicPartition, new_tuple
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.fetch_response import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kavka.replication.decide.fetching import FetchOutcome, FetchParams, FetchSpec
from kavka.replication.decide.replica import NO_BROKER_EPOCH
from kavka.replication.purgatory import DelayedOperation
from kavka.replication.traffic import TopicTraffic
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

if TYPE_CHECKING:
    from kavka.broker.api.records.ports import RecordsBroker
    from kavka.broker.authorization.authorization import Caller
    from kavka.protocol.connection import Request

_NOT_HERE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_READ_COMMITTED = 1
_FIRST_VERSION_FROM_FOLLOWERS = 11
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_FIRST_FLEXIBLE_VERSION = 12
_FIRST_VERSION_WITH_LEADERS = 16
"""KIP-951. The field is there since 12, for Kafka's own quorum."""
_SIZES = ((18, 6, 50), (16, 3, 40))
"""Bytes of an answer, of each topic without its name, of each partition without its records; in flexible versions."""


def handle(broker: RecordsBroker, request: Request, message: FetchRequest) -> FetchResponse | Awaitable[FetchResponse]:
    by_topic_id = request.header.api_version >= _FIRST_VERSION_WITH_TOPIC_IDS
    replica = message.replica_state
    replica_id = message.replica_id if replica is None else replica.replica_id
    is_exempt = replica_id >= 0 and may_follow(broker, request)
    broker_epoch = NO_BROKER_EPOCH if replica is None else replica.replica_epoch
    try:
        context = broker.fetch_sessions.context(
            message.session_id,
            message.session_epoch,
            [_spec(topic, partition) for topic in message.topics for partition in topic.partitions],
            [
                (topic.topic_id.int or topic.topic, index)
                for topic in message.forgotten_topics_data
                for index in topic.partitions
            ],
            broker.replicas.now_ms(),
            by_topic_id=by_topic_id,
            is_follower=is_exempt,
            asked_as=(replica_id, broker_epoch) if replica_id >= 0 else None,
            principal=request.context.principal,
        )
    except RequestError as error:
        return FetchResponse(error_code=error.code)
    specs: Sequence[FetchSpec] = context.specs
    refused: Sequence[FetchOutcome] = ()
    if by_topic_id:
        specs, refused = _resolve(broker, context)
    if broker.authorization is not None:
        caller = broker.authorization.caller(request)
        specs, denied = _ask(caller, specs, to_follower=replica_id >= 0)
        refused = [*refused, *denied, *_idle_denied(caller, context)]
    max_bytes = min(message.max_bytes, broker.config.fetch_max_bytes)
    if request.meter is not None and replica_id < 0:
        max_bytes = min(max_bytes, request.meter.most_bytes())
    params = FetchParams(
        message.max_wait_ms if not refused else 0,
        min(message.min_bytes, max_bytes),
        max_bytes,
        message.isolation_level == _READ_COMMITTED,
        request.header.api_version < _FIRST_VERSION_FROM_FOLLOWERS,
        message.rack_id,
    )
    if replica_id >= 0:
        outcomes = broker.replicas.fetch_as_follower(params, specs, BrokerId(replica_id), broker_epoch, context.idle)
    else:
        broker.connected_clients.read(request, context.session_id, specs)
        outcomes = broker.replicas.fetch(params, specs)
    if isinstance(outcomes, DelayedOperation):
        return _await_outcomes(broker, request, context, outcomes, to_follower=replica_id >= 0, is_exempt=is_exempt)
    found = [*outcomes, *refused] if refused else outcomes
    return _response(broker, request, context, found, to_follower=replica_id >= 0, is_exempt=is_exempt)


def _spec(topic: FetchTopic, partition: FetchPartition) -> FetchSpec:
    return new_tuple(
        FetchSpec,
        (
            new_tuple(TopicPartition, (topic.topic, partition.partition)),
            topic.topic_id,
            partition.fetch_offset,
            partition.partition_max_bytes,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
        ),
    )


def _resolve(broker: RecordsBroker, context: FetchContext) -> tuple[Sequence[FetchSpec], list[FetchOutcome]]:
    """Finds the topics' names by their ids; ids that are unknown here are answered so. A session keeps what was found:
    it names thousands of partitions in each fetch, and topics come and go seldom."""
    session, version = context.session, broker.metadata.topics_version
    if session is not None and session.resolved_at == version:
        return context.specs, []
    resolved, refused = [], []
    all_are_known = True
    for spec in context.specs:
        name = broker.metadata.topic_name(spec.topic_id)
        if name is None:
            # A follower may hear of a new topic, and fetch from here, before this broker hears of it by UpdateMetadata.
            name, all_are_known = broker.replicas.topic_name(spec.topic_id), False
        if name is None:
            refused.append(FetchOutcome(spec, ErrorCode.UNKNOWN_TOPIC_ID))
        elif name == spec.topic_partition.topic:
            resolved.append(spec)
        else:
            resolved.append(spec._replace(topic_partition=TopicPartition(name, spec.topic_partition.partition)))
    if session is not None and all_are_known:
        session.keep_resolved(resolved, version)
    return resolved, refused


def _ask(
    caller: Caller, specs: Sequence[FetchSpec], *, to_follower: bool
) -> tuple[Sequence[FetchSpec], list[FetchOutcome]]:
    """What the caller may read, and the refusals of the rest. It is asked with every fetch of a session: what it names
    may have been allowed before. Followers need a right on the cluster."""
    if to_follower:
        allowed = None if caller.may_on_cluster(Operation.CLUSTER_ACTION) else set[str]()
    else:
        names = {spec.topic_partition.topic for spec in specs}
        allowed = caller.allowed(Operation.READ, ResourceType.TOPIC, names)
    if allowed is None:
        return specs, []
    denied = [
        FetchOutcome(spec, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for spec in specs
        if spec.topic_partition.topic not in allowed
    ]
    return [spec for spec in specs if spec.topic_partition.topic in allowed], denied


def _idle_denied(caller: Caller, context: FetchContext) -> list[FetchOutcome]:
    """The refusals of a follower's idle partitions. It may follow all partitions or none."""
    idle = context.idle
    if not idle or caller.may_on_cluster(Operation.CLUSTER_ACTION):
        return []
    specs = list(idle.specs())
    idle.wake_all()
    return [FetchOutcome(spec, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for spec in specs]


def _ask_again(caller: Caller, outcomes: Sequence[FetchOutcome], *, to_follower: bool) -> list[FetchOutcome]:
    """What was read while the request waited, without what the caller may not read any more."""
    _, denied = _ask(caller, [outcome.spec for outcome in outcomes], to_follower=to_follower)
    refused = {each.spec.topic_partition: each for each in denied}
    return [refused.get(outcome.spec.topic_partition, outcome) for outcome in outcomes]


async def _await_outcomes(
    broker: RecordsBroker,
    request: Request,
    context: FetchContext,
    waiting: DelayedOperation[list[FetchOutcome]],
    *,
    to_follower: bool,
    is_exempt: bool,
) -> FetchResponse:
    request.context.hold(waiting.answer)
    authorization = broker.authorization
    generation = None if authorization is None else authorization.authorizer.generation
    try:
        outcomes: Sequence[FetchOutcome] = await waiting.answer
        if authorization is not None and generation != authorization.authorizer.generation:
            # The right may be gone. Kafka sends what was asked for with it.
            caller = authorization.caller(request)
            outcomes = [*_ask_again(caller, outcomes, to_follower=to_follower), *_idle_denied(caller, context)]
            is_exempt = to_follower and may_follow(broker, request)
        return _response(broker, request, context, outcomes, to_follower=to_follower, is_exempt=is_exempt)
    except asyncio.CancelledError:
        # The client is gone; its fetch might have waited for days.
        broker.replicas.cancel_fetch(waiting)
        raise
    finally:
        request.context.release(waiting.answer)


def _count(traffic: TopicTraffic, outcome: FetchOutcome, *, to_follower: bool) -> None:
    """Counts what leaves: a fetch that waited was read more than once."""
    traffic.fetches += 1
    if outcome.error is not NO_ERROR:
        traffic.failed_fetches += 1
    elif to_follower:
        traffic.replication_bytes_out += outcome.size_bytes
    else:
        traffic.bytes_out += outcome.size_bytes


def _size_of(outcomes: Sequence[FetchOutcome], version: int, *, everything: bool) -> int:
    """The bytes of the answer, to within a few of each partition; for a client's quota."""
    head, topic_bytes, partition_bytes = _SIZES[version >= _FIRST_FLEXIBLE_VERSION]
    size, topics = head, set()
    for outcome in outcomes:
        if everything or outcome.size_bytes or outcome.error is not NO_ERROR:
            size += outcome.size_bytes + partition_bytes
            topics.add(outcome.spec.topic_partition.topic)
    for topic in topics:
        size += topic_bytes + (16 if version >= _FIRST_VERSION_WITH_TOPIC_IDS else len(topic))
    return size


def _response(
    broker: RecordsBroker,
    request: Request,
    context: FetchContext,
    outcomes: Sequence[FetchOutcome],
    *,
    to_follower: bool,
    is_exempt: bool,
) -> FetchResponse:
    version = request.header.api_version
    if request.meter is not None:
        if is_exempt:
            request.meter.fetched_by_follower()
        elif delay_ms := request.meter.fetched(_size_of(outcomes, version, everything=context.everything)):
            # Nothing of it counts as sent: a session stays as it is, and one that would have begun does not.
            return FetchResponse(session_id=broker.fetch_sessions.withhold(context), throttle_time_ms=delay_ms)
    topics: dict[tuple[str, object], FetchableTopicResponse] = {}
    leaders = set()
    for outcome in context.worth_sending(outcomes):
        spec = outcome.spec
        name, index = spec.topic_partition
        if outcome.error not in _NOT_HERE:  # Else any client could make counters for topics that do not exist.
            _count(broker.replicas.traffic.of(name), outcome, to_follower=to_follower)
        if request.trace is not None and outcome.size_bytes and not to_follower:
            request.trace.sent(name, index, spec.fetch_offset)
        key = (name, spec.topic_id)
        topic = topics.get(key)
        if topic is None:
            topic_id = spec.topic_id if version >= _FIRST_VERSION_WITH_TOPIC_IDS else NO_TOPIC_ID
            topic = topics[key] = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=[])
        data = _partition_data(outcome)
        if version >= _FIRST_VERSION_WITH_LEADERS and outcome.error in _MOVED:
            leader = leader_of(broker, name, index)
            data.current_leader = LeaderIdAndEpoch(leader_id=leader.leader, leader_epoch=leader.leader_epoch)
            leaders.add(leader.leader)
        topic.partitions.append(data)
    if to_follower and context.idle is not None:
        broker.replicas.followers.rest(context.idle, outcomes)
    response = FetchResponse(session_id=context.session_id, responses=list(topics.values()))
    if leaders and not to_follower:
        response.node_endpoints = [
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in addresses_of(broker.metadata, request, leaders)
        ]
    return response


def _partition_data(outcome: FetchOutcome) -> PartitionData:
    data = PartitionData(
        partition_index=outcome.spec.topic_partition.partition,
        error_code=outcome.error,
        high_watermark=outcome.high_watermark,
        last_stable_offset=outcome.last_stable_offset,
        log_start_offset=outcome.log_start_offset,
        records=list(outcome.chunks),
        # Null, except for partitions that were not read: Kafka sends an empty list for those.
        aborted_transactions=[] if outcome.error in _NOT_HERE else None,
    )
    if outcome.aborted_transactions is not None:
        data.aborted_transactions = _aborted(outcome)
    if outcome.preferred_read_replica >= 0:
        data.preferred_read_replica = outcome.preferred_read_replica
    if outcome.diverging_epoch is not None:
        data.diverging_epoch = EpochEndOffset(
            epoch=outcome.diverging_epoch.leader_epoch, end_offset=outcome.diverging_epoch.end_offset
        )
    return data


def _aborted(outcome: FetchOutcome) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in outcome.aborted_transactions or ()
    ]
