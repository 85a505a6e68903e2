"""AlterClientQuotasRequest: request, API key 49, versions 0-1, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, float64, string


class EntityData(Struct):
    entity_type: str = string("0+", default="")
    entity_name: str | None = string("0+", nullable="0+", default="")


class OpData(Struct):
    key: str = string("0+", default="")
    value: float = float64("0+", default=0.0)
    remove: bool = boolean("0+", default=False)


class EntryData(Struct):
    entity: list[EntityData] = array(EntityData, "0+", default_factory=list)
    ops: list[OpData] = array(OpData, "0+", default_factory=list)


class AlterClientQuotasRequest(Message, kind="request", versions="0-1", flexible="1+", api_key=49):
    entries: list[EntryData] = array(EntryData, "0+", default_factory=list)
    validate_only: bool = boolean("0+", default=False)
