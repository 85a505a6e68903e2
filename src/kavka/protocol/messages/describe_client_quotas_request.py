"""DescribeClientQuotasRequest: request, API key 48, versions 0-1, flexible from 1.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, string


class ComponentData(Struct):
    entity_type: str = string("0+", default="")
    match_type: int = int8("0+", default=0)
    match: str | None = string("0+", nullable="0+", default="")


class DescribeClientQuotasRequest(Message, kind="request", versions="0-1", flexible="1+", api_key=48):
    components: list[ComponentData] = array(ComponentData, "0+", default_factory=list)
    strict: bool = boolean("0+", default=False)
