"""ShareGroupMemberMetadataKey: coordinator's key, record type 10, version 10, never flexible.

Apache Kafka 4.3.1: 10.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupMemberMetadataKey(Message, kind="coordinator-key", versions="10", api_key=10):
    group_id: str = string("10+", default="")
    member_id: str = string("10+", default="")
