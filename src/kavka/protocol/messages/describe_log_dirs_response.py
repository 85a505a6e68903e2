"""DescribeLogDirsResponse: response, API key 35, versions 0-5, flexible from 2.

Apache Kafka 3.9.2: 0-4; Apache Kafka 4.3.1: 1-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32("0+", default=0)
    partition_size: int = int64("0+", default=0)
    offset_lag: int = int64("0+", default=0)
    is_future_key: bool = boolean("0+", default=False)


class DescribeLogDirsTopic(Struct):
    name: str = string("0+", default="")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+", default_factory=list)


class DescribeLogDirsResult(Struct):
    error_code: int = int16("0+", default=0)
    log_dir: str = string("0+", default="")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+", default_factory=list)
    total_bytes: int = int64("4+", default=-1, ignorable=True)
    usable_bytes: int = int64("4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean("5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Message, kind="response", versions="0-5", flexible="2+", api_key=35):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+", default_factory=list)
