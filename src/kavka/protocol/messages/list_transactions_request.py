"""ListTransactionsRequest: request, API key 66, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, int64, string


class ListTransactionsRequest(Message, kind="request", versions="0-2", flexible="0+", api_key=66):
    state_filters: list[str] = array("string", "0+", default_factory=list)
    producer_id_filters: list[int] = array("int64", "0+", default_factory=list)
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)
