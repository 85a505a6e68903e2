"""ConsumerGroupCurrentMemberAssignmentKey: coordinator's key, record type 8, version 8, never flexible.

Apache Kafka 3.9.2: 8; Apache Kafka 4.3.1: 8.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ConsumerGroupCurrentMemberAssignmentKey(Message, kind="coordinator-key", versions="8", api_key=8):
    group_id: str = string("8+", default="")
    member_id: str = string("8+", default="")
