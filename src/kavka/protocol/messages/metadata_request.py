"""MetadataRequest: request, API key 3, versions 0-13, flexible from 9.

Apache Kafka 3.9.2: 0-12; Apache Kafka 4.3.1: 0-13.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import ZERO_UUID, Message, Struct, array, boolean, string, uuid


class MetadataRequestTopic(Struct):
    topic_id: UUID = uuid("10+", default=ZERO_UUID, ignorable=True)
    name: str | None = string("0+", nullable="10+", default="")


class MetadataRequest(Message, kind="request", versions="0-13", flexible="9+", api_key=3):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+", default_factory=list)
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10", default=False)
    include_topic_authorized_operations: bool = boolean("8+", default=False)
