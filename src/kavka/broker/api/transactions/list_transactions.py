"""ListTransactions (key 66): the transactional ids that this broker coordinates.

Behaviour   Filters narrow the list together. The answer names the states in the filter that do not exist. While a
            partition's log is still being loaded, the answer is COORDINATOR_LOAD_IN_PROGRESS. A pattern has RE2's
            syntax; matching takes linear time, whatever the pattern is.
Versions    0 (KIP-664); 1 longer than a duration (KIP-994); 2 a pattern of ids (KIP-1152), which must match the whole
            id; INVALID_REGULAR_EXPRESSION for one that cannot be parsed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.coordinator.shared.decide.topic_pattern import InvalidPattern, TopicPattern
from kavka.coordinator.transactions.decide.state import Transaction
from kavka.coordinator.transactions.decide.state import TransactionState as State
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.messages.list_transactions_request import ListTransactionsRequest
from kavka.protocol.messages.list_transactions_response import ListTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from kavka.broker.api.transactions.ports import TransactionsBroker
    from kavka.protocol.connection import Request

_TITLES = frozenset(state.title for state in State)


def handle(broker: TransactionsBroker, request: Request, message: ListTransactionsRequest) -> ListTransactionsResponse:
    try:
        wanted = _filter(message, broker.wall_ms())
        found = broker.transactions.transactions() if broker.has_transactions else []
    except RequestError as refused:
        return ListTransactionsResponse(error_code=refused.code)
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[title for title in message.state_filters if title not in _TITLES],
        transaction_states=[
            TransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.title,
            )
            for transaction in found
            if wanted(transaction)
        ],
    )


def _filter(message: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    """Raises `RequestError`: INVALID_REGULAR_EXPRESSION."""
    states, producer_ids = frozenset(message.state_filters), frozenset(message.producer_id_filters)
    longer_than_ms = message.duration_filter
    pattern = None
    if message.transactional_id_pattern:
        try:
            pattern = TopicPattern(message.transactional_id_pattern)
        except InvalidPattern as invalid:
            raise RequestError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(invalid)) from invalid

    def wanted(transaction: Transaction) -> bool:
        return (
            (not producer_ids or transaction.producer_id in producer_ids)
            and (not states or transaction.state.title in states)
            and (longer_than_ms < 0 or now_ms - transaction.started_ms > longer_than_ms)
            and (pattern is None or pattern.matches(transaction.transactional_id))
        )

    return wanted
