"""StreamsGroupCurrentMemberAssignmentValue: coordinator's value, record type 22, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int32, string


class TaskIds(Struct):
    subtopology_id: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)
    assignment_epochs: list[int] | None = array("int32", "0+", nullable="0+", tag=0, default_factory=list)


class StreamsGroupCurrentMemberAssignmentValue(
    Message, kind="coordinator-value", versions="0", flexible="0+", api_key=22
):
    member_epoch: int = int32("0+", default=0)
    previous_member_epoch: int = int32("0+", default=0)
    state: int = int8("0+", default=0)
    active_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    standby_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    active_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    standby_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    warmup_tasks_pending_revocation: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
