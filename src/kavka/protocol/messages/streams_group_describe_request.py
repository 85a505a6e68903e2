"""StreamsGroupDescribeRequest: request, API key 89, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, boolean


class StreamsGroupDescribeRequest(Message, kind="request", versions="0", flexible="0+", api_key=89):
    group_ids: list[str] = array("string", "0+", default_factory=list)
    include_authorized_operations: bool = boolean("0+", default=False)
