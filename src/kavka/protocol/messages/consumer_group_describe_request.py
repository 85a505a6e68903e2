"""ConsumerGroupDescribeRequest: request, API key 69, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, boolean


class ConsumerGroupDescribeRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=69):
    group_ids: list[str] = array("string", "0+", default_factory=list)
    include_authorized_operations: bool = boolean("0+", default=False)
