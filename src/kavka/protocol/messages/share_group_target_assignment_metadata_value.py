"""ShareGroupTargetAssignmentMetadataValue: coordinator's value, record type 12, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32, int64


class ShareGroupTargetAssignmentMetadataValue(
    Message, kind="coordinator-value", versions="0", flexible="0+", api_key=12
):
    assignment_epoch: int = int32("0+", default=0)
    assignment_timestamp: int = int64("0+", tag=0, default=0, ignorable=True)
