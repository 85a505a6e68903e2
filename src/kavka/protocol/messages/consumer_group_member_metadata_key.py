"""ConsumerGroupMemberMetadataKey: coordinator's key, record type 5, version 5, never flexible.

Apache Kafka 3.9.2: 5; Apache Kafka 4.3.1: 5.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class ConsumerGroupMemberMetadataKey(Message, kind="coordinator-key", versions="5", api_key=5):
    group_id: str = string("5+", default="")
    member_id: str = string("5+", default="")
