"""ConsumerGroupDescribeResponse: response, API key 69, versions 0-1, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, int8, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    topic_name: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+", default_factory=list)


class Member(Struct):
    member_id: str = string("0+", default="")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+", default=0)
    client_id: str = string("0+", default="")
    client_host: str = string("0+", default="")
    subscribed_topic_names: list[str] = array("string", "0+", default_factory=list)
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    assignment: Assignment = struct(Assignment, "0+", default_factory=Assignment)
    target_assignment: Assignment = struct(Assignment, "0+", default_factory=Assignment)
    member_type: int = int8("1+", default=-1, ignorable=True)


class DescribedGroup(Struct):
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+", default="")
    group_state: str = string("0+", default="")
    group_epoch: int = int32("0+", default=0)
    assignment_epoch: int = int32("0+", default=0)
    assignor_name: str = string("0+", default="")
    members: list[Member] = array(Member, "0+", default_factory=list)
    authorized_operations: int = int32("0+", default=-2147483648)


class ConsumerGroupDescribeResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=69):
    throttle_time_ms: int = int32("0+", default=0)
    groups: list[DescribedGroup] = array(DescribedGroup, "0+", default_factory=list)
