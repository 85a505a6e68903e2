"""DescribeTransactions (key 65): the state of transactional ids, as their coordinator knows it.

Behaviour   The state of each id, or an error: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
            TRANSACTIONAL_ID_NOT_FOUND.
Versions    0 (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kavka.protocol.messages.describe_transactions_response import (
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request


def handle(
    broker: TransactionsBroker, request: Request, message: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[_describe(broker, transactional_id) for transactional_id in message.transactional_ids]
    )


def _describe(broker: TransactionsBroker, transactional_id: str) -> TransactionState:
    try:
        transaction = broker.transactions.describe(transactional_id)
    except RequestError as refused:
        return TransactionState(error_code=refused.code, transactional_id=transactional_id)
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(index)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[TopicData(topic=name, partitions=indexes) for name, indexes in by_topic.items()],
    )
