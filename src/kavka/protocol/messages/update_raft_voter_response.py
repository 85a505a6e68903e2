"""UpdateRaftVoterResponse: response, API key 82, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, int16, int32, string, struct


class CurrentLeader(Struct):
    leader_id: int = int32("0+", default=-1)
    leader_epoch: int = int32("0+", default=-1)
    host: str = string("0+", default="")
    port: int = int32("0+", default=0)


class UpdateRaftVoterResponse(Message, kind="response", versions="0", flexible="0+", api_key=82):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    current_leader: CurrentLeader | None = struct(CurrentLeader, "0+", tag=0, default=None)
