"""ShareGroupTargetAssignmentMemberKey: coordinator's key, record type 13, version 13, never flexible.

Apache Kafka 4.3.1: 13.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ShareGroupTargetAssignmentMemberKey(Message, kind="coordinator-key", versions="13", api_key=13):
    group_id: str = string("13+", default="")
    member_id: str = string("13+", default="")
