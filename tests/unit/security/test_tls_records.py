"""Where whole TLS records end, and what first bytes look like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security.tls_records import LARGEST_RECORD_BYTES, NotTls, require_hello, whole_records


def record(size: int, kind: int = 23) -> bytes:
    return bytes([kind, 3, 3]) + size.to_bytes(2) + bytes(size)


@given(st.lists(st.integers(0, 400), max_size=6), st.data())
def test_what_is_given_out_ends_with_a_record_however_the_stream_is_cut(sizes: list[int], data: st.DataObject) -> None:
    stream = b"".join(map(record, sizes))
    cut = data.draw(st.integers(0, len(stream)))
    end, count = whole_records(stream, cut)
    whole = b"".join(map(record, sizes[:count]))
    assert end == len(whole) <= cut
    assert count == len(sizes) or len(whole) + len(record(sizes[count])) > cut


@pytest.mark.parametrize("data", [b"\x10\x03\x03\x00\x00", b"\x19\x03\x03\x00\x00", b"\x17\x02\x03\x00\x00"])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(NotTls, match="no TLS record"):
        whole_records(data, len(data))


def test_a_length_that_no_record_has_is_refused_at_once() -> None:
    data = bytes([23, 3, 3]) + (LARGEST_RECORD_BYTES + 1).to_bytes(2)
    with pytest.raises(NotTls, match=str(LARGEST_RECORD_BYTES + 1)):
        whole_records(data, len(data))


@pytest.mark.parametrize("data", [b"", b"\x16", b"\x16\x03", b"\x16\x03\x01\x02\x00\x01"])
def test_the_beginning_of_a_hello_may_come_in_pieces(data: bytes) -> None:
    require_hello(data, "SSL")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_hello_or_not(data: bytes) -> None:
    for read in (lambda bytes_: require_hello(bytes_, "SSL"), lambda bytes_: whole_records(bytes_, len(bytes_))):
        try:
            read(data)
        except NotTls:
            pass
