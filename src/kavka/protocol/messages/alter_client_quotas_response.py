"""AlterClientQuotasResponse: response, API key 49, versions 0-1, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class EntityData(Struct):
    entity_type: str = string("0+", default="")
    entity_name: str | None = string("0+", nullable="0+", default="")


class EntryData(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    entity: list[EntityData] = array(EntityData, "0+", default_factory=list)


class AlterClientQuotasResponse(Message, kind="response", versions="0-1", flexible="1+", api_key=49):
    throttle_time_ms: int = int32("0+", default=0)
    entries: list[EntryData] = array(EntryData, "0+", default_factory=list)
