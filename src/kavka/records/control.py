"""Control records: the markers that end a transaction in a partition.

Decides the bytes of a marker and how they are read. Knows nothing of transactions' states.

Source: KIP-98. Key: version i16 (0), type i16 (0 abort, 1 commit). Value: version i16 (0), coordinator epoch i32.
A marker stands alone in a batch with the attributes transactional and control and without a sequence.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from kavka.errors import CorruptRecords
from kavka.records.batch import NO_SEQUENCE, RecordBatch
from kavka.records.builder import BatchBuilder, ProducerStamp

_KEY = struct.Struct("!hh")
_VALUE = struct.Struct("!hi")
MAX_MARKER_BYTES = 4096
"""Bound on a control batch's inflated bytes; a marker has 17."""


class ControlType(IntEnum):
    """What a marker says of its transaction."""

    ABORT = 0
    COMMIT = 1


class EndTransactionMarker(NamedTuple):
    """One marker, of the producer and epoch that its batch names."""

    control_type: ControlType
    coordinator_epoch: int


def build_marker(
    marker: EndTransactionMarker, *, producer_id: int, producer_epoch: int, timestamp: int, base_offset: int = 0
) -> bytes:
    """A batch with the one marker; `timestamp` in ms."""
    builder = BatchBuilder()
    builder.append(timestamp, _KEY.pack(0, marker.control_type), _VALUE.pack(0, marker.coordinator_epoch))
    stamp = ProducerStamp(producer_id, producer_epoch, NO_SEQUENCE, is_transactional=True, is_control=True)
    return builder.build(stamp, base_offset=base_offset)


def read_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """The marker in a control batch, or None if the batch holds another kind of control record.

    Raises `CorruptRecords` if it holds no control record at all, or one of a version below 0; later ones only have more
    fields.
    """
    record = next(batch.records(max_size=MAX_MARKER_BYTES), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecords(f"control batch at offset {batch.header.base_offset} without a control record")
    version, control_type = _KEY.unpack_from(record.key)
    if version < 0:
        raise CorruptRecords(f"control record at offset {batch.header.base_offset} of version {version}")
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecords(f"marker at offset {batch.header.base_offset} without a coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(record.value)
    if version < 0:
        raise CorruptRecords(f"marker at offset {batch.header.base_offset} of version {version}")
    return EndTransactionMarker(ControlType(control_type), coordinator_epoch)
