"""BrokerRegistrationRequest: request, API key 62, versions 0-4, flexible from 0.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 0-4.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)
    security_protocol: int = int16("0+", default=0)


class Feature(Struct):
    name: str = string("0+", default="")
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class BrokerRegistrationRequest(Message, kind="request", versions="0-4", flexible="0+", api_key=62):
    broker_id: int = int32("0+", default=0)
    cluster_id: str = string("0+", default="")
    incarnation_id: UUID = uuid("0+", default=ZERO_UUID)
    listeners: list[Listener] = array(Listener, "0+", default_factory=list)
    features: list[Feature] = array(Feature, "0+", default_factory=list)
    rack: str | None = string("0+", nullable="0+", default="")
    is_migrating_zk_broker: bool = boolean("1+", default=False)
    log_dirs: list[UUID] = array("uuid", "2+", default_factory=list, ignorable=True)
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)
