"""What a leader checks before it appends a producer's batch, with the errors of Kafka.

Decides whether a batch is accepted and, if not, with which code. It must not know logs, requests or producers' state
(sequences and epochs are the log's matter), and it takes `now_ms` instead of reading a clock.

Invariants
  I1  `validate_produced` costs the same for every batch size, but for the CRC: at most `WALKED_RECORDS` records and
      `WALKED_BLOCKS` blocks are looked at, and at most `INFLATED_RECORDS_BYTES` are inflated.
  I2  What is refused is unchanged. What is accepted has a right CRC, and carries the timestamp type of the topic.
  I3  `validate_records` inflates at most the bytes that its caller allows. It blocks: run it on a worker.

Source: Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator, in their order;
KIP-32 and KIP-937 (timestamps), KIP-110 (zstd).

Where this is less than Kafka, and why. Kafka inflates and walks every batch, which costs it most of its processor time
on produce. Here a batch is walked only where the topic needs it (`needs_record_check`: compacted topics, where each
record must have a key, and topics that bound how old a record may be) or where it is small; of a larger compressed
batch the frame and the headers of its blocks are looked at, which tells garbage from a stream of the codec.
In other batches the header is believed on what only the records could contradict: their number (checked against the
least size that so many can have), their offset deltas, the largest timestamp, and that the blocks inflate. A producer
that lies about these harms the readers of its own batch and nobody else's records.
Where this is more than Kafka: a walked batch whose offset deltas are not 0, 1, 2, ... is refused (INVALID_RECORD);
Kafka ignores wrong deltas in plain batches and writes compressed ones anew.
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.model import NO_TIMESTAMP
from kavka.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LENGTH_PREFIX_SIZE,
    LOG_APPEND_TIME_FLAG,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    RecordBatch,
    TimestampType,
    batch_at,
    read_header,
    set_timestamp_type,
)
from kavka.records.compression import MAX_INFLATED_BYTES, Buffer, Compression, check_frame
from kavka.records.record import MIN_RECORD_SIZE, lengths_add_up, walk_records

WALKED_BLOCKS = 64
"""Blocks of a deflated batch whose headers are looked at, under 1 us each; a default batch of 1 MB has up to 32."""
WALKED_RECORDS = 8
"""Batches of up to so many records are walked length by length on the way in, about 0.2 us each. Small batches are
where a broken client is met first, and the bound keeps the cost of a batch constant."""
INFLATED_BATCH_BYTES = 1024
"""Deflated batches of up to this size and of at most WALKED_RECORDS are inflated for that, in 5 to 20 us."""
INFLATED_RECORDS_BYTES = 32 * 1024
"""What such a batch may inflate to; above it is believed, so that a small bomb cannot hold up the loop."""
FIRST_ZSTD_VERSION = 7
"""First version of Produce that may carry zstd (KIP-110)."""
NO_LIMIT_MS = (1 << 63) - 1
"""Value of message.timestamp.before.max.ms and message.timestamp.after.max.ms that stands for no limit."""


class ProduceRules(NamedTuple):
    """The settings of a topic that decide which batches it takes; made once per change of configuration."""

    max_message_bytes: int
    """max.message.bytes: bound on a whole batch as it comes, deflated."""
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """message.timestamp.type"""
    timestamp_before_max_ms: int = NO_LIMIT_MS
    """message.timestamp.before.max.ms"""
    timestamp_after_max_ms: int = NO_LIMIT_MS
    """message.timestamp.after.max.ms"""
    compacted: bool = False
    """Whether cleanup.policy contains compact."""


class RecordsSummary(NamedTuple):
    """What only a look at every record tells."""

    max_timestamp: int
    """ms; -1 where no record has one."""
    offset_delta_of_max_timestamp: int
    """Delta of the first record with `max_timestamp`; -1 where there is none."""
    inflated_bytes: int


def check_produce_version(records: memoryview, produce_version: int) -> None:
    """Refuses a codec that the version of Produce does not have: zstd before 7, UNSUPPORTED_COMPRESSION_TYPE."""
    if produce_version >= FIRST_ZSTD_VERSION or len(records) < HEADER_SIZE or records[MAGIC_OFFSET] != MAGIC:
        return  # What is no batch of this format is for `validate_produced` to refuse.
    if read_header(records).codec_id == Compression.ZSTD:
        raise RecordsError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"produce requests of version {produce_version} may not use zstd, which came with {FIRST_ZSTD_VERSION}",
        )


def validate_produced(records: memoryview, rules: ProduceRules, now_ms: int) -> RecordBatch:
    """The one batch that a client's `records` for one partition hold, fit to be appended.

    `records` must be writable where the topic stamps batches itself (LogAppendTime). What follows the batch and is no
    complete batch is ignored, as Kafka does; append `.view`, not `records`.

    Raises `RecordsError` with the code to answer:
      INVALID_RECORD       no batch or more than one, format 0 or 1, a base offset other than 0, a control batch,
                           a count of records that contradicts the offsets or the size, a producer without a sequence
      CORRUPT_MESSAGE      an impossible length, an unknown magic, a wrong CRC
      MESSAGE_TOO_LARGE    over max.message.bytes
      INVALID_TIMESTAMP    too far in the future, or stamped as if by a broker
      UNKNOWN_SERVER_ERROR an unknown codec, or bytes that are not of the codec named (sic: Kafka has no better answer)
    """
    batch = _single_batch(records)
    view, header = batch
    if header.base_offset:
        raise _invalid(f"the base offset of a produced batch should be 0 and is {header.base_offset}")
    if len(view) > rules.max_message_bytes:
        raise RecordsError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(view)} bytes, over max.message.bytes of {rules.max_message_bytes}",
        )
    if not batch.crc_is_right():
        raise CorruptRecords(f"the batch's CRC is not the {header.crc:#010x} that its header says")
    _check_counts(header)
    _check_payload(batch)
    attributes = header.attributes
    if attributes & CONTROL_FLAG:
        raise _invalid("clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"invalid sequence number {header.base_sequence} of producer {header.producer_id}")
    if rules.timestamp_type is TimestampType.CREATE_TIME:
        if header.max_timestamp - now_ms > rules.timestamp_after_max_ms:
            raise _out_of_range(header.max_timestamp, rules, now_ms)
        if attributes & LOG_APPEND_TIME_FLAG:
            if header.max_timestamp == NO_TIMESTAMP:
                raise _stamped_by_client()
            set_timestamp_type(batch, TimestampType.CREATE_TIME, header.max_timestamp)
    else:
        if attributes & LOG_APPEND_TIME_FLAG:
            raise _stamped_by_client()
        set_timestamp_type(batch, TimestampType.LOG_APPEND_TIME, now_ms)
    return batch


def needs_record_check(rules: ProduceRules) -> bool:
    """Whether every batch of the topic must go through `validate_records` before it is appended."""
    return rules.compacted or (
        rules.timestamp_before_max_ms != NO_LIMIT_MS and rules.timestamp_type is TimestampType.CREATE_TIME
    )


def validate_records(
    batch: RecordBatch, rules: ProduceRules, now_ms: int, *, max_inflated_bytes: int = MAX_INFLATED_BYTES
) -> RecordsSummary:
    """Looks at every record of a batch that `validate_produced` let through. Blocks for about 1 us a record.

    Raises `RecordsError` with the index of the first offending record in `batch_index`: INVALID_RECORD for a malformed
    record, a wrong count, wrong offset deltas or a missing key in a compacted topic; INVALID_TIMESTAMP;
    UNKNOWN_SERVER_ERROR where the codec cannot read the bytes; MESSAGE_TOO_LARGE where they inflate to more than
    `max_inflated_bytes`.
    """
    header = batch.header
    try:
        payload = batch.inflate(max_size=max_inflated_bytes)
    except CorruptRecords as failure:
        raise _unreadable(failure) from failure
    bounded = rules.timestamp_type is TimestampType.CREATE_TIME
    max_timestamp, delta_of_max = NO_TIMESTAMP, -1
    for expected, (offset_delta, timestamp_delta, has_key) in enumerate(walk_records(payload, header.record_count)):
        if offset_delta != expected:
            raise _invalid(f"record {expected} of the batch has the offset delta {offset_delta}", expected)
        if rules.compacted and not has_key:
            raise _invalid(f"record {expected} of the batch has no key, which a compacted topic needs", expected)
        timestamp = header.base_timestamp + timestamp_delta
        if bounded and timestamp != NO_TIMESTAMP:
            age_ms = now_ms - timestamp
            if age_ms > rules.timestamp_before_max_ms or -age_ms > rules.timestamp_after_max_ms:
                raise _out_of_range(timestamp, rules, now_ms, expected)
        if timestamp > max_timestamp:
            max_timestamp, delta_of_max = timestamp, offset_delta
    return RecordsSummary(max_timestamp, delta_of_max, len(payload))


def validate_replicated(records: memoryview) -> list[RecordBatch]:
    """The complete batches that a leader sent to its follower, each with its CRC checked.

    Raises `CorruptRecords` with the index of the batch; those before it are valid.
    """
    batches: list[RecordBatch] = []
    position, end = 0, len(records)
    while position < end:
        batch = batch_at(records, position)
        if batch is None:
            break
        if not batch.crc_is_right():
            raise CorruptRecords(
                f"batch at offset {batch.header.base_offset}: the CRC is not {batch.header.crc:#010x}",
                batch_index=len(batches),
            )
        batches.append(batch)
        position += LENGTH_PREFIX_SIZE + batch.header.batch_length
    return batches


def _single_batch(records: memoryview) -> RecordBatch:
    try:
        batch = batch_at(records)
        if batch is None:
            raise _invalid(f"{len(records)} bytes of records hold no batch")
        size = len(batch.view)
        if size != len(records) and batch_at(records, size) is not None:
            raise _invalid("a produce request may carry only one batch per partition")
    except CorruptRecords:
        raise
    except RecordsError as failure:
        # Since Produce 3 Kafka answers the old message formats so.
        raise _invalid(failure.message) from failure
    return batch


def _check_counts(header: BatchHeader) -> None:
    count = header.record_count
    if header.last_offset_delta < 0:
        raise _invalid(f"the batch has an invalid offset range: [0, {header.last_offset_delta}]")
    if count <= 0:
        raise _invalid(f"invalid count of records: {count}")
    if header.last_offset_delta + 1 != count:
        raise _invalid(f"the batch has offsets [0, {header.last_offset_delta}] and a count of {count}")


def _check_payload(batch: RecordBatch) -> None:
    """Whether the records' bytes can be what the header says of them, as far as a bounded look tells."""
    header = batch.header
    count = header.record_count
    payload: Buffer | None = batch.payload
    most_bytes = len(batch.view) - HEADER_SIZE
    if header.attributes & CODEC_MASK:
        try:
            most_bytes = check_frame(header.compression, batch.payload, max_blocks=WALKED_BLOCKS)
            payload = _inflate_small(batch)
        except CorruptRecords as failure:
            raise _unreadable(failure) from failure
    if count * MIN_RECORD_SIZE > most_bytes:
        raise _invalid(f"{count} records cannot fit into {most_bytes} bytes")
    if payload is not None and count <= WALKED_RECORDS and not lengths_add_up(payload, count):
        raise _invalid(f"the batch's bytes are not {count} records")


