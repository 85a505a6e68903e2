"""ShareGroupCurrentMemberAssignmentKey: coordinator's key, record type 14, version 14, never flexible.

Apache Kafka 4.3.1: 14.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupCurrentMemberAssignmentKey(Message, kind="coordinator-key", versions="14", api_key=14):
    group_id: str = string("14+", default="")
    member_id: str = string("14+", default="")
