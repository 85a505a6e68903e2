"""ShareGroupTargetAssignmentMemberKey: coordinator's key, record type 13, version 0, never flexible.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupTargetAssignmentMemberKey(Message, kind="coordinator-key", versions="0", api_key=13):
    group_id: str = string("0+", default="")
    member_id: str = string("0+", default="")
