"""SASL: what all mechanisms share, on the server's side: a step of an exchange, and how an exchange fails.

I1  what a client is told of a failure says no more than Apache Kafka's answer does; the reason is for the operator
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable


class FailureReason(Enum):
    """Why an authentication failed. The value is what why-records and tests say."""

    UNKNOWN_USER = "unknown user"
    UNKNOWN_TOKEN = "unknown delegation token"
    WRONG_PASSWORD = "wrong password"
    MALFORMED = "malformed message"
    NONCE_TWICE = "its nonce comes twice, as librdkafka before 2.6.1 sends it: update librdkafka"
    OTHER_IDENTITY = "another identity asked for"
    UNUSABLE_CREDENTIAL = "unusable credential"
    UNSUPPORTED_MECHANISM = "unsupported mechanism"
    OUT_OF_ORDER = "request out of order"
    TOO_LARGE = "message too large"
    TOO_MANY = "too many wait at an address that failed too often"
    PRINCIPAL_CHANGED = "principal changed"
    MECHANISM_CHANGED = "mechanism changed"
    MALFORMED_TOKEN = "malformed token"
    REFUSED_ALGORITHM = "token signed with an algorithm that is not accepted"
    REFUSED_HEADER = "token with a header that is not accepted"
    NO_KEYS = "no keys to verify tokens with"
    UNKNOWN_KEY = "token signed with an unknown key"
    WRONG_SIGNATURE = "wrong signature of the token"
    WRONG_ISSUER = "token of another issuer"
    WRONG_AUDIENCE = "token for another audience"
    EXPIRED_TOKEN = "expired token"
    EARLY_TOKEN = "token that is not valid yet"
    WRONG_CLAIM = "token without a claim that is needed, or with a malformed one"
    REFUSED_TICKET = "ticket that Kerberos does not accept"
    EXPIRED_TICKET = "expired ticket"
    EARLY_TICKET = "ticket that is not valid yet"
    REPEATED_TICKET = "ticket shown for the second time"
    OTHER_TICKET = "ticket for another service, or for a key that is not in the keytab"
    CLOCK_SKEW = "clocks differ by more than Kerberos allows"
    NO_KEYTAB = "no keytab to check tickets with"
    OTHER_PROTECTION = "protection asked for that is not offered"
    NO_SHORT_NAME = "no rule makes a name of the principal"


class AuthenticationFailed(Exception):
    """An exchange has failed. `told` is what the client may read; None: only that its credentials are invalid.
    `user` is who it claimed to be, where the broker knows that user. `is_retriable`: the same may succeed in a moment,
    and the connection ends without an answer, after which clients try again."""

    def __init__(
        self, reason: FailureReason, told: str | None = None, user: str | None = None, *, is_retriable: bool = False
    ) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.told = told
        self.user = user
        self.is_retriable = is_retriable


class Step(NamedTuple):
    """The answer to a token. With `user`, the exchange is complete, and that is who the client is. `rest_ms`: for how
    long its credential is valid from now on; None: it has no end. `is_by_token`: the credential was a delegation
    token of that user's."""

    answer: bytes
    user: str | None = None
    rest_ms: int | None = None
    is_by_token: bool = False


class ServerExchange(Protocol):
    """The server's side of one exchange."""

    def step(self, token: bytes) -> Step:
        """Takes the client's next token. Raises AuthenticationFailed."""
        ...


@runtime_checkable
class LaboriousExchange(Protocol):
    """An exchange whose steps may take long to compute."""

    def labour(self, token: bytes) -> Callable[[], None] | None:
        """What is to be computed for the token before `step` takes it, on any thread; None: nothing. Without it, `step`
        computes it by itself."""
        ...
