"""DescribeClusterResponse: response, API key 60, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterBroker(Struct):
    broker_id: int = int32("0+", default=0)
    host: str = string("0+", default="")
    port: int = int32("0+", default=0)
    rack: str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool = boolean("2+", default=False)


class DescribeClusterResponse(Message, kind="response", versions="0-2", flexible="0+", api_key=60):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+", default="")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+", default_factory=list)
    cluster_authorized_operations: int = int32("0+", default=-2147483648)
