"""The trace context that a producer's instrumentation put into a record's headers.

Decides which records are looked at: the first one of a batch, where the batch is not compressed. Instrumented clients
give each record a context of its own, and a request may have thousands: the first stands for them. To inflate a batch
for one header would cost more than everything else that a sampled request costs.

    I1  what is no context of the standard's form is none, whatever it is: no other bytes of a record are kept
    I2  at most MAX_RECORD_BYTES are read

Source: W3C Trace Context; OpenTelemetry's conventions for Kafka put it into the header `traceparent`.
"""

from __future__ import annotations

import re
from typing import Final

from kavka.errors import RecordsError
from kavka.records.batch import batch_at
from kavka.records.compression import Compression
from kavka.records.record import iterate_records, read_varint

HEADER: Final = "traceparent"
MAX_RECORD_BYTES: Final = 64 * 1024
_LONGEST_VARINT: Final = 10
_CONTEXT: Final = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent_of(records: memoryview) -> str:
    """The context of the first record, as its header has it; empty where there is none."""
    try:
        batch = batch_at(records)
        if batch is None or batch.header.compression is not Compression.NONE or batch.header.record_count < 1:
            return ""
        payload = batch.payload
        length, begins = read_varint(bytes(payload[:_LONGEST_VARINT]), 0)
        if not 0 < length <= MAX_RECORD_BYTES:
            return ""
        (record,) = iterate_records(payload[: begins + length], 1, base_offset=0, base_timestamp=0)
    except RecordsError:
        return ""
    for name, value in record.headers:
        if name == HEADER and value is not None and _CONTEXT.fullmatch(value):
            return bytes(value).decode()
    return ""
