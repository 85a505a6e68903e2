"""TLS records: where whole ones end in a buffer, and what a connection's first bytes look like.

Decides by five bytes of each record alone. Must not know keys, sockets or OpenSSL.

I1  What is given out is whole records only: a peer that sends a record byte by byte costs its bytes and nothing else.
I2  A length that no record may have is refused at once, not waited for.

Source: RFC 8446, section 5; RFC 5246, section 6.2.
"""

from __future__ import annotations

from typing import Final

HEADER_BYTES: Final = 5
LARGEST_RECORD_BYTES: Final = 16 * 1024 + 2048
"""What a record may hold: 16 KiB, and what encryption adds (TLS 1.2 allows most)."""
CHANGE_CIPHER, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = 20, 22, 23, 24
_CLIENT_HELLO: Final = 1
_HTTP: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")


class NotTls(ValueError):
    """Bytes that are no TLS, with what they look like."""


def whole_records(data: bytes | bytearray | memoryview, end: int) -> tuple[int, int]:
    """Where the last whole record in data[:end] ends, and how many there are. Raises NotTls."""
    position = count = 0
    while position + HEADER_BYTES <= end:
        if not CHANGE_CIPHER <= data[position] <= HEARTBEAT or data[position + 1] != 3:
            raise NotTls(f"bytes that are no TLS record: {bytes(data[position : position + HEADER_BYTES])!r}")
        length = data[position + 3] << 8 | data[position + 4]
        if length > LARGEST_RECORD_BYTES:
            raise NotTls(f"a TLS record that says it has {length} bytes")
        following = position + HEADER_BYTES + length
        if following > end:
            break
        position = following
        count += 1
    return position, count


def ends_encrypted(records: bytes) -> bool:
    """Whether the last of these whole records is encrypted as TLS 1.3 has it. Of what a server answers to a hello this
    is so where its part of the handshake is complete; in TLS 1.2, and where it asks for another hello, it is not."""
    last = position = 0
    while position < len(records):
        last = records[position]
        position += HEADER_BYTES + (records[position + 3] << 8 | records[position + 4])
    return last == APPLICATION_DATA


def require_hello(data: bytes, security_protocol: str) -> None:
    """Raises NotTls where a connection's first bytes cannot begin a client's hello. `security_protocol` is the
    listener's: what a client that speaks in clear must set."""
    if not data or (data[0] == HANDSHAKE and data[1:2] in (b"", b"\x03")):
        if len(data) > HEADER_BYTES and data[HEADER_BYTES] != _CLIENT_HELLO:
            raise NotTls("a TLS handshake that begins without a client's hello")
        return
    if data[:4] in _HTTP or any(method.startswith(data[:4]) for method in _HTTP):
        raise NotTls(f"HTTP (the bytes {data[:16]!r}): this port speaks Kafka's protocol under TLS")
    if data[0] == 0:
        raise NotTls(f"Kafka's protocol without TLS: set security.protocol={security_protocol} in the client")
    raise NotTls(f"no TLS (the bytes {data[:16]!r})")
