"""SaslServer: the states of one connection that must authenticate, and what each request means in them.

    state              ApiVersions     SaslHandshake             SaslAuthenticate, or a bare token   anything else
    START              -> HANDSHAKE    -> EXCHANGE; unknown: 33  close                               close
    HANDSHAKE          close           the same                  close                               close
    EXCHANGE           34, close       34, close                 the next step, or OPEN; else 58     34, close
    OPEN               as usual        re-authentication         34                                  as usual
    OTHER_MECHANISM    close           close                     close                               close
    ENDED              nothing more is read

ApiVersions in a version that nobody knows leaves the state: the client asks again in a lower one (KIP-511). A handshake
in version 0 means that bare tokens follow, without headers. Re-authentication (KIP-368) begins with a handshake on an
open connection whose session has an end; OTHER_MECHANISM is one that names another mechanism, which Apache Kafka
answers as if it were good, and ends at the next message.

    I1  a connection's user never changes
    I2  every state but OPEN ends in OPEN or ENDED, and ENDED is final
    I3  nothing is decided by a clock of its own: the time comes in

Source: Kafka's SaslServerAuthenticator, KafkaChannel (re-authentication), KIP-43, 152, 255, 368.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from kavka.errors import ErrorCode
from kavka.security.sasl import AuthenticationFailed, FailureReason, LaboriousExchange, ServerExchange

MIN_REAUTHENTICATION_INTERVAL_MS: Final = 1_000
"""A client that begins anew sooner is answered as if re-authentication were unknown."""


class Phase(Enum):
    """Where a connection stands."""

    START = "start"
    HANDSHAKE = "handshake"
    EXCHANGE = "exchange"
    OPEN = "open"
    OTHER_MECHANISM = "other mechanism"
    ENDED = "ended"


class Reaction(NamedTuple):
    """What a request leads to. With `failure` the connection ends after the answer, if there is one (`answers`).
    `lifetime_ms`: how long the session lasts that has just begun; 0 for ever."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = ""
    token: bytes = b""
    lifetime_ms: int = 0
    answers: bool = True
    failure: AuthenticationFailed | None = None


