"""ElectLeadersResponse: response, API key 43, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class PartitionResult(Struct):
    partition_id: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")


class ReplicaElectionResult(Struct):
    topic: str = string("0+", default="")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+", default_factory=list)


class ElectLeadersResponse(Message, kind="response", versions="0-2", flexible="2+", api_key=43):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+", default_factory=list)
