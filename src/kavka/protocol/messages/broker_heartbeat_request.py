"""BrokerHeartbeatRequest: request, API key 63, versions 0-2, flexible from 0.

Apache Kafka 3.9.2: 0-1; Apache Kafka 4.3.1: 0-2.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from uuid import UUID

from kavka.protocol.schema import Message, array, boolean, int32, int64


class BrokerHeartbeatRequest(Message, kind="request", versions="0-2", flexible="0+", api_key=63):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("0+", default=-1)
    current_metadata_offset: int = int64("0+", default=0)
    want_fence: bool = boolean("0+", default=False)
    want_shut_down: bool = boolean("0+", default=False)
    offline_log_dirs: list[UUID] = array("uuid", "1+", tag=0, default_factory=list)
    cordoned_log_dirs: list[UUID] | None = array("uuid", "2+", nullable="2+", tag=1, default=None)
