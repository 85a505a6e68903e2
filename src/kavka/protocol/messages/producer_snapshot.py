"""ProducerSnapshot: stored value, version 1, never flexible.

Apache Kafka 4.3.1: 1.
Written by tools/generate_messages.py; do not edit.
"""

from __future__ import annotations

from kavka.protocol.schema import Message, Struct, array, int16, int32, int64, uint32


class ProducerEntry(Struct):
    producer_id: int = int64("1+", default=0)
    epoch: int = int16("1+", default=0)
    last_sequence: int = int32("1+", default=0)
    last_offset: int = int64("1+", default=0)
    offset_delta: int = int32("1+", default=0)
    timestamp: int = int64("1+", default=0)
    coordinator_epoch: int = int32("1+", default=0)
    current_txn_first_offset: int = int64("1+", default=0)


class ProducerSnapshot(Message, kind="data", versions="1"):
    crc: int = uint32("1+", default=0)
    producer_entries: list[ProducerEntry] = array(ProducerEntry, "1+", default_factory=list)
