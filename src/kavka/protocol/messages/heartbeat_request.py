"""HeartbeatRequest: request, API key 12, versions 0-4, flexible from 4.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32, string


class HeartbeatRequest(Message, kind="request", versions="0-4", flexible="4+", api_key=12):
    group_id: str = string("0+", default="")
    generation_id: int = int32("0+", default=0)
    member_id: str = string("0+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
