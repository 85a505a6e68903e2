"""BrokerHeartbeatResponse: response, API key 63, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, boolean, int16, int32


class BrokerHeartbeatResponse(Message, kind="response", versions="0-2", flexible="0+", api_key=63):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+", default=0)
    is_caught_up: bool = boolean("0+", default=False)
    is_fenced: bool = boolean("0+", default=True)
    should_shut_down: bool = boolean("0+", default=False)
