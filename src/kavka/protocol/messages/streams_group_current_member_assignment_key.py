"""StreamsGroupCurrentMemberAssignmentKey: coordinator's key, record type 22, version 22, never flexible.

Apache Kafka 4.3.1: 22.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class StreamsGroupCurrentMemberAssignmentKey(Message, kind="coordinator-key", versions="22", api_key=22):
    group_id: str = string("22+", default="")
    member_id: str = string("22+", default="")
