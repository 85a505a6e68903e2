"""DescribeGroupsRequest: request, API key 15, versions 0-6, flexible from 5.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-6.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, boolean


class DescribeGroupsRequest(Message, kind="request", versions="0-6", flexible="5+", api_key=15):
    groups: list[str] = array("string", "0+", default_factory=list)
    include_authorized_operations: bool = boolean("3+", default=False)
