"""AddRaftVoterRequest: request, API key 80, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int32, string, uint16, uuid


class Listener(Struct):
    name: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = uint16("0+", default=0)


class AddRaftVoterRequest(Message, kind="request", versions="0-1", flexible="0+", api_key=80):
    cluster_id: str | None = string("0+", nullable="0+", default="")
    timeout_ms: int = int32("0+", default=0)
    voter_id: int = int32("0+", default=0)
    voter_directory_id: UUID = uuid("0+", default=ZERO_UUID)
    listeners: list[Listener] = array(Listener, "0+", default_factory=list)
    ack_when_committed: bool = boolean("1+", default=True)
