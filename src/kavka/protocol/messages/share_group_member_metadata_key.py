"""ShareGroupMemberMetadataKey: coordinator's key, record type 10, version 0, never flexible.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupMemberMetadataKey(Message, kind="coordinator-key", versions="0", api_key=10):
    group_id: str = string("0+", default="")
    member_id: str = string("0+", default="")
