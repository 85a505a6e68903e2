"""RequestHeader: header of every message, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int32, string


class RequestHeader(Message, kind="header", versions="0-2", flexible="2+"):
    request_api_key: int = int16("0+", default=0)
    request_api_version: int = int16("0+", default=0)
    correlation_id: int = int32("0+", default=0)
    client_id: str | None = string("1+", nullable="1+", default="", ignorable=True, flexible=False)
