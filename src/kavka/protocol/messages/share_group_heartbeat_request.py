"""ShareGroupHeartbeatRequest: request, API key 76, version 1, flexible from 0.

Apache Kafka 4.3.1: 1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, int32, string


class ShareGroupHeartbeatRequest(Message, kind="request", versions="1", flexible="0+", api_key=76):
    group_id: str = string("1+", default="")
    member_id: str = string("1+", default="")
    member_epoch: int = int32("1+", default=0)
    rack_id: str | None = string("1+", nullable="1+", default=None)
    subscribed_topic_names: list[str] | None = array("string", "1+", nullable="1+", default=None)
