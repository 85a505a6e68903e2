"""SyncGroupResponse: response, API key 14, versions 0-5, flexible from 4.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, binary, int16, int32, string


class SyncGroupResponse(Message, kind="response", versions="0-5", flexible="4+", api_key=14):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0+", default=0)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = binary("0+", default=b"")
