"""ConsumerGroupRegularExpressionValue: coordinator's value, record type 16, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, int64


class ConsumerGroupRegularExpressionValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=16):
    topics: list[str] = array("string", "0+", default_factory=list)
    version: int = int64("0+", default=0)
    timestamp: int = int64("0+", default=0)
