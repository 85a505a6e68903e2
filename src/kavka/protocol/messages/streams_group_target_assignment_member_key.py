"""StreamsGroupTargetAssignmentMemberKey: coordinator's key, record type 21, version 21, never flexible.

Apache Kafka 4.3.1: 21.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class StreamsGroupTargetAssignmentMemberKey(Message, kind="coordinator-key", versions="21", api_key=21):
    group_id: str = string("21+", default="")
    member_id: str = string("21+", default="")
