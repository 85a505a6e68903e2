"""ShareGroupMetadataKey: coordinator's key, record type 11, version 11, never flexible.

Apache Kafka 4.3.1: 11.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupMetadataKey(Message, kind="coordinator-key", versions="11", api_key=11):
    group_id: str = string("11+", default="")
