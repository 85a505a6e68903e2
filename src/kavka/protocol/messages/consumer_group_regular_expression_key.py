"""ConsumerGroupRegularExpressionKey: coordinator's key, record type 16, version 16, never flexible.

Apache Kafka 4.3.1: 16.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ConsumerGroupRegularExpressionKey(Message, kind="coordinator-key", versions="16", api_key=16):
    group_id: str = string("16+", default="")
    regular_expression: str = string("16+", default="")
