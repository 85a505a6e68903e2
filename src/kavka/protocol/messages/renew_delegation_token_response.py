"""RenewDelegationTokenResponse: response, API key 39, versions 0-2, flexible from 2.

Apache Kafka 3.9.2: 0-2; Apache Kafka 4.3.1: 1-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int16, int32, int64


class RenewDelegationTokenResponse(Message, kind="response", versions="0-2", flexible="2+", api_key=39):
    error_code: int = int16("0+", default=0)
    expiry_timestamp_ms: int = int64("0+", default=0)
    throttle_time_ms: int = int32("0+", default=0)
