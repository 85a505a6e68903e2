"""ControlledShutdownRequest: request, API key 7, versions 0-3, flexible from 3.

Apache Kafka 3.9.2: 0-3.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, int32, int64


class ControlledShutdownRequest(Message, kind="request", versions="0-3", flexible="3+", api_key=7):
    broker_id: int = int32("0+", default=0)
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
