"""StreamsGroupTopologyKey: coordinator's key, record type 23, version 0, never flexible.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, string


class StreamsGroupTopologyKey(Message, kind="coordinator-key", versions="0", api_key=23):
    group_id: str = string("0+", default="")
