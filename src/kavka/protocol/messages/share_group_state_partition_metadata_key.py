"""ShareGroupStatePartitionMetadataKey: coordinator's key, record type 15, version 15, never flexible.

Apache Kafka 4.3.1: 15.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupStatePartitionMetadataKey(Message, kind="coordinator-key", versions="15", api_key=15):
    group_id: str = string("15+", default="")
