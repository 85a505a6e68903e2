"""AddOffsetsToTxnRequest: request, API key 25, versions 0-4, flexible from 3.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int64, string


class AddOffsetsToTxnRequest(Message, kind="request", versions="0-4", flexible="3+", api_key=25):
    transactional_id: str = string("0+", default="")
    producer_id: int = int64("0+", default=0)
    producer_epoch: int = int16("0+", default=0)
    group_id: str = string("0+", default="")
