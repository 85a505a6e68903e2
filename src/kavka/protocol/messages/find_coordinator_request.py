"""FindCoordinatorRequest: request, API key 10, versions 0-6, flexible from 3.

Apache Kafka 3.9.2: 0-6; Apache Kafka 4.3.1: 0-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, int8, string


class FindCoordinatorRequest(Message, kind="request", versions="0-6", flexible="3+", api_key=10):
    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0)
    coordinator_keys: list[str] = array("string", "4+", default_factory=list)
