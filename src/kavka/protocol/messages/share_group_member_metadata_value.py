"""ShareGroupMemberMetadataValue: coordinator's value, record type 10, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, string


class ShareGroupMemberMetadataValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=10):
    rack_id: str | None = string("0+", nullable="0+", default="")
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    subscribed_topic_names: list[str] = array("string", "0+", default_factory=list)
