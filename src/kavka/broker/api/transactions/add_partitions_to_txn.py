"""AddPartitionsToTxn (key 24): partitions that a producer is going to write to in its transaction.

Behaviour   The broker adds all partitions or none: where one is unknown it is UNKNOWN_TOPIC_OR_PARTITION, and the
            others are OPERATION_NOT_ATTEMPTED. The transaction begins with its first partition. A producer whose
            partitions were all refused may abort all the same (`coordinator.transactions.decide.shard`, I4).
Versions    0; 1; 2 PRODUCER_FENCED; 3 flexible; 4 from brokers, many transactions at once, and verification without
            adding (KIP-890); 5 TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kavka.broker.api.transactions.known_errors import known_to
from kavka.coordinator.transactions.decide.state import BUMPS_EPOCH, ProducerIdAndEpoch
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kavka.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_FOR_BROKERS = 4

_Errors = Mapping[TopicPartition, ErrorCode]


def handle(
    broker: TransactionsBroker, request: Request, message: AddPartitionsToTxnRequest
) -> Awaitable[AddPartitionsToTxnResponse]:
    version = request.header.api_version
    if version < _FIRST_VERSION_FOR_BROKERS:
        return _add_one(broker, message, version)
    return _add_all(broker, message.transactions)


async def _add_one(
    broker: TransactionsBroker, message: AddPartitionsToTxnRequest, version: int
) -> AddPartitionsToTxnResponse:
    producer = ProducerIdAndEpoch(message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
    partitions = _partitions(message.v3_and_below_topics)
    transactional_id = message.v3_and_below_transactional_id
    errors = _unknown(broker, partitions)
    if errors:
        broker.transactions.on_begun(transactional_id, producer)
    else:
        errors = dict.fromkeys(partitions, await _add(broker, transactional_id, producer, partitions, version=0))
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=_results(message.v3_and_below_topics, errors, version)
    )


async def _add_all(
    broker: TransactionsBroker, transactions: Sequence[AddPartitionsToTxnTransaction]
) -> AddPartitionsToTxnResponse:
    found = await asyncio.gather(*(_errors(broker, transaction) for transaction in transactions))
    return AddPartitionsToTxnResponse(
        error_code=ErrorCode.NONE,
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_results(transaction.topics, errors, _FIRST_VERSION_FOR_BROKERS),
            )
            for transaction, errors in zip(transactions, found, strict=True)
        ],
    )


async def _errors(broker: TransactionsBroker, transaction: AddPartitionsToTxnTransaction) -> _Errors:
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    partitions = _partitions(transaction.topics)
    errors = _unknown(broker, partitions)
    if errors:
        return errors
    if not transaction.verify_only:
        added = await _add(broker, transaction.transactional_id, producer, partitions, version=BUMPS_EPOCH)
        return dict.fromkeys(partitions, added)
    try:
        return broker.transactions.verify(transaction.transactional_id, producer, partitions)
    except RequestError as refused:
        return dict.fromkeys(partitions, refused.code)


async def _add(
    broker: TransactionsBroker,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Sequence[TopicPartition],
    *,
    version: int,
) -> ErrorCode:
    try:
        await broker.transactions.add_partitions(transactional_id, producer, partitions, version=version)
    except RequestError as refused:
        return refused.code
    return ErrorCode.NONE


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return list(dict.fromkeys(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions))


def _unknown(broker: TransactionsBroker, partitions: Iterable[TopicPartition]) -> _Errors:
    """Empty if all partitions are known. Otherwise an error for each."""
    errors = {
        partition: ErrorCode.OPERATION_NOT_ATTEMPTED
        if broker.metadata.partition(*partition) is not None
        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in partitions
    }
    return errors if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in errors.values() else {}


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], errors: _Errors, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=known_to(version, errors[TopicPartition(topic.name, index)]),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
