"""Produce (key 0): appends record batches to partitions that this broker leads.

Behaviour   The checks, in this order: the topic and the partition exist; the request has a batch of magic 2 for the
            partition; acks is -1, 0 or 1; only Kafka's own tools write to internal topics; this broker leads; acks=all
            finds min.insync.replicas; there is exactly one batch, every record in it is valid, and it is not larger
            than max.message.bytes (kavka.records.validation). Each partition has its own answer.
            A batch of a transaction in a request without a transactional id has all of the request refused.
            A topic that is named by its id is that one: between a deletion and the making of another topic under its
            name, what this broker has and what it knows of the cluster may be of different topics.
            acks=0 gets no answer. Where one of its partitions fails, the broker closes the connection, so that the
            client looks for the leader again. acks=all waits in the purgatory until the high watermark has passed the
            records. Before a batch begins a transaction in its partition, the broker asks the transaction's coordinator
            whether the transaction is open there (KIP-890).
Versions    0-2 advertised, refused (see ApiVersions); 3 transactional id; 4; 5 log start offset; 6; 7 zstd; 8 which
            records are refused and why (KIP-467); 9 flexible; 10 the current leader where it is another broker
            (KIP-951); 11 TRANSACTION_ABORTABLE; 12 the first batch adds its partition to the transaction (KIP-890 part
            2); 13 topic ids (KIP-516).
Not supported  Records of magic 0 and 1: Apache Kafka 4 dropped them too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from kavka.broker.api.endpoints import addresses_of
from kavka.broker.api.records.current_leader import leader_of
from kavka.broker.decisions.produce_waits import NS_PER_S, Asked, Wait, observed, what_was_waited_for
from kavka.broker.metadata.metadata_cache import INTERNAL_TOPICS
from kavka.broker.transactions.produce import Unverified, unverified_batches, verify
from kavka.errors import NO_ERROR, ErrorCode, RecordsError
from kavka.model import TopicPartition
from kavka.protocol.connection import CLOSE_CONNECTION, NO_RESPONSE, Response
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest
from kavka.protocol.messages.produce_response import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from kavka.records.batch import CRC_START, HEADER_SIZE, MAGIC, MAGIC_OFFSET, TRANSACTIONAL_FLAG
from kavka.records.validation import check_produce_version, single_batch
from kavka.replication.decide.partition import ACKS_ALL
from kavka.replication.delayed_requests import AppendOutcome

if TYPE_CHECKING:
    import uuid

    from kavka.broker.api.records.ports import RecordsBroker
    from kavka.protocol.connection import Request

_ADMIN_CLIENT_ID = "__admin_client"
"""Kafka's own tools write to internal topics under this client id."""
_ACKS = (-1, 0, 1)
_FIRST_VERSION_WITH_TOPIC_IDS = 13
_NOTHING: Mapping[TopicPartition, AppendOutcome] = {}
_LOW_ATTRIBUTES_OFFSET = CRC_START + 1
"""The attributes are two bytes; all flags are in the second."""
_MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_NO_TRANSACTIONAL_ID = "a batch is part of a transaction, and the request has no transactional id"


def handle(
    broker: RecordsBroker, request: Request, message: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse | Response] | Response:
    if message.transactional_id is not None:
        before = request.context.turn
        version = request.header.api_version
        if (before is not None and not before.done()) or _unverified(broker, message, version):
            return _append_in_turn(broker, request, message, before, _next_turn(request))
    elif _has_transactional(message):
        return _refuse_all(message, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _NO_TRANSACTIONAL_ID)
    return _append_all(broker, request, message, _NOTHING)


def _has_transactional(message: ProduceRequest) -> bool:
    for topic in message.topic_data:
        for data in topic.partition_data:
            records = data.records
            if isinstance(records, memoryview) and _is_transactional(records):
                return True
    return False


def _refuse_all(message: ProduceRequest, error: ErrorCode, why: str) -> ProduceResponse | Response:
    if message.acks == 0:
        return CLOSE_CONNECTION
    outcome = AppendOutcome(error, message=why)
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[_refusal(data.index, outcome) for data in topic.partition_data],
            )
            for topic in message.topic_data
        ]
    )


def _unverified(broker: RecordsBroker, message: ProduceRequest, version: int) -> Sequence[Unverified]:
    return unverified_batches(broker.metadata, broker.replicas, message, version, broker.wall_ms())


def _next_turn(request: Request) -> asyncio.Future[None]:
    """Requests of the connection that come from now on wait until it is done. Taken before anything is awaited."""
    turn = request.context.turn = asyncio.get_running_loop().create_future()
    return turn


