"""AlterUserScramCredentialsRequest: request, API key 51, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, binary, int8, int32, string


class ScramCredentialDeletion(Struct):
    name: str = string("0+", default="")
    mechanism: int = int8("0+", default=0)


class ScramCredentialUpsertion(Struct):
    name: str = string("0+", default="")
    mechanism: int = int8("0+", default=0)
    iterations: int = int32("0+", default=0)
    salt: bytes = binary("0+", default=b"")
    salted_password: bytes = binary("0+", default=b"")


class AlterUserScramCredentialsRequest(Message, kind="request", versions="0", flexible="0+", api_key=51):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion, "0+", default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion, "0+", default_factory=list)
