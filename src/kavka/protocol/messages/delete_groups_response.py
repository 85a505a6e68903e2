"""DeleteGroupsResponse: response, API key 42, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class DeletableGroupResult(Struct):
    group_id: str = string("0+", default="")
    error_code: int = int16("0+", default=0)


class DeleteGroupsResponse(Message, kind="response", versions="0-2", flexible="2+", api_key=42):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+", default_factory=list)
