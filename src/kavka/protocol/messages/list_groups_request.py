"""ListGroupsRequest: request, API key 16, versions 0-5, flexible from 3.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array


class ListGroupsRequest(Message, kind="request", versions="0-5", flexible="3+", api_key=16):
    states_filter: list[str] = array("string", "4+", default_factory=list)
    types_filter: list[str] = array("string", "5+", default_factory=list)
