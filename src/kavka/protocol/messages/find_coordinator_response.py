"""FindCoordinatorResponse: response, API key 10, versions 0-6, flexible from 3.

Apache Kafka 3.9.2: 0-6; Apache Kafka 4.3.1: 0-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class Coordinator(Struct):
    key: str = string("4+", default="")
    node_id: int = int32("4+", default=0)
    host: str = string("4+", default="")
    port: int = int32("4+", default=0)
    error_code: int = int16("4+", default=0)
    error_message: str | None = string("4+", nullable="4+", default="", ignorable=True)


class FindCoordinatorResponse(Message, kind="response", versions="0-6", flexible="3+", api_key=10):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0-3", default=0)
    error_message: str | None = string("1-3", nullable="1-3", default="", ignorable=True)
    node_id: int = int32("0-3", default=0)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0)
    coordinators: list[Coordinator] = array(Coordinator, "4+", default_factory=list)
