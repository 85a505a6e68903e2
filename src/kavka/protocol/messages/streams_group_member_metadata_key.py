"""StreamsGroupMemberMetadataKey: coordinator's key, record type 19, version 19, never flexible.

Apache Kafka 4.3.1: 19.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class StreamsGroupMemberMetadataKey(Message, kind="coordinator-key", versions="19", api_key=19):
    group_id: str = string("19+", default="")
    member_id: str = string("19+", default="")
