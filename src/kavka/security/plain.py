"""PLAIN: a name and a password in one message, on the server's side.

    message = [authzid] NUL authcid NUL passwd

    I1  an unknown user costs the same time as a known one, and both get the same answer
    I2  nobody acts for somebody else: an authzid other than the name is refused (CVE-2017-12610)

Source: RFC 4616; Kafka's PlainSaslServer and PlainServerCallbackHandler, whose sentences to clients these are.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from kavka.security.sasl import AuthenticationFailed, FailureReason, Step
from kavka.security.secret import Secret

MECHANISM: Final = "PLAIN"
_NOBODY: Final = Secret("")


class PlainServer:
    """One exchange. `passwords` are those of the users, by name."""

    def __init__(self, passwords: Mapping[str, Secret]) -> None:
        self._passwords = passwords

    def step(self, token: bytes) -> Step:
        parts = token.decode(errors="replace").split("\0", 3)
        if len(parts) != 3:
            raise AuthenticationFailed(
                FailureReason.MALFORMED, f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        asked_for, user, password = parts
        if not user:
            raise AuthenticationFailed(FailureReason.MALFORMED, "Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed(FailureReason.MALFORMED, "Authentication failed: password not specified")
        expected = self._passwords.get(user)
        known = user if expected is not None else None
        is_right = _equal(password, (expected or _NOBODY).reveal())
        if expected is None or not is_right:
            reason = FailureReason.UNKNOWN_USER if expected is None else FailureReason.WRONG_PASSWORD
            raise AuthenticationFailed(reason, "Authentication failed: Invalid username or password", known)
        if asked_for and asked_for != user:
            raise AuthenticationFailed(
                FailureReason.OTHER_IDENTITY,
                "Authentication failed: Client requested an authorization id that is different from username",
                known,
            )
        return Step(b"", user)


def _equal(one: str, other: str) -> bool:
    """Compares digests, which have one length whatever the passwords have."""
    return hmac.compare_digest(_digest(one), _digest(other)) and bool(other)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def client_token(user: str, password: str) -> bytes:
    """The client's only message."""
    return b"\0" + user.encode() + b"\0" + password.encode()
