"""DeleteGroupsRequest: request, API key 42, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array


class DeleteGroupsRequest(Message, kind="request", versions="0-2", flexible="2+", api_key=42):
    groups_names: list[str] = array("string", "0+", default_factory=list)
