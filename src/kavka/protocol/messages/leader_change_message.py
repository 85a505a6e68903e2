"""LeaderChangeMessage: stored value, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, uuid


class Voter(Struct):
    voter_id: int = int32("0+", default=0)
    voter_directory_id: UUID = uuid("1+", default=ZERO_UUID)


class LeaderChangeMessage(Message, kind="data", versions="0-1", flexible="0+"):
    version: int = int16("0+", default=0)
    leader_id: int = int32("0+", default=0)
    voters: list[Voter] = array(Voter, "0+", default_factory=list)
    granting_voters: list[Voter] = array(Voter, "0+", default_factory=list)
