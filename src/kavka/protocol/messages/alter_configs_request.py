"""AlterConfigsRequest: request, API key 33, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, string


class AlterableConfig(Struct):
    name: str = string("0+", default="")
    value: str | None = string("0+", nullable="0+", default="")


class AlterConfigsResource(Struct):
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    configs: list[AlterableConfig] = array(AlterableConfig, "0+", default_factory=list)


class AlterConfigsRequest(Message, kind="request", versions="0-2", flexible="2+", api_key=33):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource, "0+", default_factory=list)
    validate_only: bool = boolean("0+", default=False)
