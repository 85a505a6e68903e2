"""DescribeShareGroupOffsetsResponse: response, API key 90, versions 0-1, flexible from 0.

Apache Kafka 4.3.1: 0-1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import (
    ZERO_UUID,
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)


class KavkaShareRun(Struct):
    first_offset: int = int64("0+", default=0)
    last_offset: int = int64("0+", default=0)
    state: int = int8("0+", default=0)
    being_written: int = int8("0+", default=-1)
    delivery_count: int = int16("0+", default=0)
    member_id: str = string("0+", default="")
    lock_left_ms: int = int64("0+", default=-1)


class KavkaShareRecords(Struct):
    end_offset: int = int64("0+", default=0)
    in_flight: int = int32("0+", default=0)
    run_count: int = int32("0+", default=0)
    runs: list[KavkaShareRun] = array(KavkaShareRun, "0+", default_factory=list)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    lag: int = int64("1+", default=-1, ignorable=True)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    kavka_records: KavkaShareRecords | None = struct(KavkaShareRecords, "0+", tag=10000, default=None, ignorable=True)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string("0+", default="")
    topic_id: UUID = uuid("0+", default=ZERO_UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition, "0+", default_factory=list
    )


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = string("0+", default="")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic, "0+", default_factory=list
    )
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)


class DescribeShareGroupOffsetsResponse(Message, kind="response", versions="0-1", flexible="0+", api_key=90):
    throttle_time_ms: int = int32("0+", default=0)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup, "0+", default_factory=list
    )
    kavka_records_only: bool = boolean("0+", tag=10000, default=False, ignorable=True)
