"""ListConfigResourcesRequest: request, API key 74, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array


class ListConfigResourcesRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=74):
    resource_types: list[int] = array("int8", "1+", default_factory=list)
