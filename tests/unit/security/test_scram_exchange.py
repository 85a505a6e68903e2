"""SCRAM: vectors of RFC 7677, what hostile clients send, and credentials as Kafka stores them."""

from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest

from kavka.security.sasl import AuthenticationFailed, FailureReason, Step
from kavka.security.scram_credentials import (
    ScramCredential,
    ScramMechanism,
    Shapes,
    credential_of,
    new_salt,
    salted,
    stand_in,
)
from kavka.security.scram_exchange import MAX_FIRST_BYTES, Found, ScramServer, client_exchange

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


def credential(password: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, SALT, salted(mechanism, password, SALT, iterations), iterations)


def server(
    password: str = "pencil", mechanism: ScramMechanism = SHA_256, nonce: str = SERVER_NONCE, user: str = "user"
) -> ScramServer:
    known = credential(password, mechanism)
    nobody = stand_in(mechanism, "nobody", b"secret", Shapes())
    return ScramServer(mechanism, lambda name: Found(known) if name == user else Found(nobody, is_known=False), nonce)


def failure(exchange: ScramServer, token: bytes) -> AuthenticationFailed:
    with pytest.raises(AuthenticationFailed) as caught:
        exchange.step(token)
    return caught.value


def log_in(exchange: ScramServer, mechanism: ScramMechanism, user: str, password: str) -> str | None:
    client = client_exchange(mechanism, user, password, CLIENT_NONCE)
    first = exchange.step(next(client))
    last = exchange.step(client.send(first.answer))
    with pytest.raises(StopIteration):
        client.send(last.answer)
    return last.user


def test_the_exchange_of_rfc_7677() -> None:
    exchange = server()
    first = exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first.answer == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert first.user is None
    last = exchange.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert last == Step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user", rest_ms=None)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["user", "al,ice", "a=b", "CN=x,O=y"])
def test_client_and_server_agree_whatever_the_name(mechanism: ScramMechanism, user: str) -> None:
    assert log_in(server("päss", mechanism, user=user), mechanism, user, "päss") == user


def test_a_wrong_password_fails_at_the_proof() -> None:
    exchange = server()
    client = client_exchange(SHA_256, "user", "pen", CLIENT_NONCE)
    challenge = exchange.step(next(client)).answer
    failed = failure(exchange, client.send(challenge))
    assert (failed.reason, failed.told, failed.user) == (FailureReason.WRONG_PASSWORD, None, "user")


def test_an_unknown_user_is_answered_as_a_known_one_and_fails_at_the_proof() -> None:
    exchange = server()
    client = client_exchange(SHA_256, "mallory", "pencil", CLIENT_NONCE)
    challenge = exchange.step(next(client)).answer
    assert b",i=4096" in challenge
    failed = failure(exchange, client.send(challenge))
    assert (failed.reason, failed.told, failed.user) == (FailureReason.UNKNOWN_USER, None, None)


def test_the_stand_in_of_a_name_is_always_the_same_and_looks_like_a_credential() -> None:
    shapes = Shapes([credential_of(SHA_512, b"7" * 25, bytes(64), 8192)])
    one = stand_in(SHA_512, "mallory", b"secret", shapes)
    assert one == stand_in(SHA_512, "mallory", b"secret", shapes)
    assert one.salt != stand_in(SHA_512, "trudy", b"secret", shapes).salt
    assert one.salt != stand_in(SHA_512, "mallory", b"other", shapes).salt
    assert 20 <= len(one.salt) <= 26
    assert one.salt.decode().isalnum()
    assert (len(one.stored_key), one.iterations) == (64, 8192)


@pytest.mark.parametrize(
    "nonce",
    [
        "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "xrOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",  # CVE-2024-56128: what Kafka asked for is at its end.
        "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0x",
    ],
)
def test_the_final_nonce_must_be_the_whole_one(nonce: str) -> None:
    exchange = server()
    exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    proof = b64encode(bytes(32)).decode()
    assert failure(exchange, f"c=biws,r={nonce},p={proof}".encode()).reason is FailureReason.MALFORMED