async def _append_in_turn(
    broker: RecordsBroker,
    request: Request,
    message: ProduceRequest,
    before: asyncio.Future[None] | None,
    turn: asyncio.Future[None],
) -> ProduceResponse | Response:
    """Appends when it is known which batches are part of the transaction.

    Later transactional requests of the connection wait for that: a producer has several batches of a partition in
    flight, and the second one would be out of order while the first one is verified.
    """
    assert message.transactional_id is not None
    version = request.header.api_version
    try:
        if before is not None:
            await asyncio.wait((before,))
        refused = _NOTHING
        unverified = _unverified(broker, message, version)
        if unverified:
            refused = await verify(broker.verification, message.transactional_id, unverified, version)
        result = _append_all(broker, request, message, refused)
    finally:
        turn.set_result(None)
    return result if isinstance(result, ProduceResponse | Response) else await result


def _append_all(
    broker: RecordsBroker, request: Request, message: ProduceRequest, refused: Mapping[TopicPartition, AppendOutcome]
) -> ProduceResponse | Awaitable[ProduceResponse] | Response:
    """Appends to all partitions but those that are `refused`, with what they are answered."""
    version = request.header.api_version
    acks = message.acks
    wall_ms = broker.wall_ms()
    pending: list[tuple[str, PartitionProduceResponse, AppendOutcome]] = []
    flushing: list[tuple[PartitionProduceResponse, AppendOutcome]] = []
    failed = False
    topics = []
    for topic in message.topic_data:
        name: str | None = topic.name
        topic_id = topic.topic_id if version >= _FIRST_VERSION_WITH_TOPIC_IDS else None
        if topic_id is not None:
            name = broker.metadata.topic_name(topic_id)
        answers = []
        for data in topic.partition_data:
            if refused and name is not None and (name, data.index) in refused:
                outcome = refused[TopicPartition(name, data.index)]
            else:
                outcome = _append(broker, request, message, name, topic_id, data, wall_ms)
                if request.trace is not None and outcome.error is NO_ERROR and name is not None:
                    request.trace.appended(name, data.index, outcome.base_offset, outcome.committed_at)
                    if isinstance(data.records, memoryview):
                        request.trace.carried(data.records)
            answer = _answer(broker, request, name, data.index, outcome)
            if outcome.error is not NO_ERROR:
                failed = True
            elif acks == ACKS_ALL and name is not None and not broker.replicas.is_committed(name, data.index, outcome):
                pending.append((name, answer, outcome))
            if outcome.flush is not None:
                flushing.append((answer, outcome))
            answers.append(answer)
        topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if acks == 0:
        if flushing:
            broker.spawn(_flush(broker, flushing))
        return CLOSE_CONNECTION if failed else NO_RESPONSE
    response = ProduceResponse(responses=topics)
    if version >= 10 and failed:
        _add_endpoints(broker, request, response)
    if pending or flushing:
        asked = Asked(request.context, request.header.correlation_id, request.trace)
        return _await(broker, asked, response, pending, flushing, message.timeout_ms)
    return response


def _append(  # noqa: PLR0913 - called for every partition of every request: no value is made for its arguments
    broker: RecordsBroker,
    request: Request,
    message: ProduceRequest,
    topic: str | None,
    topic_id: uuid.UUID | None,
    data: PartitionProduceData,
    wall_ms: int,
) -> AppendOutcome:
    if topic is None:
        return AppendOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
    records = data.records
    if not isinstance(records, memoryview) or not len(records) or message.acks not in _ACKS:
        if broker.replicas.partition(topic, data.index) is None:
            return AppendOutcome(broker.replicas.absence(topic, data.index))
        if not records:
            return AppendOutcome(ErrorCode.INVALID_RECORD, message="no record batch for the partition")
        return AppendOutcome(ErrorCode.INVALID_REQUIRED_ACKS)
    try:
        check_produce_version(records, request.header.api_version)
        if topic in INTERNAL_TOPICS and request.header.client_id != _ADMIN_CLIENT_ID:
            single_batch(records)
            return AppendOutcome(ErrorCode.INVALID_TOPIC_EXCEPTION)
    except RecordsError as refused:
        if broker.replicas.partition(topic, data.index) is None:
            absent = broker.replicas.absence(topic, data.index)
            if absent is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return AppendOutcome(absent)
        return AppendOutcome(refused.code, message=refused.message)
    outcome = broker.replicas.append(
        topic, data.index, records, required_acks=message.acks, wall_ms=wall_ms, topic_id=topic_id
    )
    if outcome.error is NO_ERROR:
        broker.connected_clients.wrote(request, topic, data.index, records, wall_ms)
    return outcome


