"""DescribeConfigsRequest: request, API key 32, versions 0-4, flexible from 4.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 1-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, string


class DescribeConfigsResource(Struct):
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    configuration_keys: list[str] | None = array("string", "0+", nullable="0+", default_factory=list)


class DescribeConfigsRequest(Message, kind="request", versions="0-4", flexible="4+", api_key=32):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource, "0+", default_factory=list)
    include_synonyms: bool = boolean("1+", default=False)
    include_documentation: bool = boolean("3+", default=False)
