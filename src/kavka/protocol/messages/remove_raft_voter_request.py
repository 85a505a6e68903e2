"""RemoveRaftVoterRequest: request, API key 81, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, int32, string, uuid


class RemoveRaftVoterRequest(Message, kind="request", versions="0", flexible="0+", api_key=81):
    cluster_id: str | None = string("0+", nullable="0+", default="")
    voter_id: int = int32("0+", default=0)
    voter_directory_id: UUID = uuid("0+", default=ZERO_UUID)
