"""ConsumerGroupMetadataKey: coordinator's key, record type 3, version 3, never flexible.

Apache Kafka 3.9.2: 3; Apache Kafka 4.3.1: 3.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ConsumerGroupMetadataKey(Message, kind="coordinator-key", versions="3", api_key=3):
    group_id: str = string("3+", default="")
