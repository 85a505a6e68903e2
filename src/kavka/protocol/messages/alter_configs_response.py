"""AlterConfigsResponse: response, API key 33, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int16, int32, string


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")


class AlterConfigsResponse(Message, kind="response", versions="0-2", flexible="2+", api_key=33):
    throttle_time_ms: int = int32("0+", default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse, "0+", default_factory=list)
