"""VotersRecord: stored value, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, struct, uint16, uuid


class Endpoint(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16("0+", default=0)
    max_supported_version: int = int16("0+", default=0)


class Voter(Struct):
    voter_id: int = int32("0+", default=0)
    voter_directory_id: UUID = uuid("0+", default=ZERO_UUID)
    endpoints: list[Endpoint] = array(Endpoint, "0+", default_factory=list)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature, "0+", default_factory=KRaftVersionFeature)


class VotersRecord(Message, kind="data", versions="0", flexible="0+"):
    version: int = int16("0+", default=0)
    voters: list[Voter] = array(Voter, "0+", default_factory=list)
