"""EndTxn (key 26): a producer commits or aborts its transaction.

Behaviour   The answer goes out when the outcome is committed in `__transaction_state`; the markers follow. A producer
            that begins the next transaction before all markers are written gets CONCURRENT_TRANSACTIONS, and asks
            again. So does a producer that aborts the next transaction then; once the markers are written, that abort
            succeeds, because the transaction is empty. Apache Kafka answers INVALID_TXN_STATE there before version 5,
            which ends librdkafka's producers; here only a producer that has not asked to add partitions since gets it
            (`coordinator.transactions.decide.shard`, I4).
Versions    0; 1; 2 PRODUCER_FENCED; 3 flexible; 4 TRANSACTION_ABORTABLE; 5 each end raises the epoch (KIP-890 part 2),
            and the answer carries it: for every client that asks in version 5, whatever transaction.version is by now.
            A client that does not know yet that the level was lowered still writes without adding partitions. Only
            another epoch tells its next batch from the transaction that still waits for its markers.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from kavka.broker.api.transactions.known_errors import known_to
from kavka.coordinator.transactions.decide.state import BUMPS_EPOCH, ProducerIdAndEpoch
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.end_txn_request import EndTxnRequest
from kavka.protocol.messages.end_txn_response import EndTxnResponse

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request

_FIRST_VERSION_THAT_BUMPS = 5


def handle(broker: TransactionsBroker, request: Request, message: EndTxnRequest) -> Awaitable[EndTxnResponse]:
    return _end(broker, message, request.header.api_version)


async def _end(broker: TransactionsBroker, message: EndTxnRequest, version: int) -> EndTxnResponse:
    bumps = version >= _FIRST_VERSION_THAT_BUMPS
    try:
        producer = await broker.transactions.end_transaction(
            message.transactional_id,
            ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
            commit=message.committed,
            version=BUMPS_EPOCH if bumps else 0,
        )
    except RequestError as refused:
        return EndTxnResponse(error_code=known_to(version, refused.code))
    if not bumps:
        return EndTxnResponse(error_code=ErrorCode.NONE)
    return EndTxnResponse(error_code=ErrorCode.NONE, producer_id=producer.producer_id, producer_epoch=producer.epoch)
