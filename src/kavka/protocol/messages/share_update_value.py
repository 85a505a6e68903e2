"""ShareUpdateValue: coordinator's value, record type 1, version 0, flexible from 0.

Apache Kafka 4.3.1: 0.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int8, int16, int32, int64


class StateBatch(Struct):
    first_offset: int = int64("0+", default=0)
    last_offset: int = int64("0+", default=0)
    delivery_state: int = int8("0+", default=0)
    delivery_count: int = int16("0+", default=0)


class ShareUpdateValue(Message, kind="coordinator-value", versions="0", flexible="0+", api_key=1):
    snapshot_epoch: int = int32("0+", default=0)
    leader_epoch: int = int32("0+", default=0)
    start_offset: int = int64("0+", default=0)
    delivery_complete_count: int = int32("0+", tag=0, default=-1)
    state_batches: list[StateBatch] = array(StateBatch, "0+", default_factory=list)
