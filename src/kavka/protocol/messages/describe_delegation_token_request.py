"""DescribeDelegationTokenRequest: request, API key 41, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 1-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, string


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string("0+", default="")
    principal_name: str = string("0+", default="")


class DescribeDelegationTokenRequest(Message, kind="request", versions="0-3", flexible="2+", api_key=41):
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, "0+", nullable="0+", default_factory=list
    )
