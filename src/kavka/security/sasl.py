"""SASL: what all mechanisms share, on the server's side: a step of an exchange, and how an exchange fails.

I1  what a client is told of a failure says no more than Apache Kafka's answer does; the reason is for the operator
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol


class FailureReason(Enum):
    """Why an authentication failed. The value is what why-records and tests say."""

    UNKNOWN_USER = "unknown user"
    WRONG_PASSWORD = "wrong password"
    MALFORMED = "malformed message"
    OTHER_IDENTITY = "another identity asked for"
    UNUSABLE_CREDENTIAL = "unusable credential"
    UNSUPPORTED_MECHANISM = "unsupported mechanism"
    OUT_OF_ORDER = "request out of order"
    TOO_LARGE = "message too large"
    PRINCIPAL_CHANGED = "principal changed"
    MECHANISM_CHANGED = "mechanism changed"


class AuthenticationFailed(Exception):
    """An exchange has failed. `told` is what the client may read; None: only that its credentials are invalid.
    `user` is who it claimed to be, where the broker knows that user."""

    def __init__(self, reason: FailureReason, told: str | None = None, user: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.told = told
        self.user = user


class Step(NamedTuple):
    """The answer to a token. With `user`, the exchange is complete, and that is who the client is."""

    answer: bytes
    user: str | None = None


class ServerExchange(Protocol):
    """The server's side of one exchange."""

    def step(self, token: bytes) -> Step:
        """Takes the client's next token. Raises AuthenticationFailed."""
        ...
