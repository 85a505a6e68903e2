"""TxnOffsetCommit (key 28): a group's offsets as part of a producer's transaction.

Behaviour   The broker stores the offsets in `__consumer_offsets` before the answer goes out. They take effect when the
            transaction is committed. Before the first ones, the broker asks the transaction's coordinator whether the
            group's partition is part of the transaction (KIP-890); with version 5 the question also adds it.
Versions    0; 1; 2 leader epoch, and COORDINATOR_LOAD_IN_PROGRESS, where older ones get COORDINATOR_NOT_AVAILABLE;
            3 flexible, and who commits (KIP-447); 4 TRANSACTION_ABORTABLE; 5 the group need not be added before
            (KIP-890 part 2).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.groups.partition_answers import PartitionAnswers
from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC
from kavka.broker.transactions.verification import Beginning
from kavka.coordinator.groups.offsets.decide.commits import CommitRequest, OffsetToCommit
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest
from kavka.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kavka.records.batch import NO_SEQUENCE

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_WITH_LOADING = 2
"""Producers from before Kafka 2.0 end with an error that they do not expect (KAFKA-7296)."""
_FIRST_VERSION_WITH_ABORTABLE = 4
_FIRST_VERSION_THAT_ADDS = 5


def handle(
    broker: TransactionsBroker, request: Request, message: TxnOffsetCommitRequest
) -> Awaitable[TxnOffsetCommitResponse]:
    return _commit(broker, message, request.header.api_version)


async def _commit(broker: TransactionsBroker, message: TxnOffsetCommitRequest, version: int) -> TxnOffsetCommitResponse:
    answers = PartitionAnswers(broker.metadata, TxnOffsetCommitResponsePartition)
    topics = [
        TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers.of_topic(topic.name, topic.partitions))
        for topic in message.topics
        if topic.partitions
    ]
    if answers.accepted:
        errors = await _errors(broker, message, answers.offsets(), version)
        answers.fill_in([_known_to(version, error) for error in errors])
    return TxnOffsetCommitResponse(topics=topics)


async def _errors(
    broker: TransactionsBroker, message: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], version: int
) -> list[ErrorCode]:
    try:
        error = await _open(broker, message, version)
        if error is not ErrorCode.NONE:
            return [error] * len(offsets)
        return await broker.groups.offsets.commit_transactional(
            CommitRequest(
                message.group_id, message.member_id, message.group_instance_id, message.generation_id, offsets
            ),
            message.producer_id,
            message.producer_epoch,
        )
    except RequestError as refused:
        return [refused.code] * len(offsets)


async def _open(broker: TransactionsBroker, message: TxnOffsetCommitRequest, version: int) -> ErrorCode:
    """NONE once the group's partition is known to be part of the transaction."""
    if not message.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID)
    index = broker.groups.partition_for(message.group_id)
    partition = broker.replicas.partition(GROUP_METADATA_TOPIC, index)
    if partition is None or not partition.is_leader:
        raise RequestError(ErrorCode.NOT_COORDINATOR)
    asked = TopicPartition(GROUP_METADATA_TOPIC, index)
    errors = await broker.verification.open(
        message.transactional_id,
        ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
        [Beginning(asked, partition.log, NO_SEQUENCE)],
        add=version >= _FIRST_VERSION_THAT_ADDS,
    )
    error = errors[asked]
    match error:
        case ErrorCode.TRANSACTION_ABORTABLE if version < _FIRST_VERSION_WITH_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.NETWORK_EXCEPTION:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        case ErrorCode.COORDINATOR_NOT_AVAILABLE | ErrorCode.NOT_COORDINATOR:
            # Of this coordinator, the group's, nothing is wrong: the client must not look for another one.
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error


def _known_to(version: int, error: ErrorCode) -> ErrorCode:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_VERSION_WITH_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
