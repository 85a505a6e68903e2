"""DescribeClusterResponse: response, API key 60, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string


class DescribeClusterBroker(Struct):
    broker_id: int = int32("0+", default=0)
    host: str = string("0+", default="")
    port: int = int32("0+", default=0)
    rack: str | None = string("0+", nullable="0+", default=None)
    is_fenced: bool = boolean("2+", default=False)


class KavkaClientWriting(Struct):
    partition_index: int = int32("0+", default=0)
    producer_id: int = int64("0+", default=-1)
    last_write_ms: int = int64("0+", default=0)
    bytes_in: int = int64("0+", default=0)


class KavkaClientTopic(Struct):
    name: str = string("0+", default="")
    writes: list[KavkaClientWriting] = array(KavkaClientWriting, "0+", default_factory=list)
    reads: list[int] = array("int32", "0+", default_factory=list)


class KavkaClient(Struct):
    connection_id: str = string("0+", default="")
    client_id: str = string("0+", default="")
    host: str = string("0+", default="")
    port: int = int32("0+", default=0)
    listener_name: str = string("0+", default="")
    principal: str = string("0+", default="")
    software_name: str = string("0+", default="")
    software_version: str = string("0+", default="")
    topics: list[KavkaClientTopic] = array(KavkaClientTopic, "0+", default_factory=list)


class DescribeClusterResponse(Message, kind="response", versions="0-2", flexible="0+", api_key=60):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string("0+", default="")
    controller_id: int = int32("0+", default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker, "0+", default_factory=list)
    cluster_authorized_operations: int = int32("0+", default=-2147483648)
    kavka_clients: list[KavkaClient] | None = array(
        KavkaClient, "0+", nullable="0+", tag=10000, default=None, ignorable=True
    )
    kavka_has_more_clients: bool = boolean("0+", tag=10001, default=False, ignorable=True)
