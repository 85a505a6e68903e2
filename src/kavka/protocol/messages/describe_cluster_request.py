"""DescribeClusterRequest: request, API key 60, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, array, boolean, int8


class DescribeClusterRequest(Message, kind="request", versions="0-2", flexible="0+", api_key=60):
    include_cluster_authorized_operations: bool = boolean("0+", default=False)
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+", default=False)
    kavka_clients_of: list[str] | None = array("string", "0+", nullable="0+", tag=10000, default=None, ignorable=True)
