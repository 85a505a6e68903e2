"""OffsetCommitKey: coordinator's key, record type 1, versions 0-1, never flexible.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 1.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32, string


class OffsetCommitKey(Message, kind="coordinator-key", versions="0-1", api_key=1):
    group: str = string("0+", default="")
    topic: str = string("0+", default="")
    partition: int = int32("0+", default=0)