def _inflate_small(batch: RecordBatch) -> Buffer | None:
    """The records of a small deflated batch, or None for one that would take longer to inflate than it may."""
    if batch.header.record_count > WALKED_RECORDS or len(batch.view) > INFLATED_BATCH_BYTES:
        return None
    try:
        return batch.inflate(max_size=INFLATED_RECORDS_BYTES)
    except CorruptRecords:
        raise
    except RecordsError:
        return None  # More than the bound, which is for the deep check to judge.


def _unreadable(failure: CorruptRecords) -> RecordsError:
    """Kafka's answer to bytes that their codec cannot read; unlike CORRUPT_MESSAGE no producer sends them again."""
    return RecordsError(ErrorCode.UNKNOWN_SERVER_ERROR, failure.message)


def _invalid(message: str, record_index: int = -1) -> RecordsError:
    return RecordsError(ErrorCode.INVALID_RECORD, message, batch_index=record_index)


def _out_of_range(timestamp: int, rules: ProduceRules, now_ms: int, record_index: int = -1) -> RecordsError:
    return RecordsError(
        ErrorCode.INVALID_TIMESTAMP,
        f"timestamp {timestamp} is not within "
        f"[{now_ms - rules.timestamp_before_max_ms}, {now_ms + rules.timestamp_after_max_ms}]",
        batch_index=record_index,
    )


def _stamped_by_client() -> RecordsError:
    return RecordsError(ErrorCode.INVALID_TIMESTAMP, "a producer must not set the timestamp type to LogAppendTime")
