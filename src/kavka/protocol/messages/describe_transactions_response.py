"""DescribeTransactionsResponse: response, API key 65, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, string


class TopicData(Struct):
    topic: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class TransactionState(Struct):
    error_code: int = int16("0+", default=0)
    transactional_id: str = string("0+", default="")
    transaction_state: str = string("0+", default="")
    transaction_timeout_ms: int = int32("0+", default=0)
    transaction_start_time_ms: int = int64("0+", default=0)
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int16("0+", default=0)
    topics: list[TopicData] = array(TopicData, "0+", default_factory=list)


class DescribeTransactionsResponse(Message, kind="response", versions="0", flexible="0+", api_key=65):
    throttle_time_ms: int = int32("0+", default=0)
    transaction_states: list[TransactionState] = array(TransactionState, "0+", default_factory=list)
