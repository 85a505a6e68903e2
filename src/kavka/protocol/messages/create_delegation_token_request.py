"""CreateDelegationTokenRequest: request, API key 38, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 1-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int64, string


class CreatableRenewers(Struct):
    principal_type: str = string("0+", default="")
    principal_name: str = string("0+", default="")


class CreateDelegationTokenRequest(Message, kind="request", versions="0-3", flexible="2+", api_key=38):
    owner_principal_type: str | None = string("3+", nullable="3+", default="")
    owner_principal_name: str | None = string("3+", nullable="3+", default="")
    renewers: list[CreatableRenewers] = array(CreatableRenewers, "0+", default_factory=list)
    max_lifetime_ms: int = int64("0+", default=0)
