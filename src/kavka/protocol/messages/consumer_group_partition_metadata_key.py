"""ConsumerGroupPartitionMetadataKey: coordinator's key, record type 4, version 4, never flexible.

Apache Kafka 3.9.2: 4; Apache Kafka 4.3.1: 4.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ConsumerGroupPartitionMetadataKey(Message, kind="coordinator-key", versions="4", api_key=4):
    group_id: str = string("4+", default="")