def _is_transactional(records: memoryview) -> bool:
    return (
        len(records) >= HEADER_SIZE
        and records[MAGIC_OFFSET] == MAGIC
        and bool(records[_LOW_ATTRIBUTES_OFFSET] & TRANSACTIONAL_FLAG)
    )


def _answer(
    broker: RecordsBroker, request: Request, topic: str | None, index: int, outcome: AppendOutcome
) -> PartitionProduceResponse:
    if outcome.error is NO_ERROR:
        return PartitionProduceResponse(
            index=index,
            error_code=0,
            base_offset=outcome.base_offset,
            log_append_time_ms=outcome.log_append_time_ms,
            log_start_offset=outcome.log_start_offset,
        )
    answer = _refusal(index, outcome)
    if outcome.bad_records:
        answer.record_errors = [
            BatchIndexAndErrorMessage(batch_index=bad.record_index, batch_index_error_message=bad.message)
            for bad in outcome.bad_records
        ]
    if outcome.error in _MOVED and topic is not None:
        leader = leader_of(broker, topic, index)
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader.leader, leader_epoch=leader.leader_epoch)
    return answer


def _refusal(index: int, outcome: AppendOutcome) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=outcome.error,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=outcome.log_start_offset,
        error_message=outcome.message,
    )


def _add_endpoints(broker: RecordsBroker, request: Request, response: ProduceResponse) -> None:
    """Adds the addresses of the current leaders that the answer names (KIP-951)."""
    leaders = {
        answer.current_leader.leader_id
        for topic in response.responses
        for answer in topic.partition_responses
        if answer.current_leader is not None
    }
    response.node_endpoints = [
        NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
        for node in addresses_of(broker.metadata, request, leaders)
    ]


async def _await(
    broker: RecordsBroker,
    asked: Asked,
    response: ProduceResponse,
    pending: list[tuple[str, PartitionProduceResponse, AppendOutcome]],
    flushing: list[tuple[PartitionProduceResponse, AppendOutcome]],
    timeout_ms: int,
) -> ProduceResponse:
    """The response, once what it acknowledges is committed, and on the disk where flush.messages asks for it."""
    replicas, loop = broker.replicas, asyncio.get_running_loop()
    began = loop.time()
    with observed(replicas, asked.trace, _waits(pending)) if asked.trace is not None else nullcontext():
        flush_s = 0.0
        if flushing:
            flush_s, _ = await asyncio.gather(_timed_flush(broker, flushing), _commit(broker, pending, timeout_ms))
        else:
            await _commit(broker, pending, timeout_ms)
    watch = asked.context.watch
    if asked.trace is not None:
        asked.trace.committed(what_was_waited_for(replicas, _waits(pending), flush_s))
    elif watch is not None and (loop.time() - began) * NS_PER_S >= watch.slow_ns // 2:
        watch.waited(asked.context, asked.correlation_id, what_was_waited_for(replicas, _waits(pending), flush_s))
    return response


def _waits(pending: list[tuple[str, PartitionProduceResponse, AppendOutcome]]) -> list[Wait]:
    return [Wait(topic, answer.index, outcome.base_offset, outcome.committed_at) for topic, answer, outcome in pending]


async def _timed_flush(broker: RecordsBroker, flushing: list[tuple[PartitionProduceResponse, AppendOutcome]]) -> float:
    """Returns for how many seconds the disk was waited for."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await _flush(broker, flushing)
    return loop.time() - began


async def _commit(
    broker: RecordsBroker, pending: list[tuple[str, PartitionProduceResponse, AppendOutcome]], timeout_ms: int
) -> None:
    # All begin to wait now, each with the whole time-out; a task for each would be a turn of the loop more each way.
    waiting = [
        broker.replicas.when_committed(topic, answer.index, outcome, timeout_ms) for topic, answer, outcome in pending
    ]
    for (_topic, answer, _before), committed in zip(pending, waiting, strict=True):
        outcome = committed if isinstance(committed, AppendOutcome) else await committed
        if outcome.error is not NO_ERROR:
            _fail(answer, outcome.error, outcome.message)


async def _flush(broker: RecordsBroker, flushing: list[tuple[PartitionProduceResponse, AppendOutcome]]) -> None:
    for answer, outcome in flushing:
        assert outcome.flush is not None
        if not await broker.flushes.flush(outcome.flush, outcome.committed_at):
            _fail(answer, ErrorCode.KAFKA_STORAGE_ERROR, None)


def _fail(answer: PartitionProduceResponse, error: ErrorCode, message: str | None) -> None:
    answer.error_code = error
    answer.base_offset = -1
    answer.error_message = message
