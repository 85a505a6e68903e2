"""CreateTopicsResponse: response, API key 19, versions 0-7, flexible from 5.

Apache Kafka 3.9.2: 0-7; Apache Kafka 4.3.1: 2-7.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableTopicConfigs(Struct):
    name: str = string("5+", default="")
    value: str | None = string("5+", nullable="5+", default="")
    read_only: bool = boolean("5+", default=False)
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+", default=False)


class CreatableTopicResult(Struct):
    name: str = string("0+", default="")
    topic_id: UUID = uuid("7+", default=ZERO_UUID, ignorable=True)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("1+", nullable="1+", default="", ignorable=True)
    topic_config_error_code: int = int16("5+", tag=0, default=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", default_factory=list, ignorable=True
    )


class CreateTopicsResponse(Message, kind="response", versions="0-7", flexible="5+", api_key=19):
    throttle_time_ms: int = int32("2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+", default_factory=list)
