"""StreamsGroupTopologyKey: coordinator's key, record type 23, version 23, never flexible.

Apache Kafka 4.3.1: 23.
The version is the number that stands before the key in the log.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class StreamsGroupTopologyKey(Message, kind="coordinator-key", versions="23", api_key=23):
    group_id: str = string("23+", default="")
