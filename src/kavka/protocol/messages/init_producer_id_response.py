"""InitProducerIdResponse: response, API key 22, versions 0-6, flexible from 2.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int32, int64


class InitProducerIdResponse(Message, kind="response", versions="0-6", flexible="2+", api_key=22):
    throttle_time_ms: int = int32("0+", default=0, ignorable=True)
    error_code: int = int16("0+", default=0)
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+", default=0)
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)
