"""ListGroupsResponse: response, API key 16, versions 0-5, flexible from 3.

Apache Kafka 3.9.2: 0-5; Apache Kafka 4.3.1: 0-5.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, string


class ListedGroup(Struct):
    group_id: str = string("0+", default="")
    protocol_type: str = string("0+", default="")
    group_state: str = string("4+", default="", ignorable=True)
    group_type: str = string("5+", default="", ignorable=True)


class ListGroupsResponse(Message, kind="response", versions="0-5", flexible="3+", api_key=16):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0+", default=0)
    groups: list[ListedGroup] = array(ListedGroup, "0+", default_factory=list)
