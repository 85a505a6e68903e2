"""Delegation tokens: with one, a process acts for the token's owner and does not know the owner's password.

Decides how long a token is good, who may renew or end it, who may see it, and what its password is. Must not know
requests or ZooKeeper.

    who                 may create                   renew, end    see
    the owner           yes                          yes           yes
    a renewer                                        yes           yes
    who asked for it    with CreateTokens on owner                 yes
    anybody else                                                   with Describe on token, or DescribeTokens on owner

    I1  nothing prolongs a token beyond its last moment (`max_ms`), however long was asked for
    I2  a token whose time is over is never renewed
    I3  an HMAC, which is the token's password, shows in no repr; HMACs are compared in constant time

Source: KIP-48, KIP-373; Kafka's DelegationTokenManager, DelegationTokenManagerZk, TokenInformation.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kavka.errors import ErrorCode, RequestError
from kavka.security.principals import USER, Principal
from kavka.security.scram_credentials import (
    DEFAULT_ITERATIONS,
    SALT_BITS,
    ScramCredential,
    ScramMechanism,
    credential_of,
    new_salt,
    salted,
)
from kavka.security.secret import Secret

MAX_RENEWERS: Final = 1_000
"""Of one token."""
MAX_NAMES_CHARS: Final = 64 * 1024
"""Of all names in one token: its owner's, the requester's and the renewers'. A thousand usual ones take a third."""
MAX_TOKENS_OF_OWNER: Final = 10_000
MAX_OWNERS_BYTES: Final = 32 * 1024 * 1024
"""Of memory that all names in the tokens of one owner take. Both bounds: so that nobody fills every broker's memory.
Whoever has proved who he is may make tokens for himself."""
NAME_BYTES: Final = 170
"""What a name takes in memory beside its characters: a short renewer's takes 176 in all."""
_LAST_MS: Final = 2**63 - 1
"""The last moment that the protocol and znodes can name."""
_SALTS: Final = b"\0salts of tokens"
"""No token id has such a character, so that salts, which everybody is told, are nobody's HMAC."""


class Lifetimes(NamedTuple):
    """How long a token may live at most, and for how long it is good without being renewed."""

    max_ms: int
    renewal_ms: int


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `requester` asked for it, which for another owner needs a right. Times are milliseconds since 1970:
    it is good until `expires_ms`, and can be prolonged until `max_ms`."""

    token_id: str
    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def rest_ms(self, now_ms: int) -> int:
        """For how long it is good."""
        return min(self.max_ms, self.expires_ms) - now_ms

    def may_be_renewed_by(self, principal: Principal) -> bool:
        """Also whether it may be ended by it."""
        return principal == self.owner or principal in self.renewers

    @property
    def concerned(self) -> tuple[Principal, ...]:
        """Whom it concerns: they see it."""
        return (self.owner, self.requester, *self.renewers)

    @property
    def names_bytes(self) -> int:
        """What all its names take in memory, roughly."""
        return _chars(self.concerned) + NAME_BYTES * len(self.concerned)

    @property
    def can_log_in(self) -> bool:
        """Who logs in with a token is a user: other kinds of owners would come in under another name."""
        return self.owner.kind == USER


class Wish(NamedTuple):
    """A token that is asked for. `lifetime_ms` of 0 or less: as long as the broker allows."""

    owner: Principal
    requester: Principal
    renewers: tuple[Principal, ...]
    lifetime_ms: int

    def check(self) -> None:
        """Raises RequestError where it cannot be had, whoever asks."""
        if any(renewer.kind != USER for renewer in self.renewers) or not self.owner.kind:
            raise RequestError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        names = (self.owner, self.requester, *self.renewers)
        if len(self.renewers) > MAX_RENEWERS or _chars(names) > MAX_NAMES_CHARS:
            raise RequestError(ErrorCode.INVALID_REQUEST)


def _chars(names: tuple[Principal, ...]) -> int:
    return sum(len(each.kind) + len(each.name) for each in names)


def new_token(token_id: str, wish: Wish, now_ms: int, limits: Lifetimes) -> Token:
    """The token of a wish. Beyond the end of time it is good for ever; in Kafka the sum wraps, and it ends at once."""
    lifetime_ms = limits.max_ms if wish.lifetime_ms <= 0 else min(wish.lifetime_ms, limits.max_ms)
    max_ms = min(now_ms + lifetime_ms, _LAST_MS)
    expires_ms = min(max_ms, now_ms + limits.renewal_ms)
    return Token(token_id, wish.owner, wish.requester, wish.renewers, now_ms, expires_ms, max_ms)


def renewed(token: Token, by: Principal, period_ms: int, now_ms: int, limits: Lifetimes) -> Token:
    """The token, good for `period_ms` from now on; negative: for as long as the broker sees fit. Raises RequestError:
    DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED."""
    _require(token, by)
    if token.is_expired(now_ms):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _until(token, now_ms + (limits.renewal_ms if period_ms < 0 else period_ms))


def ended(token: Token, by: Principal, period_ms: int, now_ms: int) -> Token | None:
    """The token, good for no longer than `period_ms`; None: at once, because that is negative. Raises as `renewed`."""
    _require(token, by)
    if period_ms < 0:
        return None
    if token.is_expired(now_ms):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    return _until(token, now_ms + period_ms)


def _require(token: Token, by: Principal) -> None:
    if not token.may_be_renewed_by(by):
        raise RequestError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _until(token: Token, expires_ms: int) -> Token:
    return replace(token, expires_ms=min(token.max_ms, expires_ms))


class TokenKey:
    """The secret that all brokers of a cluster share, and what is made with it."""

    __slots__ = ("_salts", "_secret")

    def __init__(self, secret: Secret) -> None:
        self._secret = secret.reveal().encode()
        self._salts = hmac.digest(self._secret, _SALTS, "sha512")

    def __repr__(self) -> str:
        return "TokenKey(<hidden>)"

    def hmac(self, token_id: str) -> bytes:
        """The token's password; who has it can log in as its owner."""
        return hmac.digest(self._secret, token_id.encode(), "sha512")

    def salt(self, mechanism: ScramMechanism, token_id: str) -> bytes:
        """The salt by which a login with this token is answered, whether there is such a token or not."""
        made = hmac.digest(self._salts, f"{mechanism.value}\0{token_id}".encode(), "sha512")
        return new_salt(int.from_bytes(made[:17], "big") >> (17 * 8 - SALT_BITS))

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """What a login with this token is checked against, or would be if there were such a token: nobody knows its
        password then. Takes milliseconds, on purpose."""
        salt = self.salt(mechanism, token_id)
        made = salted(mechanism, password(self.hmac(token_id)), salt, DEFAULT_ITERATIONS)
        return credential_of(mechanism, salt, made, DEFAULT_ITERATIONS)


def password(token_hmac: bytes) -> str:
    """An HMAC as clients have it."""
    return b64encode(token_hmac).decode()
