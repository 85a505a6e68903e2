"""TLS hellos written by hand, and what a server answers to them before anything is encrypted.

Decides the bytes of a client's hello for one version and some suites, and reads versions, suites, certificates and
requests for certificates out of the answer. Python's own TLS cannot ask for versions and suites that this machine's
OpenSSL was built without. Must not know sockets.

    answer     ServerHello, in TLS 1.2 and before also Certificate, CertificateRequest, ServerHelloDone; or an alert

I1  Whatever the bytes are, the outcome is an Answer or a NotTls.
I2  An answer is read up to MAX_ANSWER_BYTES.

Source: RFC 8446, section 4; RFC 5246, section 7.4; RFC 6066 (server names).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address
from struct import pack
from typing import Final

from kavka.security.tls_records import HEADER_BYTES, NotTls, whole_records

MAX_ANSWER_BYTES: Final = 256 * 1024
_ALERT, _HANDSHAKE = 21, 22
_SERVER_HELLO, _CERTIFICATE, _CERTIFICATE_REQUEST, _DONE = 2, 11, 13, 14
_NO_RENEGOTIATION: Final = 0x00FF
_GROUPS: Final = (0x001D, 0x0017, 0x0018, 0x0019)
"""x25519 and the three curves of NIST."""
_SIGNATURES: Final = (0x0403, 0x0503, 0x0603, 0x0804, 0x0805, 0x0806, 0x0401, 0x0501, 0x0601, 0x0807, 0x0203, 0x0201)


class Version(IntEnum):
    """A version of TLS: its number on the wire."""

    TLS_1_0 = 0x0301
    TLS_1_1 = 0x0302
    TLS_1_2 = 0x0303
    TLS_1_3 = 0x0304

    @property
    def title(self) -> str:
        """As `ssl.enabled.protocols` names it."""
        return "TLSv1" if self is Version.TLS_1_0 else f"TLSv1.{self.value - Version.TLS_1_0.value}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. `version` and `suite` are 0 where it refused; `is_whole`: nothing more is to be awaited."""

    version: int = 0
    suite: int = 0
    chain: tuple[bytes, ...] = ()
    asks_for_certificate: bool = False
    is_whole: bool = False


def hello(version: Version, suites: Sequence[int], host: str, random: bytes) -> bytes:
    """A client's hello that offers this version alone. `random`: 96 fresh bytes."""
    extensions = _extension(10, _numbers(_GROUPS)) + _extension(11, b"\x01\x00")
    if not _is_address(host):
        name = host.encode("idna")
        extensions += _extension(0, pack(">HBH", len(name) + 3, 0, len(name)) + name)
    if version >= Version.TLS_1_2:
        extensions += _extension(13, _numbers(_SIGNATURES))
    if version is Version.TLS_1_3:
        share = pack(">HH", _GROUPS[0], 32) + random[64:96]
        extensions += _extension(43, pack(">BH", 2, version)) + _extension(51, pack(">H", len(share)) + share)
    offered = suites if version is Version.TLS_1_3 else [*suites, _NO_RENEGOTIATION]
    body = pack(">H", min(version, Version.TLS_1_2)) + random[:32] + b"\x20" + random[32:64]
    body += _numbers(offered) + b"\x01\x00" + pack(">H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return pack(">BHH", _HANDSHAKE, Version.TLS_1_0, len(message)) + message


def read_answer(data: bytes) -> Answer:
    """What was said so far. Raises NotTls."""
    end, _ = whole_records(data, min(len(data), MAX_ANSWER_BYTES))
    position, messages = 0, b""
    while position < end:
        kind = data[position]
        following = position + HEADER_BYTES + int.from_bytes(data[position + 3 : position + 5], "big")
        if kind == _ALERT:
            return Answer(is_whole=True) if not messages else _read(messages, is_over=True)
        if kind != _HANDSHAKE:
            return _read(messages, is_over=True)  # What follows is encrypted: TLS 1.3.
        messages += data[position + HEADER_BYTES : following]
        position = following
    return _read(messages, is_over=len(data) >= MAX_ANSWER_BYTES)


def _read(messages: bytes, *, is_over: bool) -> Answer:
    version = suite = position = 0
    chain: tuple[bytes, ...] = ()
    asks = False
    while position + 4 <= len(messages):
        kind, length = messages[position], int.from_bytes(messages[position + 1 : position + 4], "big")
        body = messages[position + 4 : position + 4 + length]
        if len(body) < length:
            break
        position += 4 + length
        if kind == _SERVER_HELLO:
            version, suite = _server_hello(body)
            is_over = is_over or version == Version.TLS_1_3
        elif kind == _CERTIFICATE:
            chain = _certificates(body)
        elif kind == _CERTIFICATE_REQUEST:
            asks = True
        elif kind == _DONE:
            is_over = True
    return Answer(version, suite, chain, asks, is_over)


def _server_hello(body: bytes) -> tuple[int, int]:
    if len(body) < 38:
        raise NotTls("a server's hello that is cut off")
    version, after = int.from_bytes(body[:2], "big"), 35 + body[34]
    suite = int.from_bytes(body[after : after + 2], "big")
    position = after + 5
    while position + 4 <= len(body):
        kind = int.from_bytes(body[position : position + 2], "big")
        length = int.from_bytes(body[position + 2 : position + 4], "big")
        if kind == 43:
            version = int.from_bytes(body[position + 4 : position + 6], "big")
        position += 4 + length
    return version, suite


def _certificates(body: bytes) -> tuple[bytes, ...]:
    found, position = [], 3
    while position + 3 <= len(body):
        length = int.from_bytes(body[position : position + 3], "big")
        found.append(body[position + 3 : position + 3 + length])
        position += 3 + length
    return tuple(found)


def _extension(kind: int, content: bytes) -> bytes:
    return pack(">HH", kind, len(content)) + content


def _numbers(numbers: Sequence[int]) -> bytes:
    return pack(f">H{len(numbers)}H", 2 * len(numbers), *numbers)


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
