"""DeleteShareGroupOffsetsRequest: request, API key 92, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, string


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string("0+", default="")


class DeleteShareGroupOffsetsRequest(Message, kind="request", versions="0", flexible="0+", api_key=92):
    group_id: str = string("0+", default="")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(
        DeleteShareGroupOffsetsRequestTopic, "0+", default_factory=list
    )
