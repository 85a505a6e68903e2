"""Where whole TLS records end, and what first bytes look like."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.runtime.tls.tls_channel import TlsSession
from kavka.security.tls_records import LARGEST_RECORD_BYTES, NotTls, ends_encrypted, require_hello, whole_records
from tests.kit.certificates import Authority


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


@pytest.mark.parametrize(
    ("version", "curve", "is_complete"),
    [
        (ssl.TLSVersion.TLSv1_3, "prime256v1", True),
        (ssl.TLSVersion.TLSv1_2, "prime256v1", False),
        (ssl.TLSVersion.TLSv1_3, "secp384r1", False),
    ],
    ids=["TLS 1.3", "TLS 1.2", "another hello is asked for"],
)
def test_an_answer_that_ends_encrypted_is_all_of_the_servers_part(
    tmp_path: Path, version: ssl.TLSVersion, curve: str, *, is_complete: bool
) -> None:
    """`curve`: the only one that the server takes. The client of TLS 1.3 guesses that it is X25519 or P-256."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(Authority().sign("broker").write(tmp_path / "broker.pem"))
    server.set_ecdh_curve(curve)
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode, client.maximum_version = False, ssl.CERT_NONE, version
    if curve == "prime256v1":
        client.set_ecdh_curve(curve)
    _, hello = TlsSession(client, server_side=False).step(b"")
    _, answer = TlsSession(server, server_side=True).step(hello)
    assert answer
    assert ends_encrypted(answer) is is_complete


def test_nothing_ends_encrypted() -> None:
    assert not ends_encrypted(b"")
