"""DescribeClientQuotasResponse: response, API key 48, versions 0-1, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, float64, int16, int32, string


class EntityData(Struct):
    entity_type: str = string("0+", default="")
    entity_name: str | None = string("0+", nullable="0+", default="")


class ValueData(Struct):
    key: str = string("0+", default="")
    value: float = float64("0+", default=0.0)


class EntryData(Struct):
    entity: list[EntityData] = array(EntityData, "0+", default_factory=list)
    values: list[ValueData] = array(ValueData, "0+", default_factory=list)


class DescribeClientQuotasResponse(Message, kind="response", versions="0-1", flexible="1+", api_key=48):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    entries: list[EntryData] | None = array(EntryData, "0+", nullable="0+", default_factory=list)
