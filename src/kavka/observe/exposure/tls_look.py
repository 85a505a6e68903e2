"""A listener's TLS, looked at: versions, suites, certificates, whether it asks clients for one.

Decides how many handshakes are begun. Hellos are written by hand, so that what this machine's OpenSSL was built without
is seen, too; whether a chain is believed OpenSSL says. Must not judge.

I1  At most MAX_SUITES handshakes are begun for a version, each of them in PATIENCE_S.
I2  No password and no certificate of the caller's is sent here.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from kavka.client.security import TlsSettings
from kavka.errors import ConnectionFailed, ConnectionRefused, HostUnknown
from kavka.observe.exposure.sightings import ClientAuth, SeenCertificate, TlsSighting
from kavka.observe.exposure.tls_hellos import MAX_ANSWER_BYTES, Answer, Version, hello, read_answer
from kavka.observe.exposure.tls_suites import NEWEST, OLDER
from kavka.security import der
from kavka.security.certificates import read_certificate
from kavka.security.tls_records import NotTls

PATIENCE_S: Final = 5.0
MAX_SUITES: Final = 100
_RANDOM_BYTES: Final = 96
_HASHES: Final = {
    "1.2.840.113549.1.1.4": "MD5",
    "1.2.840.113549.1.1.5": "SHA-1",
    "1.2.840.10045.4.1": "SHA-1",
    "1.2.840.10040.4.3": "SHA-1",
}
"""Of signature algorithms: the weak ones."""
_RSA: Final = "1.2.840.113549.1.1.1"


class ClosedAtOnce(ConnectionFailed):
    """The connection was closed without a byte."""


async def speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS hello is answered by TLS. Raises ConnectionFailed where nobody can be reached."""
    try:
        await _ask(host, port, Version.TLS_1_2, tuple(OLDER))
    except (NotTls, ClosedAtOnce, TimeoutError):
        return False
    return True


async def look_at_tls(host: str, port: int, trust: ssl.SSLContext) -> TlsSighting:
    """Everything that is seen without passing for a client. Raises ConnectionFailed."""
    found = await asyncio.gather(*(_suites(host, port, version) for version in Version))
    suites = {version.title: names for version, (names, _) in zip(Version, found, strict=True) if names}
    answers = [answer for _, answer in found if answer is not None]
    shown = next((answer for answer in reversed(answers) if answer.chain), None)
    distrust, own = await _trust(host, port, trust)
    chain = shown.chain if shown is not None else (own,) if own else ()
    asks = None if shown is None else shown.asks_for_certificate
    return TlsSighting(suites, tuple(map(_seen, chain)), distrust, await _client_auth(host, port, asks=asks))


def open_context() -> ssl.SSLContext:
    """A context that believes everybody and takes what there is: for looking, never for a secret."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(ssl.SSLError):
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context


def lenient(tls: TlsSettings) -> ssl.SSLContext:
    """A context that believes whom these settings believe, and takes weak suites, too. Raises ConfigError."""
    context = TlsSettings(authorities=tls.authorities, check_hostname=tls.check_hostname).context()
    with suppress(ssl.SSLError):
        context.set_ciphers("ALL:@SECLEVEL=0")
    return context


async def _suites(host: str, port: int, version: Version) -> tuple[tuple[str, ...], Answer | None]:
    """The suites of a version in the server's order, and its first answer."""
    table: Mapping[int, str] = NEWEST if version is Version.TLS_1_3 else OLDER
    left, first = list(table), None
    names: list[str] = []
    while left and len(names) < MAX_SUITES:
        try:
            answer = await _ask(host, port, version, left)
        except (ConnectionFailed, NotTls, TimeoutError):
            break
        if answer.version != version or answer.suite not in left:
            break
        first = first or answer
        names.append(table[answer.suite])
        left.remove(answer.suite)
    return tuple(names), first


