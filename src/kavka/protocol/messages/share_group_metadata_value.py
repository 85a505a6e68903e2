"""ShareGroupMetadataValue: coordinator's value, record type 11, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32, int64


class ShareGroupMetadataValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=11):
    epoch: int = int32("0+", default=0)
    metadata_hash: int = int64("0+", default=0)
