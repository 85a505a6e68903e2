"""ListTransactionsResponse: response, API key 66, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class TransactionState(Struct):
    transactional_id: str = string("0+", default="")
    producer_id: int = int64("0+", default=0)
    transaction_state: str = string("0+", default="")


class ListTransactionsResponse(Message, kind="response", versions="0-2", flexible="0+", api_key=66):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    unknown_state_filters: list[str] = array("string", "0+", default_factory=list)
    transaction_states: list[TransactionState] = array(TransactionState, "0+", default_factory=list)
