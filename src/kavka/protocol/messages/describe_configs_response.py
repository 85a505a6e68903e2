"""DescribeConfigsResponse: response, API key 32, versions 0-4, flexible from 4.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 1-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsSynonym(Struct):
    name: str = string("1+", default="")
    value: str | None = string("1+", nullable="1+", default="")
    source: int = int8("1+", default=0)


class DescribeConfigsResourceResult(Struct):
    name: str = string("0+", default="")
    value: str | None = string("0+", nullable="0+", default="")
    read_only: bool = boolean("0+", default=False)
    is_default: bool = boolean("0", default=False)
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("0+", default=False)
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", default_factory=list, ignorable=True)
    config_type: int = int8("3+", default=0, ignorable=True)
    documentation: str | None = string("3+", nullable="3+", default="", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    resource_type: int = int8("0+", default=0)
    resource_name: str = string("0+", default="")
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult, "0+", default_factory=list)


class DescribeConfigsResponse(Message, kind="response", versions="0-4", flexible="4+", api_key=32):
    throttle_time_ms: int = int32("0+", default=0)
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult, "0+", default_factory=list)
