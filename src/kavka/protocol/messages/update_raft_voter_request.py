"""UpdateRaftVoterRequest: request, API key 82, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, struct, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class UpdateRaftVoterRequest(Message, kind="request", versions="0", flexible="0+", api_key=82):
    cluster_id: str | None = string("0+", nullable="0+", default="")
    current_leader_epoch: int = int32("0+", default=0)
    voter_id: int = int32("0+", default=0)
    voter_directory_id: UUID = uuid("0+", default=ZERO_UUID)
    listeners: list[Listener] = array(Listener, "0+", default_factory=list)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+", default_factory=KRaftVersionFeature)
