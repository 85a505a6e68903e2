"""SnapshotFooterRecord: stored value, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16


class SnapshotFooterRecord(Message, kind="data", versions="0", flexible="0+"):
    version: int = int16("0+", default=0)
