"""What a leader checks before it appends a producer's batch, with the errors of Kafka.

Decides whether a batch is accepted and, if not, with which code and because of which records. It must not know logs,
requests or producers' state (sequences and epochs are the log's matter), and it takes `now_ms` instead of a clock.

Invariants
  I1  What is accepted is readable: as many well-formed records as the header says, in a stream that the codec can read.
      The CRC is right, and the timestamp type and the largest timestamp are those that readers find. The exception is a
      compressed batch of more than `INFLATED_RECORDS_BYTES` or `LOOKED_AT_PARTS`, which is trusted (see below).
  I2  What is refused is unchanged.
  I3  Time and memory are linear in the batch's bytes, inflated to `INFLATED_RECORDS_BYTES` at most, and to
      `MAX_INFLATED_BYTES` where the topic must know every record; of a deflated batch `LOOKED_AT_PARTS` records and
      headers are looked at one by one.

Source: Kafka's ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator, in their order;
KIP-32 and KIP-937 (timestamps), KIP-110 (zstd), KIP-467 (which records were bad).

What it costs: as in Kafka every batch is inflated and every record is looked at (`kavka.records.survey`). The append of
a batch of 1 MB, in ms of processor time on a busy machine, with the records believed and with them looked at: 9,000 of
100 B 0.2 and 0.5, 950 of 1 KiB 0.2 and 0.4; of lengths that differ, 9,000 records 0.2 and 6.5, 950 of them 0.2 and 1.0.
Deflated, 950 records of 1 KiB: lz4 0.1 and 0.6, snappy 0.2 and 0.8, zstd 0.1 and 1.1, gzip 0.1 and 3.0
(benchmarks/log_micro.py has the same batches). Many small records of lengths that differ pay most; a core still takes
over a million of them a second.

Where this is less than Kafka, and why. Kafka inflates in a stream, on a thread of its own. Here the event loop waits,
so that a deflated batch of more than `INFLATED_RECORDS_BYTES`, which no producer makes with its default settings, is
inflated only where the topic needs it: compacted topics, where each record must have a key, and topics that bound how
old a record may be. Of others its frame and the headers of its blocks are looked at, and its header is believed. A
producer that lies about these harms the readers of its own batch and nobody else's records. The same holds behind
`LOOKED_AT_PARTS` records and headers of lengths that differ: 16 MiB of the smallest ones deflate to a few KiB, and
looking at all of them takes over a second. Where the topic needs them all such a batch is MESSAGE_TOO_LARGE, which
clients answer with smaller ones.
Where this is more than Kafka: Kafka does not compare the length of a deflated record with its fields, and accepts what
its own consumer then fails on, for good. A length of more than five bytes, or offsets of deflated records that do not
count up, are exceptions that nobody catches there, and answered with UNKNOWN_SERVER_ERROR; here with INVALID_RECORD.
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.errors import BadRecord, CorruptRecords, ErrorCode, RecordsError
from kavka.model import NO_TIMESTAMP, LeaderEpoch
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
from kavka.records.record import MIN_RECORD_SIZE, UNBOUNDED, add_timestamps, walk_records
from kavka.records.survey import RecordsSurvey, survey

INFLATED_RECORDS_BYTES = 16 * 1024 * 1024
"""What any deflated batch may inflate to on the event loop: 10 to 60 ms, by codec."""
LOOKED_AT_PARTS = 1 << 18
"""Records and headers of a deflated batch that are looked at one by one: 0.2 s, and 0.5 s where bad ones are named."""
LOOKED_AT_BLOCKS = 64
"""Blocks of a larger one whose headers are looked at, under 1 us each."""
LISTED_RECORDS = 10_000
"""Bad records of a batch that are named; with more of them an answer would be many times as long as its request."""
FIRST_ZSTD_VERSION = 7
"""First version of Produce that may carry zstd (KIP-110)."""
_CREATE_TIME, _LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
NO_LIMIT_MS = LONG_MAX
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
    codec: Compression | None = None
    """compression.type, or None for the producer's: batches of another codec are laid out anew."""


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

    `records` must be writable: the type and the largest of the timestamps are set right. What follows the batch and is
    no complete batch is ignored, as Kafka does; append `.view`, not `records`. Blocks for as long as the opening says.

    Raises `RecordsError` with the code to answer:
      INVALID_RECORD       no batch or more than one, format 0 or 1, a base offset other than 0, a control batch,
                           a count of records that contradicts the offsets, a producer without a sequence, a malformed
                           record, more or fewer than counted, deflated records whose offsets do not count up;
                           with `bad_records`: no key in a compacted topic
      CORRUPT_MESSAGE      an impossible length, an unknown magic, a wrong CRC
      MESSAGE_TOO_LARGE    over max.message.bytes, or inflated over what is looked at where every record must be
      INVALID_TIMESTAMP    with `bad_records`: too old, too far in the future, or stamped as if by a broker
      UNKNOWN_SERVER_ERROR an unknown codec, or bytes that are not of the codec named (sic: Kafka has no better answer)
    """
    batch = single_batch(records)
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
    _check_header(header)
    max_timestamp = _check_records(batch, rules, now_ms)
    if rules.timestamp_type is _LOG_APPEND_TIME:
        max_timestamp = now_ms
    if max_timestamp == header.max_timestamp and rules.timestamp_type is header.timestamp_type:
        return batch
    set_timestamp_type(batch, rules.timestamp_type, max_timestamp)
    return RecordBatch(view, read_header(view))


def validate_replicated(records: memoryview, last_epoch: LeaderEpoch | None = None) -> list[RecordBatch]:
    """The complete batches that a leader sent to its follower, each with its CRC checked; raises `CorruptRecords`.

    Their records were looked at by the leader. What begins with a batch of a later epoch than `last_epoch` is left out:
    the leader has written over what it was about to send.
    """
    batches: list[RecordBatch] = []
    position, end = 0, len(records)
    while position < end:
        batch = batch_at(records, position)
        if batch is None or (last_epoch is not None and batch.header.partition_leader_epoch > last_epoch):
            break
        if not batch.crc_is_right():
            raise CorruptRecords(
                f"batch {len(batches)} at offset {batch.header.base_offset}: the CRC is not {batch.header.crc:#010x}"
            )
        batches.append(batch)
        position += LENGTH_PREFIX_SIZE + batch.header.batch_length
    return batches


def single_batch(records: memoryview) -> RecordBatch:
    """The one batch in a client's `records`. Raises `RecordsError` if there is none, or more than one."""
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


