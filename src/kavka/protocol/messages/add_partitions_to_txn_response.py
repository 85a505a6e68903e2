"""AddPartitionsToTxnResponse: response, API key 24, versions 0-5, flexible from 3.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32("0+", default=0)
    partition_error_code: int = int16("0+", default=0)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string("0+", default="")
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult, "0+", default_factory=list
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "4+", default_factory=list
    )


class AddPartitionsToTxnResponse(Message, kind="response", versions="0-5", flexible="3+", api_key=24):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+", default_factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3", default_factory=list
    )
