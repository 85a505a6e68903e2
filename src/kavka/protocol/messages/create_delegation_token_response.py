"""CreateDelegationTokenResponse: response, API key 38, versions 0-3, flexible from 2.

Apache Kafka 3.9.2: 0-3; Apache Kafka 4.3.1: 1-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, binary, int16, int32, int64, string


class CreateDelegationTokenResponse(Message, kind="response", versions="0-3", flexible="2+", api_key=38):
    error_code: int = int16("0+", default=0)
    principal_type: str = string("0+", default="")
    principal_name: str = string("0+", default="")
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp_ms: int = int64("0+", default=0)
    expiry_timestamp_ms: int = int64("0+", default=0)
    max_timestamp_ms: int = int64("0+", default=0)
    token_id: str = string("0+", default="")
    hmac: bytes = binary("0+", default=b"")
    throttle_time_ms: int = int32("0+", default=0)
