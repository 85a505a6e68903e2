"""InitProducerIdRequest: request, API key 22, versions 0-6, flexible from 2.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, kind="request", versions="0-6", flexible="2+", api_key=22):
    transactional_id: str | None = string("0+", nullable="0+", default="")
    transaction_timeout_ms: int = int32("0+", default=0)
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+", default=False)
    keep_prepared_txn: bool = boolean("6+", default=False)