def most_parts(header: BatchHeader) -> int:
    """The bound on what is looked at one by one; max.message.bytes bounds it in batches that are not deflated."""
    return LOOKED_AT_PARTS if header.attributes & CODEC_MASK else UNBOUNDED


def _check_header(header: BatchHeader) -> None:
    count = header.record_count
    if header.last_offset_delta < 0:
        raise _invalid(f"the batch has an invalid offset range: [0, {header.last_offset_delta}]")
    if count <= 0:
        raise _invalid(f"invalid count of records: {count}")
    if header.last_offset_delta + 1 != count:
        raise _invalid(f"the batch has offsets [0, {header.last_offset_delta}] and a count of {count}")
    if header.attributes & CONTROL_FLAG:
        raise _invalid("clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise _invalid(f"invalid sequence number {header.base_sequence} of producer {header.producer_id}")


def _check_records(batch: RecordBatch, rules: ProduceRules, now_ms: int) -> int:
    """The largest timestamp (ms) that readers find in the batch, -1 if there is none. Raises `RecordsError` for a bad
    record."""
    header = batch.header
    payload: Buffer | None
    found: RecordsSurvey | None
    if header.attributes & CODEC_MASK:
        payload = _inflated(batch, rules)
        found = None if payload is None else _surveyed(payload, header, rules)
    else:
        payload = batch.view[HEADER_SIZE:]
        found = survey(payload, header.record_count)
    if payload is None or found is None:
        fault = _timestamp_fault(header.max_timestamp, header, rules, now_ms)
        if fault is not None:
            raise RecordsError(ErrorCode.INVALID_TIMESTAMP, fault)
        return header.max_timestamp
    if not found.counts_up and header.attributes & CODEC_MASK and rules.codec in (None, header.codec_id):
        raise _invalid("the offsets of the batch's records do not count up from 0")
    least = header.base_timestamp + found.min_timestamp_delta
    greatest = header.base_timestamp + found.max_timestamp_delta
    if header.attributes & LOG_APPEND_TIME_FLAG:
        least = greatest = header.max_timestamp
    elif least < LONG_MIN or greatest > LONG_MAX:
        least, greatest = _wrapped_span(payload, header)
    if rules.compacted and not found.all_have_keys:
        _refuse_bad_records(payload, header, rules, now_ms)
    elif header.attributes & LOG_APPEND_TIME_FLAG:
        if _timestamp_fault(header.max_timestamp, header, rules, now_ms) is not None:
            _refuse_bad_records(payload, header, rules, now_ms)
    elif rules.timestamp_type is _CREATE_TIME and (
        now_ms - least > rules.timestamp_before_max_ms or greatest - now_ms > rules.timestamp_after_max_ms
    ):
        _refuse_bad_records(payload, header, rules, now_ms)
    return max(greatest, NO_TIMESTAMP)


def _surveyed(payload: Buffer, header: BatchHeader, rules: ProduceRules) -> RecordsSurvey | None:
    """What the records of a deflated batch say; None for those of one that is believed."""
    try:
        return survey(payload, header.record_count, most_parts=LOOKED_AT_PARTS)
    except RecordsError as failure:
        if failure.code is not ErrorCode.MESSAGE_TOO_LARGE or _must_know_every_record(rules):
            raise
        return None


def _wrapped_span(payload: Buffer, header: BatchHeader) -> tuple[int, int]:
    """The least and the greatest timestamp (ms) of records some of which leave the 64 bits: behind the largest comes
    the smallest, so that the deltas' order is not that of the timestamps."""
    walk = walk_records(payload, header.record_count, most_parts=most_parts(header))
    timestamps = [add_timestamps(header.base_timestamp, delta) for _, delta, _ in walk]
    return min(timestamps), max(timestamps)


def _refuse_bad_records(payload: Buffer, header: BatchHeader, rules: ProduceRules, now_ms: int) -> None:
    """Returns if the topic accepts all records. Otherwise raises, with a list of those that it does not accept."""
    bad: list[BadRecord] = []
    walk = walk_records(payload, header.record_count, most_parts=most_parts(header))
    for index, (_, delta, has_key) in enumerate(walk):
        if len(bad) == LISTED_RECORDS:
            break
        if rules.compacted and not has_key:
            bad.append(BadRecord(index, ErrorCode.INVALID_RECORD, "no key, which a compacted topic needs"))
            continue
        timestamp = add_timestamps(header.base_timestamp, delta)
        if header.attributes & LOG_APPEND_TIME_FLAG:
            timestamp = header.max_timestamp
        fault = _timestamp_fault(timestamp, header, rules, now_ms)
        if fault is not None:
            bad.append(BadRecord(index, ErrorCode.INVALID_TIMESTAMP, fault))
    if not bad:
        return
    # One record with a wrong timestamp gives the whole batch its code.
    first = next((record for record in bad if record.code is ErrorCode.INVALID_TIMESTAMP), bad[0])
    raise RecordsError(
        first.code,
        f"{len(bad)} of the batch's {header.record_count} records are invalid; "
        f"record {first.record_index}: {first.message}",
        bad_records=bad,
    )


def _timestamp_fault(timestamp: int, header: BatchHeader, rules: ProduceRules, now_ms: int) -> str | None:
    """What is wrong with the timestamp (ms) of a record, if anything is."""
    if rules.timestamp_type is _CREATE_TIME and timestamp != NO_TIMESTAMP:
        age_ms = add_timestamps(now_ms, -timestamp)
        if age_ms > rules.timestamp_before_max_ms or add_timestamps(0, -age_ms) > rules.timestamp_after_max_ms:
            return (
                f"timestamp {timestamp} is not within "
                f"[{now_ms - rules.timestamp_before_max_ms}, {now_ms + rules.timestamp_after_max_ms}]"
            )
    elif header.attributes & LOG_APPEND_TIME_FLAG:
        return "a producer must not set the timestamp type to LogAppendTime"
    return None


def _inflated(batch: RecordBatch, rules: ProduceRules) -> Buffer | None:
    """The bytes of a deflated batch's records; None for those of one that is believed."""
    header = batch.header
    must_know_all = _must_know_every_record(rules)
    try:
        try:
            return batch.inflate(max_size=MAX_INFLATED_BYTES if must_know_all else INFLATED_RECORDS_BYTES)
        except RecordsError as failure:
            if failure.code is not ErrorCode.MESSAGE_TOO_LARGE or must_know_all:
                raise
        most_bytes = check_frame(header.compression, batch.payload, max_blocks=LOOKED_AT_BLOCKS)
    except CorruptRecords as failure:
        raise _unreadable(failure) from failure
    if header.record_count * MIN_RECORD_SIZE > most_bytes:
        raise _invalid(f"{header.record_count} records cannot fit into {most_bytes} bytes")
    return None


def _must_know_every_record(rules: ProduceRules) -> bool:
    return rules.compacted or (rules.timestamp_before_max_ms != NO_LIMIT_MS and rules.timestamp_type is _CREATE_TIME)


def _unreadable(failure: CorruptRecords) -> RecordsError:
    """Kafka's answer to bytes that their codec cannot read; unlike CORRUPT_MESSAGE no producer sends them again."""
    return RecordsError(ErrorCode.UNKNOWN_SERVER_ERROR, failure.message)


def _invalid(message: str) -> RecordsError:
    return RecordsError(ErrorCode.INVALID_RECORD, message)
