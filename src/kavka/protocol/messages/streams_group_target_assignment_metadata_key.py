"""StreamsGroupTargetAssignmentMetadataKey: coordinator's key, record type 20, version 20, never flexible.

Apache Kafka 4.3.1: 20.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class StreamsGroupTargetAssignmentMetadataKey(Message, kind="coordinator-key", versions="20", api_key=20):
    group_id: str = string("20+", default="")
