"""AllocateProducerIdsRequest: request, API key 67, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32, int64


class AllocateProducerIdsRequest(Message, kind="request", versions="0", flexible="0+", api_key=67):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
