"""GSSAPI: Kerberos in SASL's form, both sides. Whoever has a ticket for the service is whom the ticket names.

    -> client    its ticket and proof           the context's tokens, until both sides have one
    <- server    its own proof
    -> client    nothing                        where the context's last token was the server's
    <- server    wrapped: 1, 0 0 0              the layers that it offers (1: none, "auth"), and its buffer
    -> client    wrapped: 1, 0 0 0, [authzid]   the layer that it takes
    <- server    nothing, and the client is whom its ticket names

Decides what each message means and what a failure of Kerberos is called; `kerberos_refusals` has what a client is told
of its own. Must not know where tickets, keys and clocks are: a `Context` does, which calls the machine's library, and
may take long (`labour`).

    I1  nobody is anybody before the ticket was believed, the last message was unwrapped with its key, and a rule has
        made a name of its principal
    I2  only authentication is offered, as Apache Kafka does: TLS protects what follows
    I3  an authzid changes nothing, as in Apache Kafka: its clients send their principal, others the user's name. The
        user is whom the ticket names
    I4  an exchange has at most MAX_CONTEXT_TOKENS tokens
    I5  a client's exchange ends well only after the broker has proved that it has the service's key, too

Source: RFC 4752, RFC 4120 section 7.5.9 (errors); Java's GssKrb5Server; Kafka's SaslServerAuthenticator, KerberosError.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, Protocol

from kavka.security.kerberos_names import KerberosName, NoShortName
from kavka.security.sasl import AuthenticationFailed, FailureReason, Step

MECHANISM: Final = "GSSAPI"
AUTH: Final = 1
"""The layer that protects nothing after the authentication."""
OFFER: Final = bytes((AUTH, 0, 0, 0))
MAX_CONTEXT_TOKENS: Final = 8
"""Kerberos needs one, or two in the form of DCE."""
MAX_OFFER_BYTES: Final = 64 * 1024
"""The longest last message: four bytes and an authzid."""

EXPIRED: Final = 32
NOT_YET_VALID: Final = 33
REPLAY: Final = 34
_REASONS: Final = {
    EXPIRED: FailureReason.EXPIRED_TICKET,
    NOT_YET_VALID: FailureReason.EARLY_TICKET,
    REPLAY: FailureReason.REPEATED_TICKET,
    35: FailureReason.OTHER_TICKET,  # not us
    37: FailureReason.CLOCK_SKEW,
    44: FailureReason.OTHER_TICKET,  # another version of our key
    45: FailureReason.OTHER_TICKET,  # no such key
    144: FailureReason.OTHER_TICKET,  # MIT's library: the wrong principal
    181: FailureReason.OTHER_TICKET,  # MIT's library: no key for it in the keytab
    230: FailureReason.OTHER_TICKET,  # MIT's library: not this version of it
}
RETRIABLE: Final = (NOT_YET_VALID, REPLAY)
"""What another try may mend. Apache Kafka closes the connection without an answer, so that the client tries again."""


class KerberosFailed(Exception):
    """The library refused. `code`: Kerberos' number of the error, above 127 those of MIT's library; None: it gave none.
    `no_keys`: the keytab could not be read."""

    def __init__(self, why: str, code: int | None = None, *, no_keys: bool = False) -> None:
        super().__init__(why)
        self.code = code
        self.no_keys = no_keys


class Context(Protocol):
    """One side of a security context. Each method may wait for files and for the network, and raises KerberosFailed."""

    def step(self, token: bytes) -> bytes:
        """Takes the other side's token; returns this side's, empty if there is none to send."""
        ...

    def is_complete(self) -> bool: ...

    def peer(self) -> str:
        """The principal on the other side, as Kerberos writes it. Once it is complete."""
        ...

    def wrap(self, message: bytes) -> bytes: ...

    def unwrap(self, message: bytes) -> bytes: ...


class GssapiServer:
    """The server's side of one exchange. `short_name` makes a user's name of a principal; it raises NoShortName."""

    def __init__(self, new_context: Callable[[], Context], short_name: Callable[[KerberosName], str]) -> None:
        self._new_context = new_context
        self._short_name = short_name
        self._exchange = self._run()
        next(self._exchange)  # Up to the first token.
        self._computed: Step | AuthenticationFailed | None = None

    def labour(self, token: bytes) -> Callable[[], None] | None:
        """The whole step: it reads the keytab, and writes down the ticket against its being shown twice."""

        def work() -> None:
            self._computed = self._taken(token)

        return work

    def step(self, token: bytes) -> Step:
        outcome, self._computed = self._computed, None
        if outcome is None:
            outcome = self._taken(token)
        if isinstance(outcome, AuthenticationFailed):
            raise outcome
        return outcome

    def _taken(self, token: bytes) -> Step | AuthenticationFailed:
        try:
            return self._exchange.send(token)
        except KerberosFailed as failed:
            return _failure(failed)
        except AuthenticationFailed as failed:
            return failed

    def _run(self) -> Generator[Step, bytes, None]:
        token = yield Step(b"")
        context = self._new_context()
        for _ in range(MAX_CONTEXT_TOKENS):
            answer = context.step(token)
            if context.is_complete():
                break
            token = yield Step(answer)
        else:
            raise AuthenticationFailed(FailureReason.MALFORMED)
        if answer and (yield Step(answer)):
            raise AuthenticationFailed(FailureReason.MALFORMED)
        taken = yield Step(context.wrap(OFFER))
        if len(taken) > MAX_OFFER_BYTES:
            raise AuthenticationFailed(FailureReason.MALFORMED)
        choice = context.unwrap(taken)
        if len(choice) < len(OFFER):
            raise AuthenticationFailed(FailureReason.MALFORMED)
        if not choice[0] & AUTH:
            raise AuthenticationFailed(FailureReason.OTHER_PROTECTION)
        try:
            user = self._short_name(KerberosName.parse(context.peer()))
        except NoShortName as unnamed:
            raise AuthenticationFailed(FailureReason.NO_SHORT_NAME) from unnamed
        if not user:
            raise AuthenticationFailed(FailureReason.NO_SHORT_NAME)
        yield Step(b"", user)


def client_exchange(context: Context) -> Generator[bytes, bytes, None]:
    """The client's side: yields each message, is sent each answer, and ends after the last one. Each step may take as
    long as the KDC does. Raises KerberosFailed; ValueError for a broker that does not keep to the protocol."""
    token = context.step(b"")
    for _ in range(MAX_CONTEXT_TOKENS):
        if context.is_complete():
            break
        answer = yield token
        if not answer:
            raise ValueError("the server did not prove who it is")
        token = context.step(answer)
    else:
        raise ValueError("the server asks for one token after the other")
    offer = context.unwrap((yield token))
    if len(offer) != len(OFFER):
        raise ValueError("the server's offer of layers is malformed")
    if not offer[0] & AUTH:
        raise ValueError("the server asks for layers of GSSAPI that protect what follows, which TLS does here")
    yield context.wrap(OFFER)


def _failure(failed: KerberosFailed) -> AuthenticationFailed:
    if failed.no_keys:
        return AuthenticationFailed(FailureReason.NO_KEYTAB)
    reason = FailureReason.REFUSED_TICKET if failed.code is None else _REASONS.get(failed.code)
    return AuthenticationFailed(reason or FailureReason.REFUSED_TICKET, is_retriable=failed.code in RETRIABLE)