async def _ask(host: str, port: int, version: Version, suites: list[int] | tuple[int, ...]) -> Answer:
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await _connect(host, port)
        try:
            writer.write(hello(version, suites, host, os.urandom(_RANDOM_BYTES)))
            data = b""
            while True:
                part = await reader.read(MAX_ANSWER_BYTES)
                data += part
                answer = read_answer(data)
                if answer.is_whole:
                    return answer
                if not part:
                    if not data:
                        raise ClosedAtOnce(f"{host}:{port} closed the connection")
                    return answer
        except ConnectionResetError as reset:
            raise ClosedAtOnce(f"{host}:{port} closed the connection") from reset
        finally:
            writer.close()


async def _connect(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(host, port)
    except ConnectionRefusedError as problem:
        raise ConnectionRefused(f"{host}:{port} refused the connection") from problem
    except UnicodeError as problem:
        raise HostUnknown(f"cannot connect to {host}:{port}: no name of a host") from problem
    except OSError as problem:
        kind = HostUnknown if isinstance(problem, socket.gaierror) else ConnectionFailed
        raise kind(f"cannot connect to {host}:{port}: {problem.strerror or problem}") from problem


async def _trust(host: str, port: int, context: ssl.SSLContext) -> tuple[str | None, bytes]:
    """Why the chain is not believed ("": it is; None: nobody can say), and the first certificate if it can be had."""
    why: str | None = ""
    try:
        return why, await _certificate(host, port, context)
    except ssl.SSLCertVerificationError as refused:
        why = str(refused.verify_message)
    except (OSError, TimeoutError):
        why = None
    try:
        return why, await _certificate(host, port, open_context())
    except (OSError, TimeoutError):
        return why, b""


async def _certificate(host: str, port: int, context: ssl.SSLContext) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
        encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return encoded or b""


async def _client_auth(host: str, port: int, *, asks: bool | None) -> ClientAuth | None:
    """Whether a client without a certificate is let in. `asks`: whether TLS 1.2 asked for one; None: it has no TLS 1.2.

    With TLS 1.3 a client hears only after its handshake that its certificate is missing.
    """
    if asks is False:
        return ClientAuth.NONE
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=open_context(), server_hostname=host)
            try:
                writer.write(API_VERSIONS)
                is_let_in = bool(await reader.read(1))
            finally:
                writer.close()
    except (ssl.SSLError, ConnectionError):
        is_let_in = False
    except (OSError, TimeoutError):
        return None
    if not is_let_in:
        return ClientAuth.REQUIRED
    return ClientAuth.NOT_REQUIRED if asks is None else ClientAuth.REQUESTED


API_VERSIONS: Final = b"\x00\x00\x00\x0f\x00\x12\x00\x00\x00\x00\x00\x01\x00\x05kavka"
"""ApiVersions 0, whole: every Kafka answers it, before a login, too."""


def _seen(encoded: bytes) -> SeenCertificate:
    """What is shown of a certificate; what cannot be read of it is left empty."""
    try:
        read = read_certificate(encoded)
        key, bits, hashed = _key(encoded)
    except der.MalformedDer as malformed:
        return SeenCertificate(f"unreadable: {malformed}", "", 0, 0, ())
    names = tuple(sorted(map(_name, read.alternative_names)))
    return SeenCertificate(read.subject, read.issuer, read.not_before_ms, read.not_after_ms, names, key, bits, hashed)


def _name(text: str) -> str:
    kind, _, value = text.partition(":")
    if kind != "IP" or len(value) not in (8, 32):
        return text
    return f"IP:{ip_address(bytes.fromhex(value))}"


def _key(encoded: bytes) -> tuple[str, int, str]:
    """The kind of the key, for RSA its bits, and the hash of the signature where that is weak. Raises MalformedDer."""
    whole = der.read_whole(encoded).list(der.SEQUENCE)
    fields = whole[0].list(der.SEQUENCE)
    signature = der.object_identifier(whole[1].list(der.SEQUENCE)[0].content)
    key = fields[6 if fields[0].tag == 0xA0 else 5].list(der.SEQUENCE)
    kind = der.object_identifier(key[0].list(der.SEQUENCE)[0].content)
    if kind != _RSA:
        return "", 0, _HASHES.get(signature, "")
    modulus = der.read_whole(key[1].content[1:]).list(der.SEQUENCE)[0].content
    return "RSA", int.from_bytes(modulus).bit_length(), _HASHES.get(signature, "")