def test_a_right_proof_over_a_longer_nonce_is_refused() -> None:
    """As an attacker who knows the password would show the missing check: the proof fits the nonce that is sent. So
    does librdkafka before 2.6.1, with its own nonce twice: whoever looks for the reason finds it."""
    exchange = server()
    client = client_exchange(SHA_256, "user", "pencil", CLIENT_NONCE)
    challenge = exchange.step(next(client)).answer
    longer = server()
    altered = client_exchange(SHA_256, "user", "pencil", CLIENT_NONCE)
    longer.step(next(altered))
    final = altered.send(challenge.replace(b"r=rOpr", b"r=rOprNGfwEbeRWgbNEkqOrOpr", 1))
    assert failure(exchange, final).reason is FailureReason.NONCE_TWICE


@pytest.mark.parametrize("authzid", ["admin", "use", "user2", "USER"])
def test_nobody_acts_for_somebody_else(authzid: str) -> None:
    failed = failure(server(), f"n,a={authzid},n=user,r=abc".encode())
    assert failed.reason is FailureReason.OTHER_IDENTITY
    assert failed.told == "Authentication failed: Client requested an authorization id that is different from username"


def test_ones_own_name_may_be_asked_for() -> None:
    exchange = server()
    first = exchange.step(b"n,a=user,n=user,r=rOprNGfwEbeRWgbNEkqO").answer
    assert first.startswith(b"r=rOprNGfwEbeRWgbNEkqO")


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,,n=us\0er,r=abc",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=user,r=a bc",
        "n,,n=üser,r=abc".encode(),
        b"\xff\xfe",
        b"n,,n=user,r=abc,",
        b"n,,n=user,r=abc,x",
    ],
)
def test_a_malformed_first_message_fails(token: bytes) -> None:
    assert failure(server(), token).reason is FailureReason.MALFORMED


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"c=biws,r=NONCE",
        b"c=biws,r=NONCE,p=",
        b"c=biws,r=NONCE,p=%%%",
        b"c=biws,r=NONCE,p=YQ==",
        b"c=biw,r=NONCE,p=" + b64encode(bytes(32)),
        b"c=eSws,r=NONCE,p=" + b64encode(bytes(32)),
        b"c=biws,r=NONCE,p=" + b64encode(bytes(33)),
    ],
)
def test_a_malformed_final_message_fails(token: bytes) -> None:
    exchange = server()
    exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    nonce = f"{CLIENT_NONCE}{SERVER_NONCE}".encode()
    assert failure(exchange, token.replace(b"NONCE", nonce)).reason in (
        FailureReason.MALFORMED,
        FailureReason.WRONG_PASSWORD,
    )


def test_a_first_message_has_a_bound_for_it_is_kept() -> None:
    first = b"n,,n=user,r=abc,x="
    assert server().step(first.ljust(MAX_FIRST_BYTES, b"x")).user is None
    assert failure(server(), first.ljust(MAX_FIRST_BYTES + 1, b"x")).reason is FailureReason.MALFORMED


class Tokens:
    """One token, "id" of alice's with the password "hmac", good for so long."""

    def __init__(self, rest_ms: int = 7000) -> None:
        self.rest_ms = rest_ms
        self.given: list[ScramCredential | None] = []

    def salt(self, mechanism: ScramMechanism, token_id: str) -> bytes:
        return SALT

    def labour(self, mechanism: ScramMechanism, token_id: str) -> Callable[[], ScramCredential] | None:
        return lambda: credential("hmac", mechanism)

    def find(self, mechanism: ScramMechanism, token_id: str, computed: ScramCredential | None) -> Found:
        self.given.append(computed)
        found = computed or credential("hmac", mechanism)
        if token_id != "id":
            return Found(found, is_known=False)
        return Found(found, owner="alice", rest_ms=lambda: self.rest_ms)


def by_token(tokens: Tokens | None, mechanism: ScramMechanism = SHA_256) -> ScramServer:
    known = credential("pencil", mechanism)
    return ScramServer(mechanism, lambda name: Found(known, is_known=name == "user"), SERVER_NONCE, tokens)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("beside", [False, True])