class SaslServer:
    """One connection. `mechanisms` make the exchanges that are enabled; `lifetime_ms` says how long a session lasts
    with a mechanism, 0 for ever. It ends with the client's credential, if that ends sooner."""

    def __init__(
        self, mechanisms: Mapping[str, Callable[[], ServerExchange]], lifetime_ms: Callable[[str], int]
    ) -> None:
        self.phase = Phase.START
        self.mechanism = ""
        self.user: str | None = None
        """Who the client is, once it has authenticated."""
        self.is_by_token = False
        """Whether it did so with a delegation token, the last time."""
        self.has_headers = True
        """Whether tokens come in SaslAuthenticate requests."""
        self.is_again = False
        """Whether an authentication after the first is under way, or was the last."""
        self.began_ms = 0
        """When the authentication that is under way began, or the last one."""
        self._mechanisms = mechanisms
        self._lifetime_ms = lifetime_ms
        self._exchange: ServerExchange | None = None
        self._expires_ms: int | None = None

    @property
    def mechanisms(self) -> list[str]:
        """Those that are enabled."""
        return list(self._mechanisms)

    def is_expired(self, now_ms: int) -> bool:
        """Whether the session has ended, so that any request but a re-authentication ends the connection."""
        return self._expires_ms is not None and now_ms > self._expires_ms

    def on_api_versions(self, *, is_good: bool) -> Reaction:
        """ApiVersions; `is_good`: in a version that is served, with names that are valid."""
        if self.phase is Phase.EXCHANGE:
            return self._end(FailureReason.OUT_OF_ORDER, ErrorCode.ILLEGAL_SASL_STATE)
        if self.phase is not Phase.START:
            return self._end(FailureReason.OUT_OF_ORDER)
        if is_good:
            self.phase = Phase.HANDSHAKE
        return Reaction()

    def on_handshake(self, mechanism: str, version: int, now_ms: int) -> Reaction:
        """SaslHandshake in `version`."""
        if self.phase is Phase.EXCHANGE:
            return self._end(FailureReason.OUT_OF_ORDER, ErrorCode.ILLEGAL_SASL_STATE)
        if self.phase in (Phase.OTHER_MECHANISM, Phase.ENDED):
            return self._end(FailureReason.OUT_OF_ORDER)
        begins_again = self.phase is Phase.OPEN
        if begins_again:
            too_soon = self.is_again and now_ms - self.began_ms < MIN_REAUTHENTICATION_INTERVAL_MS
            if self._expires_ms is None or too_soon:
                return Reaction(ErrorCode.ILLEGAL_SASL_STATE)
            self.is_again = True
        self.began_ms = now_ms
        if mechanism not in self._mechanisms:
            # On an open connection Apache Kafka closes it without a word.
            told = ErrorCode.NONE if begins_again else ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return self._end(FailureReason.UNSUPPORTED_MECHANISM, told)
        if begins_again and mechanism != self.mechanism:
            self.phase = Phase.OTHER_MECHANISM
            return Reaction()
        self.mechanism = mechanism
        self.has_headers = version >= 1
        self._exchange = self._mechanisms[mechanism]()
        self.phase = Phase.EXCHANGE
        return Reaction()

    def labour(self, token: bytes) -> Callable[[], None] | None:
        """What is to be computed for a token, on any thread, before `on_token` takes it; None: nothing."""
        exchange = self._exchange
        return exchange.labour(token) if isinstance(exchange, LaboriousExchange) else None

    def on_token(self, token: bytes, now_ms: int) -> Reaction:
        """A token of the client's."""
        if self.phase is Phase.OPEN:
            return Reaction(
                ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
            )
        if self.phase is Phase.OTHER_MECHANISM:
            return self._end(FailureReason.MECHANISM_CHANGED)
        if self.phase is not Phase.EXCHANGE or self._exchange is None:
            return self._end(FailureReason.OUT_OF_ORDER)
        try:
            step = self._exchange.step(token)
            if step.user is not None and self.user not in (None, step.user):
                raise AuthenticationFailed(
                    FailureReason.PRINCIPAL_CHANGED,
                    f"Cannot change principals during re-authentication from User.{self.user}: User.{step.user}",
                    self.user,
                )
        except AuthenticationFailed as failure:
            self.phase, self._exchange = Phase.ENDED, None
            told = failure.told or (
                f"Authentication failed during {'re-' if self.is_again else ''}authentication due to invalid "
                f"credentials with SASL mechanism {self.mechanism}"
            )
            # Without headers there is no answer that could say so.
            answers = self.has_headers and not failure.is_retriable
            return Reaction(ErrorCode.SASL_AUTHENTICATION_FAILED, told, answers=answers, failure=failure)
        if step.user is None:
            return Reaction(token=step.answer)
        self.phase, self._exchange, self.user = Phase.OPEN, None, step.user
        self.is_by_token = step.is_by_token
        most_ms = max(self._lifetime_ms(self.mechanism), 0) or None
        ends = [rest_ms for rest_ms in (most_ms, step.rest_ms) if rest_ms is not None]
        lifetime_ms = max(min(ends), 0) if ends else None
        # A credential that is accepted after its end, because clocks differ, gives a session that has ended at once; 0
        # is told, as Apache Kafka does.
        self._expires_ms = None if lifetime_ms is None else now_ms + lifetime_ms - (lifetime_ms == 0)
        return Reaction(token=step.answer, lifetime_ms=lifetime_ms or 0)

    def on_other(self) -> Reaction:
        """Any other request, before the connection is open."""
        if self.phase is Phase.EXCHANGE:
            return self._end(FailureReason.OUT_OF_ORDER, ErrorCode.ILLEGAL_SASL_STATE)
        return self._end(FailureReason.OUT_OF_ORDER)

    def on_broken(self, reason: FailureReason) -> Reaction:
        """Bytes that are no request, or more of them than are allowed."""
        return self._end(reason)

    def _end(self, reason: FailureReason, error: ErrorCode = ErrorCode.NONE) -> Reaction:
        self.phase, self._exchange = Phase.ENDED, None
        failure = AuthenticationFailed(reason, user=self.user)
        return Reaction(error, answers=error is not ErrorCode.NONE, failure=failure)
