"""GSSAPI on both sides: the messages, with a context that is a few bytes. The real one: tests/conformance."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kavka.errors import ErrorCode
from kavka.security.gssapi import (
    MAX_CONTEXT_TOKENS,
    MAX_OFFER_BYTES,
    Context,
    GssapiServer,
    KerberosFailed,
    client_exchange,
)
from kavka.security.kerberos_names import ShortNames
from kavka.security.sasl import AuthenticationFailed, FailureReason, Step
from kavka.security.sasl_server import Phase, SaslServer

ACCEPTED = b"\1\0\0\0"


class ShortContext(Context):
    """Takes `rounds` tokens, and answers the last one with `last`. A wrapped message begins with W."""

    def __init__(self, rounds: int = 1, last: bytes = b"proof", peer: str = "alice@REALM") -> None:
        self._left = rounds
        self._last = last
        self._peer = peer

    def step(self, token: bytes) -> bytes:
        if token.startswith(b"code "):
            raise KerberosFailed("no", int(token[5:]))
        if token != b"ticket":
            raise KerberosFailed("no ticket")
        self._left -= 1
        return b"more" if self._left else self._last

    def is_complete(self) -> bool:
        return self._left == 0

    def peer(self) -> str:
        return self._peer

    def wrap(self, message: bytes) -> bytes:
        return b"W" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"W"):
            raise KerberosFailed("not wrapped")
        return message[1:]


def new(make: Callable[[], Context] = ShortContext) -> GssapiServer:
    return GssapiServer(make, ShortNames(["DEFAULT"], "REALM").of)


def failure(server: GssapiServer, *tokens: bytes) -> AuthenticationFailed:
    for token in tokens[:-1]:
        assert server.step(token).user is None
    with pytest.raises(AuthenticationFailed) as caught:
        server.step(tokens[-1])
    return caught.value


def test_a_proof_is_followed_by_nothing_and_the_offer() -> None:
    server = new()
    assert [server.step(each) for each in (b"ticket", b"", b"W" + ACCEPTED)] == [
        Step(b"proof"),
        Step(b"W" + ACCEPTED),
        Step(b"", "alice"),
    ]


def test_without_a_proof_the_offer_follows_at_once() -> None:
    server = new(lambda: ShortContext(last=b""))
    assert [server.step(each) for each in (b"ticket", b"W" + ACCEPTED)] == [
        Step(b"W" + ACCEPTED),
        Step(b"", "alice"),
    ]


def test_a_context_may_need_several_tokens_and_not_many() -> None:
    server = new(lambda: ShortContext(rounds=2))
    assert [server.step(each).answer for each in (b"ticket", b"ticket", b"")] == [b"more", b"proof", b"W" + ACCEPTED]
    endless = new(lambda: ShortContext(rounds=MAX_CONTEXT_TOKENS + 1))
    assert failure(endless, *[b"ticket"] * (MAX_CONTEXT_TOKENS + 1)).reason is FailureReason.MALFORMED


@pytest.mark.parametrize("authzid", [b"", b"alice", b"mallory", b"\xff\0", b"x" * 60_000])
def test_nobody_is_whom_he_asks_to_be(authzid: bytes) -> None:
    server = new()
    steps = [server.step(each) for each in (b"ticket", b"", b"W" + ACCEPTED + authzid)]
    assert steps[-1] == Step(b"", "alice")


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        ([b"ticket", b"x"], FailureReason.MALFORMED),
        ([b"ticket", b"", b""], FailureReason.REFUSED_TICKET),
        ([b"ticket", b"", ACCEPTED], FailureReason.REFUSED_TICKET),
        ([b"ticket", b"", b"W"], FailureReason.MALFORMED),
        ([b"ticket", b"", b"W\1\0\0"], FailureReason.MALFORMED),
        ([b"ticket", b"", b"W\0\0\0\0"], FailureReason.OTHER_PROTECTION),
        ([b"ticket", b"", b"W\2\0\0\0"], FailureReason.OTHER_PROTECTION),
        ([b"ticket", b"", b"W\4\0\0\0"], FailureReason.OTHER_PROTECTION),
        ([b"ticket", b"", b"W" + b"\1" * MAX_OFFER_BYTES], FailureReason.MALFORMED),
        ([b""], FailureReason.REFUSED_TICKET),
        ([b"garbage"], FailureReason.REFUSED_TICKET),
        ([b"code 31"], FailureReason.REFUSED_TICKET),
        ([b"code 32"], FailureReason.EXPIRED_TICKET),
        ([b"code 33"], FailureReason.EARLY_TICKET),
        ([b"code 34"], FailureReason.REPEATED_TICKET),
        ([b"code 37"], FailureReason.CLOCK_SKEW),
        ([b"code 44"], FailureReason.OTHER_TICKET),
    ],
)
def test_what_is_wrong_is_told_apart_for_the_operator_alone(tokens: list[bytes], reason: FailureReason) -> None:
    failed = failure(new(), *tokens)
    assert (failed.reason, failed.told, failed.user) == (reason, None, None)
    assert failed.is_retriable is (reason in (FailureReason.EARLY_TICKET, FailureReason.REPEATED_TICKET))


@pytest.mark.parametrize("peer", ["alice@OTHER", "a/b/c@REALM", "@REALM", "a\\@b@REALM"])
def test_a_principal_without_a_short_name_is_nobody(peer: str) -> None:
    failed = failure(new(lambda: ShortContext(peer=peer)), b"ticket", b"", b"W" + ACCEPTED)
    assert failed.reason is FailureReason.NO_SHORT_NAME


def test_without_a_keytab_nobody_gets_in() -> None:
    def make() -> Context:
        raise KerberosFailed("no such file", no_keys=True)

    assert failure(new(make), b"ticket").reason is FailureReason.NO_KEYTAB


def test_the_step_is_computed_beside_the_loop() -> None:
    server = new()
    work = server.labour(b"code 32")
    assert work is not None
    work()
    assert failure(server, b"code 32").reason is FailureReason.EXPIRED_TICKET


@pytest.mark.parametrize(("token", "answers"), [(b"code 32", True), (b"code 33", False), (b"code 34", False)])
def test_what_another_try_may_mend_ends_the_connection_without_an_answer(token: bytes, answers: bool) -> None:
    server = SaslServer({"GSSAPI": new}, lambda mechanism: 0)
    server.on_handshake("GSSAPI", 1, 0)
    reaction = server.on_token(token, 0)
    assert (reaction.error, reaction.answers, server.phase) == (
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        answers,
        Phase.ENDED,
    )


class ClientContext(Context):
    """Sends a ticket, and is complete when it has taken `rounds` tokens; the last thing that it sends is `last`."""

    def __init__(self, rounds: int = 1, last: bytes = b"") -> None:
        self._left = rounds
        self._last = last

    def step(self, token: bytes) -> bytes:
        if token == b"forged":
            raise KerberosFailed("not its key", 31)
        if token:
            self._left -= 1
        return b"ticket" if self._left > 0 else self._last

    def is_complete(self) -> bool:
        return self._left <= 0

    def peer(self) -> str:
        return "kafka/host@REALM"

    def wrap(self, message: bytes) -> bytes:
        return b"W" + message

    def unwrap(self, message: bytes) -> bytes:
        return ShortContext().unwrap(message)


def said(context: Context, *answers: bytes) -> list[bytes]:
    """What a client sends, until it has had these answers."""
    messages = client_exchange(context)
    return [next(messages), *(messages.send(each) for each in answers)]


def test_a_client_takes_the_proof_and_the_offer_and_chooses_no_layer() -> None:
    assert said(ClientContext(), b"proof", b"W" + ACCEPTED) == [b"ticket", b"", b"W" + ACCEPTED]
    assert said(ClientContext(last=b"last"), b"proof", b"W" + ACCEPTED) == [b"ticket", b"last", b"W" + ACCEPTED]
    assert said(ClientContext(2), b"more", b"proof", b"W\7\0\xff\xff")[-1] == b"W" + ACCEPTED


def test_a_client_speaks_with_a_server_of_ours() -> None:
    server, messages = new(lambda: ShortContext(last=b"proof")), client_exchange(ClientContext())
    answer, message = Step(b""), next(messages)
    for _ in range(2):
        answer = server.step(message)
        message = messages.send(answer.answer)
    answer = server.step(message)
    assert answer.user == "alice"
    with pytest.raises(StopIteration):
        messages.send(answer.answer)


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([b""], "did not prove who it is"),
        ([b"more"] * MAX_CONTEXT_TOKENS, "one token after the other"),
        ([b"x"] * 20 + [b"W\1"], "malformed"),
        ([b"x"] * 20 + [b"W\1\0\0\0more"], "malformed"),
        ([b"x"] * 20 + [b"W\6\0\0\0"], "asks for layers"),
    ],
)
def test_a_client_does_not_believe_a_broker_that_proves_nothing(answers: list[bytes], why: str) -> None:
    context = ClientContext(MAX_CONTEXT_TOKENS + 1) if len(answers) <= MAX_CONTEXT_TOKENS else ClientContext()
    with pytest.raises(ValueError, match=why):
        said(context, *(answers if len(answers) <= MAX_CONTEXT_TOKENS else [answers[0], answers[-1]]))


@pytest.mark.parametrize("answers", [[b"forged"], [b"proof", b"unwrapped"]])
def test_a_client_passes_on_what_the_library_refuses(answers: list[bytes]) -> None:
    with pytest.raises(KerberosFailed):
        said(ClientContext(), *answers)
