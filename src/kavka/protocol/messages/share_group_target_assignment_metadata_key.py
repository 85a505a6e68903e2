"""ShareGroupTargetAssignmentMetadataKey: coordinator's key, record type 12, version 12, never flexible.

Apache Kafka 4.3.1: 12.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupTargetAssignmentMetadataKey(Message, kind="coordinator-key", versions="12", api_key=12):
    group_id: str = string("12+", default="")
