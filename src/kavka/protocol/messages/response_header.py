"""ResponseHeader: header of every message, versions 0-1, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32


class ResponseHeader(Message, kind="header", versions="0-1", flexible="1+"):
    correlation_id: int = int32("0+", default=0)
