"""LegacyOffsetCommitKey: coordinator's key, record type 0, version 0, never flexible.

Apache Kafka 4.3.1: 0.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32, string


class LegacyOffsetCommitKey(Message, kind="coordinator-key", versions="0", api_key=0):
    group: str = string("0+", default="")
    topic: str = string("0+", default="")
    partition: int = int32("0+", default=0)
