"""StreamsGroupMetadataKey: coordinator's key, record type 17, version 17, never flexible.

Apache Kafka 4.3.1: 17.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class StreamsGroupMetadataKey(Message, kind="coordinator-key", versions="17", api_key=17):
    group_id: str = string("17+", default="")
