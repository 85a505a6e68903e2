"""ConsumerGroupTargetAssignmentMemberKey: coordinator's key, record type 7, version 7, never flexible.

Apache Kafka 3.9.2: 7; Apache Kafka 4.3.1: 7.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ConsumerGroupTargetAssignmentMemberKey(Message, kind="coordinator-key", versions="7", api_key=7):
    group_id: str = string("7+", default="")
    member_id: str = string("7+", default="")
