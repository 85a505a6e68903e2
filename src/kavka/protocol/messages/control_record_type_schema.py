"""ControlRecordTypeSchema: stored value, version 0, never flexible.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16


class ControlRecordTypeSchema(Message, kind="data", versions="0"):
    type: int = int16("0+", default=0)