def test_who_logs_in_with_a_token_is_its_owner_for_as_long_as_it_is_good(
    mechanism: ScramMechanism, beside: bool
) -> None:
    tokens = Tokens()
    exchange = by_token(tokens, mechanism)
    client = client_exchange(mechanism, "id", "hmac", CLIENT_NONCE, is_by_token=True)
    message = next(client)
    assert exchange.labour(message) is None
    first = exchange.step(message)
    tokens.rest_ms = 55
    message = client.send(first.answer)
    assert exchange.labour(b"n,,n=id,r=abc") is None
    labour = exchange.labour(message)
    assert labour is not None
    if beside:
        labour()
    last = exchange.step(message)
    assert (tokens.given[0] is not None) is beside
    assert (last.user, last.rest_ms, last.is_by_token) == ("alice", 55, True)


@pytest.mark.parametrize(
    ("name", "password", "rest_ms", "reason", "user"),
    [
        ("id", "wrong", 7000, FailureReason.WRONG_PASSWORD, "alice"),
        ("id", "hmac", -1, FailureReason.EXPIRED_TOKEN, "alice"),
        ("id", "wrong", -1, FailureReason.WRONG_PASSWORD, "alice"),
        ("user", "pencil", 7000, FailureReason.UNKNOWN_TOKEN, None),
        ("alice", "hmac", 7000, FailureReason.UNKNOWN_TOKEN, None),
    ],
)
def test_a_token_that_is_unknown_or_over_or_with_another_password_fails_at_the_proof(
    name: str, password: str, rest_ms: int, reason: FailureReason, user: str | None
) -> None:
    exchange = by_token(Tokens(rest_ms))
    client = client_exchange(SHA_256, name, password, CLIENT_NONCE, is_by_token=True)
    failed = failure(exchange, client.send(exchange.step(next(client)).answer))
    assert (failed.reason, failed.user, failed.told) == (reason, user, None)


def test_a_tokens_id_and_password_are_nobodys_name_and_password() -> None:
    exchange = by_token(Tokens())
    client = client_exchange(SHA_256, "id", "hmac", CLIENT_NONCE)
    assert failure(exchange, client.send(exchange.step(next(client)).answer)).reason is FailureReason.UNKNOWN_USER


def test_where_there_are_no_tokens_nobody_logs_in_with_one() -> None:
    exchange = by_token(None)
    assert exchange.labour(b"n,,n=user,r=abc,tokenauth=true") is None
    assert failure(exchange, b"n,,n=user,r=abc,tokenauth=true").reason is FailureReason.UNKNOWN_TOKEN


@pytest.mark.parametrize(
    ("extensions", "is_token"),
    [
        (b"tokenauth=true", True),
        (b"foo=bar,tokenauth=TRUE", True),
        (b"tokenauth=false,tokenauth=true", True),
        (b"tokenauth=true,tokenauth=false", False),
        (b"foo=bar,tokenauth=false", False),
        (b"tokenauth=1", False),
        (b"TokenAuth=true", False),
        (b"x=tokenauth=true", False),
    ],
)
def test_an_extension_says_that_the_name_is_a_tokens_as_in_kafka(extensions: bytes, is_token: bool) -> None:
    message = b"n,,n=id,r=abc," + extensions
    tokens = Tokens()
    exchange = by_token(tokens)
    challenge = exchange.step(message).answer
    nonce = challenge.split(b",")[0]
    last = b"c=biws," + nonce + b",p=" + b64encode(bytes(32))
    assert (exchange.labour(last) is not None) is is_token
    failure(exchange, last)
    assert bool(tokens.given) is is_token


def test_nobody_acts_for_the_owner_of_a_token_by_name() -> None:
    assert failure(by_token(Tokens()), b"n,a=alice,n=id,r=abc,tokenauth=true").reason is FailureReason.OTHER_IDENTITY


