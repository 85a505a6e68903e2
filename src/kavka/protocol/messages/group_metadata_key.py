"""GroupMetadataKey: coordinator's key, record type 2, version 2, never flexible.

Apache Kafka 3.9.2: 2; Apache Kafka 4.3.1: 2.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class GroupMetadataKey(Message, kind="coordinator-key", versions="2", api_key=2):
    group: str = string("2+", default="")
