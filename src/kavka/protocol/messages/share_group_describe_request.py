"""ShareGroupDescribeRequest: request, API key 77, version 1, flexible from 0.

Apache Kafka 4.3.1: 1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, boolean


class ShareGroupDescribeRequest(Message, kind="request", versions="1", flexible="0+", api_key=77):
    group_ids: list[str] = array("string", "1+", default_factory=list)
    include_authorized_operations: bool = boolean("1+", default=False)
