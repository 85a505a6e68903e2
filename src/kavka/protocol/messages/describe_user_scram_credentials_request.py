"""DescribeUserScramCredentialsRequest: request, API key 50, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, string


class UserName(Struct):
    name: str = string("0+", default="")


class DescribeUserScramCredentialsRequest(Message, kind="request", versions="0", flexible="0+", api_key=50):
    users: list[UserName] | None = array(UserName, "0+", nullable="0+", default_factory=list)
