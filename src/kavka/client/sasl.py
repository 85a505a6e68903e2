"""The exchange of SASL messages: how a client proves its password, and how it checks the broker.

Pure: bytes in, bytes out, with a nonce from the caller. The connection carries them (SaslHandshake 1 and
SaslAuthenticate).

    PLAIN   -> \\0 user \\0 password        <- nothing
    SCRAM   -> client-first                <- server-first   (salt, iterations, the nonce continued)
            -> client-final with its proof <- server-final   (the server's signature: it knows the password's hash)

Invariants
  I1  With SCRAM the password never leaves this process, and a broker that does not know it is not believed.
  I2  Iterations are bounded: a hostile server must not have a client compute for minutes.

Source: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), KIP-84, KIP-152.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Generator
from typing import TypeAlias

from kavka.client.security import SaslMechanism, SaslSettings
from kavka.errors import ErrorCode, RequestError

NONCE_BYTES = 24
MAX_ITERATIONS = 1_000_000
_HASHES = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields each message to send, receives each answer, and ends when the broker is verified. Raises `RequestError`."""


def exchange(settings: SaslSettings, nonce: str) -> Exchange:
    """The messages of one authentication. `nonce`: a fresh `new_nonce`."""
    if settings.mechanism is SaslMechanism.PLAIN:
        return _plain(settings)
    return _scram(settings, nonce)


def new_nonce() -> str:
    """Random, printable, and without a comma."""
    return b64encode(os.urandom(NONCE_BYTES)).decode()


def _plain(settings: SaslSettings) -> Exchange:
    yield b"\0" + settings.username.encode() + b"\0" + settings.password.encode()


def _scram(settings: SaslSettings, nonce: str) -> Exchange:
    name = _HASHES[settings.mechanism]
    escaped = settings.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={escaped},r={nonce}"
    server_first = (yield f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(server_first)
    try:
        combined, salt, iterations = fields["r"], b64decode(fields["s"], validate=True), int(fields["i"])
    except (KeyError, ValueError, BadBase64) as error:
        raise _refused(settings, f"the broker's challenge {server_first!r} is not a SCRAM challenge") from error
    if not combined.startswith(nonce) or combined == nonce:
        raise _refused(settings, "the broker's nonce does not continue the client's")
    if not 0 < iterations <= MAX_ITERATIONS:
        raise _refused(settings, f"the broker asks for {iterations} iterations, at most {MAX_ITERATIONS} are allowed")
    salted = hashlib.pbkdf2_hmac(name, settings.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c={b64encode(b'n,,').decode()},r={combined}"
    message = f"{first},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = (yield f"{without_proof},p={b64encode(proof).decode()}".encode()).decode(errors="replace")
    expected = b64encode(hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)).decode()
    if not hmac.compare_digest(_fields(server_final).get("v", ""), expected):
        raise _refused(settings, "the broker does not know the password either: its signature is wrong")


def _fields(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _refused(settings: SaslSettings, why: str) -> RequestError:
    return RequestError(
        ErrorCode.SASL_AUTHENTICATION_FAILED, f"{settings.mechanism.value} as {settings.username!r}: {why}"
    )
