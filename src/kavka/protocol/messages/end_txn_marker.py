"""EndTxnMarker: stored value, version 0, never flexible.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32


class EndTxnMarker(Message, kind="data", versions="0"):
    coordinator_epoch: int = int32("0+", default=0)
