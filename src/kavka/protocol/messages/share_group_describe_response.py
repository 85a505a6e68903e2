"""ShareGroupDescribeResponse: response, API key 77, version 1, flexible from 0.

Apache Kafka 4.3.1: 1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("1+", default=ZERO_UUID)
    topic_name: str = string("1+", default="")
    partitions: list[int] = array("int32", "1+", default_factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "1+", default_factory=list)


class Member(Struct):
    member_id: str = string("1+", default="")
    rack_id: str | None = string("1+", nullable="1+", default=None)
    member_epoch: int = int32("1+", default=0)
    client_id: str = string("1+", default="")
    client_host: str = string("1+", default="")
    subscribed_topic_names: list[str] = array("string", "1+", default_factory=list)
    assignment: Assignment = struct(Assignment, "1+", default_factory=Assignment)


class DescribedGroup(Struct):
    error_code: int = int16("1+", default=0)
    error_message: str | None = string("1+", nullable="1+", default=None)
    group_id: str = string("1+", default="")
    group_state: str = string("1+", default="")
    group_epoch: int = int32("1+", default=0)
    assignment_epoch: int = int32("1+", default=0)
    assignor_name: str = string("1+", default="")
    members: list[Member] = array(Member, "1+", default_factory=list)
    authorized_operations: int = int32("1+", default=-2147483648)


class ShareGroupDescribeResponse(Message, kind="response", versions="1", flexible="0+", api_key=77):
    throttle_time_ms: int = int32("1+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, "1+", default_factory=list)
