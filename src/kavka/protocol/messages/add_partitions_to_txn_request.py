"""AddPartitionsToTxnRequest: request, API key 24, versions 0-5, flexible from 3.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int16, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+", default="")
    producer_id: int = int64("4+", default=0)
    producer_epoch: int = int16("4+", default=0)
    verify_only: bool = boolean("4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+", default_factory=list)


class AddPartitionsToTxnRequest(Message, kind="request", versions="0-5", flexible="3+", api_key=24):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+", default_factory=list)
    v3_and_below_transactional_id: str = string("0-3", default="")
    v3_and_below_producer_id: int = int64("0-3", default=0)
    v3_and_below_producer_epoch: int = int16("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3", default_factory=list)
