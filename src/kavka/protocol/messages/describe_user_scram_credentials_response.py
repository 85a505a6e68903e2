"""DescribeUserScramCredentialsResponse: response, API key 50, version 0, flexible from 0.

Apache Kafka 3.9.2: 0; Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int16, int32, string


class CredentialInfo(Struct):
    mechanism: int = int8("0+", default=0)
    iterations: int = int32("0+", default=0)


class DescribeUserScramCredentialsResult(Struct):
    user: str = string("0+", default="")
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    credential_infos: list[CredentialInfo] = array(CredentialInfo, "0+", default_factory=list)


class DescribeUserScramCredentialsResponse(Message, kind="response", versions="0", flexible="0+", api_key=50):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    error_message: str | None = string("0+", nullable="0+", default="")
    results: list[DescribeUserScramCredentialsResult] = array(
        DescribeUserScramCredentialsResult, "0+", default_factory=list
    )
