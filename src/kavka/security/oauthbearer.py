"""OAUTHBEARER: a client shows a token that somebody signed whom the broker believes; the server's side, mostly.

    -> client    n,[a=authzid],^A auth=Bearer TOKEN ^A [name=value ^A]... ^A        (^A is the byte 1)
    <- server    nothing, and the client is who the token names; or {"status":"invalid_token"}
    -> client    ^A, after which the failure is told as every other

Decides what a message says and what follows from a token. Must not know how tokens are verified: `verify` does that,
and may take long, so that it can be called on another thread (`labour`).

    I1  nobody is anybody before `verify` has returned, and nobody acts for somebody else: an authzid other than the
        token's principal is refused
    I2  after a token was refused the exchange only ends; Apache Kafka takes further tokens, as many as a client likes
    I3  a token stands in no message, no repr and no failure
    I4  a token has at most MAX_TOKEN_CHARS characters, and a message MAX_MESSAGE_BYTES: what is longer is not looked at
    I5  extensions are checked for their form, as Apache Kafka's validators do, and mean nothing

Source: RFC 7628 and 5801; Kafka's OAuthBearerSaslServer and OAuthBearerClientInitialResponse (KIP-255, 342).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kavka.security.sasl import AuthenticationFailed, FailureReason, Step

MECHANISM: Final = "OAUTHBEARER"
MAX_TOKEN_CHARS: Final = 64 * 1024
MAX_MESSAGE_BYTES: Final = 128 * 1024
"""Reading a message takes a tenth of a microsecond a byte at worst, in the loop, for a client that nobody knows yet."""
INVALID_TOKEN: Final = '{"status":"invalid_token"}'
"""What Apache Kafka's validators answer, whatever is wrong with a token."""

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_MESSAGE: Final = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_AUTH: Final = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class Bearer(NamedTuple):
    """Whom a token names, and for how long it is valid from now on."""

    principal: str
    rest_ms: int


class TokenRefused(Exception):
    """A token that is not believed. `user` is whom it names, where its signature is right."""

    def __init__(self, reason: FailureReason, user: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.user = user


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """The client's message."""

    authzid: str
    token: str = field(repr=False)
    extensions: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, message: bytes) -> FirstMessage:
        """Raises AuthenticationFailed."""
        text = message.decode(errors="replace") if len(message) <= MAX_MESSAGE_BYTES else ""
        found = _MESSAGE.fullmatch(text)
        if found is None:
            raise AuthenticationFailed(FailureReason.MALFORMED)
        pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
        auth = _AUTH.fullmatch(pairs.pop("auth", ""))
        if auth is None or auth["scheme"].lower() != "bearer":
            raise AuthenticationFailed(FailureReason.MALFORMED)
        return cls(found["authzid"] or "", auth["token"], pairs)


def first_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """The client's message. The caller has checked the form of token and extensions."""
    pairs = "".join(f"{name}={value}\x01" for name, value in extensions.items())
    return f"n,,\x01auth=Bearer {token}\x01{pairs}\x01".encode()


def client_exchange(token: str, extensions: Mapping[str, str]) -> Generator[bytes, bytes, None]:
    """The client's side: yields its messages and is sent the server's. Raises ValueError where it makes no sense."""
    if (yield first_message(token, extensions)):
        # What came says only that the token is refused: the broker tells the failure after this.
        yield b"\x01"
        raise ValueError("the broker refused the token, and then did not")


class OAuthBearerServer:
    """One exchange. `verify` says whom a token names, or raises TokenRefused; `on_refused` is told why a token was not
    believed, when `step` learns of it."""

    def __init__(
        self, verify: Callable[[str], Bearer], on_refused: Callable[[FailureReason], None] = lambda reason: None
    ) -> None:
        self._verify = verify
        self._on_refused = on_refused
        self._first: FirstMessage | AuthenticationFailed | None = None
        self._verified: Bearer | TokenRefused | None = None
        self._refused: TokenRefused | None = None

    def labour(self, token: bytes) -> Callable[[], None] | None:
        """The verification of the token in a message, if there is one."""
        if self._refused is not None:
            return None
        message = self._first = _parsed(token)
        return None if isinstance(message, AuthenticationFailed) else lambda: self._verify_now(message)

    def step(self, token: bytes) -> Step:
        if self._refused is not None:
            # Whatever comes, it should be ^A.
            raise AuthenticationFailed(self._refused.reason, INVALID_TOKEN, self._refused.user)
        message = self._first or _parsed(token)
        if isinstance(message, AuthenticationFailed):
            raise message
        if self._verified is None:
            self._verify_now(message)
        verified = self._verified
        if isinstance(verified, TokenRefused):
            self._refused = verified
            self._on_refused(verified.reason)
            return Step(INVALID_TOKEN.encode())
        assert verified is not None
        if message.authzid and message.authzid != verified.principal:
            raise AuthenticationFailed(
                FailureReason.OTHER_IDENTITY,
                f"Authentication failed: Client requested an authorization id ({message.authzid}) that is different "
                f"from the token's principal name ({verified.principal})",
                verified.principal,
            )
        return Step(b"", verified.principal, verified.rest_ms)

    def _verify_now(self, message: FirstMessage) -> None:
        try:
            if len(message.token) > MAX_TOKEN_CHARS:
                raise TokenRefused(FailureReason.MALFORMED_TOKEN)
            self._verified = self._verify(message.token)
        except TokenRefused as refused:
            self._verified = refused


def _parsed(token: bytes) -> FirstMessage | AuthenticationFailed:
    try:
        return FirstMessage.parse(token)
    except AuthenticationFailed as failed:
        return failed
