"""OffsetFetchRequest: request, API key 9, versions 0-10, flexible from 6.

Apache Kafka 3.9.2: 0-9; Apache Kafka 4.3.1: 1-10.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, int32, string, uuid


class OffsetFetchRequestTopic(Struct):
    name: str = string("0-7", default="")
    partition_indexes: list[int] = array("int32", "0-7", default_factory=list)


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9", default="", ignorable=True)
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int] = array("int32", "8+", default_factory=list)


class OffsetFetchRequestGroup(Struct):
    group_id: str = string("8+", default="")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+", default_factory=list
    )


class OffsetFetchRequest(Message, kind="request", versions="0-10", flexible="6+", api_key=9):
    group_id: str = string("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7", default_factory=list
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+", default_factory=list)
    require_stable: bool = boolean("7+", default=False)
