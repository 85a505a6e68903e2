"""Records of `__transaction_state`, in Kafka's own formats: one key per transactional id, the last value holds.

    key    version i16 (0), transactional id: TransactionLogKey
    value  version i16, TransactionLogValue; null: the id is forgotten

Value version 0 knows neither the producer ids before and after nor the transaction version; version 1 (flexible) does,
and is written from transaction version 1 on: brokers of 3.9 read both. So is a transaction of version 2 where the level
is 0: only producers that saw level 2 make one, so all brokers read it. Its next coordinator must know which producer id
its end gave, and that its markers have the epoch above that of its records. Apache Kafka refuses such an end.

Source: Kafka's TransactionLog; written so that its dump-log decodes them.
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.coordinator.shared.decide.records import CoordinatorRecord, decode_value, split_version, with_version
from kavka.coordinator.transactions.decide.state import Transaction, TransactionState
from kavka.errors import ProtocolViolation
from kavka.model import TopicPartition
from kavka.protocol.codec import decode, encode
from kavka.protocol.messages.transaction_log_key import TransactionLogKey
from kavka.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

KEY_VERSION = 0
_STORED_STATES = frozenset(TransactionState) - {TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE}


class TransactionRecord(NamedTuple):
    """`transaction` is None if the id was forgotten."""

    transactional_id: str
    transaction: Transaction | None


def transaction_record(transaction: Transaction, *, transaction_version: int) -> CoordinatorRecord:
    """The record of a transaction as it is to be."""
    version = min(max(transaction_version, transaction.version), 1)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id if version else -1,
        next_producer_id=transaction.next_producer_id if version else -1,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if transaction.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.version if version else 0,
    )
    return CoordinatorRecord(_key(transaction.transactional_id), with_version(version, encode(value, version)))


def transaction_tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record after which the id is forgotten."""
    return CoordinatorRecord(_key(transactional_id), None)


def decode_transaction_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """What a record of the log says; None for a kind that this coordinator does not know.

    Raises `ProtocolViolation` for bytes that are no such record.
    """
    version, body = split_version(key)
    if version != KEY_VERSION:
        return None
    transactional_id = decode(TransactionLogKey, body, version).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    stored, _ = decode_value(TransactionLogValue, value)
    if stored.transaction_status not in _STORED_STATES:
        raise ProtocolViolation(f"transactional id {transactional_id!r} is stored in state {stored.transaction_status}")
    partitions = frozenset(
        TopicPartition(topic.topic, partition)
        for topic in stored.transaction_partitions or ()
        for partition in topic.partition_ids
    )
    return TransactionRecord(
        transactional_id,
        Transaction(
            transactional_id,
            stored.producer_id,
            stored.producer_epoch,
            stored.transaction_timeout_ms,
            TransactionState(stored.transaction_status),
            partitions,
            stored.transaction_start_timestamp_ms,
            stored.transaction_last_update_timestamp_ms,
            previous_producer_id=stored.previous_producer_id,
            next_producer_id=stored.next_producer_id,
            version=stored.client_transaction_version,
        ),
    )


def _key(transactional_id: str) -> bytes:
    return with_version(KEY_VERSION, encode(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION))
