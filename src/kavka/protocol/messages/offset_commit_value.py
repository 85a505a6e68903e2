"""OffsetCommitValue: coordinator's value, record type 1, versions 0-4, flexible from 4.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, int32, int64, string, uuid


class OffsetCommitValue(Message, kind="coordinator-value", versions="0-4", flexible="4+", api_key=1):
    offset: int = int64("0+", default=0)
    leader_epoch: int = int32("3+", default=-1, ignorable=True)
    metadata: str = string("0+", default="")
    commit_timestamp: int = int64("0+", default=0)
    expire_timestamp: int = int64("1", default=-1, ignorable=True)
    topic_id: UUID = uuid("4+", tag=0, default=ZERO_UUID, ignorable=True)
