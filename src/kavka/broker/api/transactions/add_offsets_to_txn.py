"""AddOffsetsToTxn (key 25): a group whose offsets a producer is going to commit in its transaction.

Behaviour   The partition of `__consumer_offsets` that keeps the group becomes part of the transaction.
Versions    0; 1; 2 PRODUCER_FENCED; 3 flexible; 4 TRANSACTION_ABORTABLE (KIP-890).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.transactions.known_errors import known_to
from kavka.broker.metadata.metadata_cache import GROUP_METADATA_TOPIC
from kavka.coordinator.transactions.decide.state import ProducerIdAndEpoch
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from kavka.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kavka.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: TransactionsBroker, request: Request, message: AddOffsetsToTxnRequest
) -> Awaitable[AddOffsetsToTxnResponse]:
    return _add(broker, message, request.header.api_version)


async def _add(broker: TransactionsBroker, message: AddOffsetsToTxnRequest, version: int) -> AddOffsetsToTxnResponse:
    producer = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    broker.transactions.on_begun(message.transactional_id, producer)
    try:
        await broker.ensure_internal_topic(GROUP_METADATA_TOPIC)
        partition = TopicPartition(GROUP_METADATA_TOPIC, broker.groups.partition_for(message.group_id))
        await broker.transactions.add_partitions(message.transactional_id, producer, [partition], version=0)
    except RequestError as refused:
        return AddOffsetsToTxnResponse(error_code=known_to(version, refused.code))
    return AddOffsetsToTxnResponse(error_code=ErrorCode.NONE)
