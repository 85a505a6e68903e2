"""The trace context of records: found in the first record of a batch that is not compressed, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.broker.decisions.trace_context import MAX_RECORD_BYTES, traceparent_of
from kavka.records.builder import BatchBuilder
from kavka.records.compression import Compression

CONTEXT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def batch(*headers: tuple[str, bytes | None], value: bytes = b"v", codec: Compression = Compression.NONE) -> memoryview:
    builder = BatchBuilder(compression=codec)
    builder.append(5, b"k", value, headers)
    builder.append(6, b"k", b"second", [("traceparent", CONTEXT.replace(b"0af7", b"ffff"))])
    return memoryview(bytearray(builder.build()))


def test_the_first_records_context_is_taken() -> None:
    assert traceparent_of(batch(("other", b"x"), ("empty", None), ("traceparent", CONTEXT))) == CONTEXT.decode()
    assert traceparent_of(batch()) == ""


@pytest.mark.parametrize(
    "value",
    [
        b"",
        None,
        CONTEXT.upper(),
        CONTEXT + b"x",
        b"ff" + CONTEXT[2:],
        b"00-" + b"0" * 32 + CONTEXT[35:],
        CONTEXT[:36] + b"0" * 16 + b"-01",
        b"<script>",
    ],
)
def test_what_is_no_context_is_none(value: bytes | None) -> None:
    assert traceparent_of(batch(("traceparent", value))) == ""


def test_a_compressed_batch_is_not_inflated_and_a_long_record_not_read() -> None:
    assert traceparent_of(batch(("traceparent", CONTEXT), codec=Compression.GZIP)) == ""
    assert traceparent_of(batch(("traceparent", CONTEXT), value=b"x" * MAX_RECORD_BYTES)) == ""


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damaged_bytes_have_none_or_the_context_that_is_there(damage: bytes, at: int) -> None:
    damaged = bytearray(batch(("traceparent", CONTEXT)))
    damaged[at : at + len(damage)] = damage[: max(len(damaged) - at, 0)]
    found = traceparent_of(memoryview(damaged))
    assert found == "" or len(found) == len(CONTEXT)
