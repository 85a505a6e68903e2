"""LegacyOffsetCommitValue: coordinator's value, record type 0, version 0, never flexible.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int64, string


class LegacyOffsetCommitValue(Message, kind="coordinator-value", versions="0", api_key=0):
    offset: int = int64("0+", default=0)
    metadata: str = string("0+", default="")
    commit_timestamp: int = int64("0+", default=0)
