"""StreamsGroupTargetAssignmentMemberValue: coordinator's value, record type 21, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, string


class TaskIds(Struct):
    subtopology_id: str = string("0+", default="")
    partitions: list[int] = array("int32", "0+", default_factory=list)


class StreamsGroupTargetAssignmentMemberValue(
    Message, kind="coordinator-value", versions="0", flexible="0+", api_key=21
):
    active_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    standby_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
    warmup_tasks: list[TaskIds] = array(TaskIds, "0+", default_factory=list)
