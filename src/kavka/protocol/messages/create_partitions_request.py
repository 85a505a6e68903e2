"""CreatePartitionsRequest: request, API key 37, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 0-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int32, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array("int32", "0+", default_factory=list)


class CreatePartitionsTopic(Struct):
    name: str = string("0+", default="")
    count: int = int32("0+", default=0)
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, "0+", nullable="0+", default_factory=list
    )


class CreatePartitionsRequest(Message, kind="request", versions="0-3", flexible="2+", api_key=37):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+", default_factory=list)
    timeout_ms: int = int32("0+", default=0)
    validate_only: bool = boolean("0+", default=False)
