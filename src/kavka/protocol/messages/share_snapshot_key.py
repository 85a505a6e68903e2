"""ShareSnapshotKey: coordinator's key, record type 0, version 0, never flexible.

Apache Kafka 4.3.1: 0.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, int32, string, uuid


class ShareSnapshotKey(Message, kind="coordinator-key", versions="0", api_key=0):
    group_id: str = string("0+", default="")
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partition: int = int32("0+", default=0)