def test_a_credential_of_too_few_iterations_lets_nobody_in() -> None:
    weak = credential("pencil", iterations=4095)
    exchange = ScramServer(SHA_256, lambda name: Found(weak), SERVER_NONCE)
    client = client_exchange(SHA_256, "user", "pencil", CLIENT_NONCE)
    failed = failure(exchange, client.send(exchange.step(next(client)).answer))
    assert (failed.reason, failed.user) == (FailureReason.UNUSABLE_CREDENTIAL, "user")


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r=other,s=YQ==,i=4096", "does not continue"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=YQ==,i=4096", "does not continue"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=YQ==,i=1000001", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=YQ==,i=0", "iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,i=4096", "not a SCRAM challenge"),
        (b"e=unknown-user", "not a SCRAM challenge"),
    ],
)
def test_a_client_refuses_a_hostile_challenge(challenge: bytes, why: str) -> None:
    client = client_exchange(SHA_256, "user", "pencil", CLIENT_NONCE)
    next(client)
    with pytest.raises(ValueError, match=why):
        client.send(challenge)


def test_a_client_does_not_believe_a_server_that_does_not_know_the_password() -> None:
    client = client_exchange(SHA_256, "user", "pencil", CLIENT_NONCE)
    challenge = server().step(next(client)).answer
    client.send(challenge)
    with pytest.raises(ValueError, match="its signature is wrong"):
        client.send(b"v=" + b64encode(bytes(32)))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_is_stored_and_read_back(mechanism: ScramMechanism) -> None:
    one = credential("pencil", mechanism, 8192)
    assert ScramCredential.decode(one.encode()) == one
    assert one.encode().startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert one.encode().endswith(",iterations=8192")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=x",
        "salt=%,stored_key=YQ==,server_key=YQ==,iterations=4096",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=4096,more=1",
        "hunter2",
    ],
)
def test_what_is_no_credential_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="SCRAM") as caught:
        ScramCredential.decode(text)
    assert "hunter2" not in str(caught.value)


def test_a_credential_does_not_show_what_it_keeps() -> None:
    assert repr(credential("pencil")) == "ScramCredential(iterations=4096)"


def test_salts_are_kafkas() -> None:
    assert new_salt(0) == b"0"
    assert new_salt(36) == b"10"
    assert len(new_salt(2**130 - 1)) == 26
    assert int(new_salt(2**130 - 1), 36) == 2**130 - 1


BY_KAFKA = {
    "SCRAM-SHA-512": "salt=MTNnNWlkMXkwZjEwb2d5ejl5b2swcDRnZ3o=,"
    "stored_key=v461kn4yl5KC7OBu6j5aCnpvppgDG+OOQ34fviypkbm5EeLUflr5w5PyXe2jHHIwtpIW2RMSjddPzl46avS3Lg==,"
    "server_key=EYkLHE2VyC7iu0Fn33r9TRWPzxeLpZMR0koNtDR9ex+mTYTzXG9hAmseizc7V3+95R01YeKvRudZAkkdvq0T+A==,"
    "iterations=8192",
    "SCRAM-SHA-256": "salt=MWh6cm9vdXprb3I5dDFkMHB6NW5pbnJtd20=,"
    "stored_key=uu/One12t9C73E7XfG6E23Q0DgN/CPgC6WiDe57GGqs=,"
    "server_key=UxSaY8GQcKqJ0M0U9WP8VFVzF3xHjffZhwq3L5r830I=,iterations=4096",
}
"""What kafka-configs 3.9.2 wrote for the password pw-1."""


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_is_byte_by_byte_what_kafka_writes(mechanism: ScramMechanism) -> None:
    text = BY_KAFKA[mechanism.value]
    read = ScramCredential.decode(text)
    made = credential_of(mechanism, read.salt, salted(mechanism, "pw-1", read.salt, read.iterations), read.iterations)
    assert made == read
    assert made.encode() == text
    exchange = ScramServer(mechanism, lambda name: Found(read), SERVER_NONCE)
    assert log_in(exchange, mechanism, "al ice", "pw-1") == "al ice"
