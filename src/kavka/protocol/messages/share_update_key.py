"""ShareUpdateKey: coordinator's key, record type 1, version 1, never flexible.

Apache Kafka 4.3.1: 1.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, int32, string, uuid


class ShareUpdateKey(Message, kind="coordinator-key", versions="1", api_key=1):
    group_id: str = string("1+", default="")
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    partition: int = int32("1+", default=0)
