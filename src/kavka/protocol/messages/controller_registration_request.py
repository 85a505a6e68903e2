"""ControllerRegistrationRequest: request, API key 70, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int16, int32, string, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)
    security_protocol: int = int16("0+", default=0)


class Feature(Struct):
    name: str = string("0+", default="")
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class ControllerRegistrationRequest(Message, kind="request", versions="0", flexible="0+", api_key=70):
    controller_id: int = int32("0+", default=0)
    incarnation_id: UUID = uuid("0+", default=ZERO_UUID)
    zk_migration_ready: bool = boolean("0+", default=False)
    listeners: list[Listener] = array(Listener, "0+", default_factory=list)
    features: list[Feature] = array(Feature, "0+", default_factory=list)
