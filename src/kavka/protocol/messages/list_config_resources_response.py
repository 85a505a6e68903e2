"""ListConfigResourcesResponse: response, API key 74, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int16, int32, string


class ConfigResource(Struct):
    resource_name: str = string("0+", default="")
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=74):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    config_resources: list[ConfigResource] = array(ConfigResource, "0+", default_factory=list)
