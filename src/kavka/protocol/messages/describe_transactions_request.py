"""DescribeTransactionsRequest: request, API key 65, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array


class DescribeTransactionsRequest(Message, kind="request", versions="0", flexible="0+", api_key=65):
    transactional_ids: list[str] = array("string", "0+", default_factory=list)
