"""Which batches a log accepts from a client, from this broker, and from the leader.

Decides on bytes, settings and the log end. It must not know where the batches are written. A batch that is refused
raises `RecordsError` with the code to answer; nothing was changed then but the bytes of the request.

Source: Kafka's UnifiedLog.append and analyzeAndValidateRecords; kavka.records.validation has the checks of the records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from kavka.errors import CorruptRecords, ErrorCode, InvariantViolation, RecordsError
from kavka.log.log_config import LogConfig
from kavka.model import Offset, TopicPartition
from kavka.records.batch import RecordBatch, batch_at
from kavka.records.builder import recompress
from kavka.records.compression import Compression
from kavka.records.control import EndTransactionMarker, read_marker
from kavka.records.validation import most_parts, validate_produced

Markers: TypeAlias = Mapping[Offset, EndTransactionMarker | None]
"""What the control batches among others say, by their base offsets."""


def accept_produced(view: memoryview, config: LogConfig, now_ms: int) -> RecordBatch:
    """The batch that a client sent, in the codec of the topic. Looks at every record, which blocks."""
    batch = validate_produced(view, config.produce_rules, now_ms)
    codec = config.compression_type
    if codec is not None and batch.header.codec_id != codec:
        return _recompressed(batch, codec, config)
    return batch


def accept_own(view: memoryview, config: LogConfig) -> RecordBatch:
    """The batch that this broker built itself, a coordinator's for example."""
    batch = batch_at(view)
    if batch is None or len(batch.view) != len(view):
        raise InvariantViolation(f"{len(view)} bytes from a coordinator are not one batch")
    if len(view) > config.max_message_bytes:
        raise RecordsError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(view)} bytes, over max.message.bytes of {config.max_message_bytes}",
        )
    return batch


def over_segment_bytes(size: int, segment_bytes: int) -> RecordsError:
    """The refusal of a batch that fits into no segment."""
    return RecordsError(
        ErrorCode.RECORD_LIST_TOO_LARGE, f"the batch has {size} bytes, over segment.bytes of {segment_bytes}"
    )


def check_order(batches: list[RecordBatch], log_end_offset: Offset, partition: TopicPartition) -> None:
    """Raises `CorruptRecords` if a batch from the leader starts before the log end, or before another one ends."""
    next_offset = log_end_offset
    for index, batch in enumerate(batches):
        header = batch.header
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise CorruptRecords(
                f"{partition}: batch {index} from the leader has the offsets [{header.base_offset}, "
                f"{header.last_offset}], expected none below {next_offset}"
            )
        next_offset = header.last_offset + 1


def read_markers(batches: list[RecordBatch]) -> Markers:
    """What the control batches say. Raises `RecordsError` if one cannot be read: once the batches are written there
    is no way back."""
    return {
        header.base_offset: read_marker(batch)
        for batch in batches
        # A control batch that compaction has emptied says nothing any more.
        if (header := batch.header).is_control and header.producer_id >= 0 and header.record_count
    }


def _recompressed(batch: RecordBatch, codec: Compression, config: LogConfig) -> RecordBatch:
    laid_out = recompress(batch, codec, level=config.compression_level, most_parts=most_parts(batch.header))
    changed = batch_at(memoryview(bytearray(laid_out)))
    assert changed is not None
    if len(changed.view) > config.max_message_bytes:
        raise RecordsError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(changed.view)} bytes with the codec {codec.name} of the topic, over "
            f"max.message.bytes of {config.max_message_bytes}",
        )
    return changed
