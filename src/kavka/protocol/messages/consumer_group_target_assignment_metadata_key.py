"""ConsumerGroupTargetAssignmentMetadataKey: coordinator's key, record type 6, version 6, never flexible.

Apache Kafka 3.9.2: 6; Apache Kafka 4.3.1: 6.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ConsumerGroupTargetAssignmentMetadataKey(Message, kind="coordinator-key", versions="6", api_key=6):
    group_id: str = string("6+", default="")
