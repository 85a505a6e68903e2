"""What hostile clients send before they have authenticated: no failure but the one meant, and nobody gets in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.security.jaas import MalformedJaas, parse
from kavka.security.plain import PlainServer
from kavka.security.sasl import ServerExchange
from kavka.security.sasl_server import Phase, SaslServer
from kavka.security.scram_credentials import ScramCredential, ScramMechanism, Shapes, credential_of, stand_in
from kavka.security.scram_exchange import Found, ScramServer
from kavka.security.secret import Secret

SALTED = bytes(range(32))
ALICE = credential_of(ScramMechanism.SHA_256, b"salt", SALTED, 4096)
NOBODY = stand_in(ScramMechanism.SHA_256, "x", b"secret", Shapes())

pieces = st.sampled_from(
    [
        b"n,,",
        b"n=",
        b"alice",
        b",r=",
        b"abc",
        b"nonce",
        b",p=",
        b"c=biws",
        b"a=",
        b"=2C",
        b"=3D",
        b"\0",
        b"\xff",
        b"y,,",
        b",",
    ]
)
tokens = st.one_of(st.binary(max_size=200), st.lists(pieces, max_size=12).map(b"".join))
requests = st.one_of(
    st.tuples(st.just("token"), tokens),
    st.tuples(st.just("handshake"), st.sampled_from([b"PLAIN", b"SCRAM-SHA-256", b"OTHER"])),
    st.tuples(st.sampled_from(["versions", "other"]), st.just(b"")),
)


def plain() -> ServerExchange:
    return PlainServer({"alice": Secret("the password that no token above has")})


def scram() -> ServerExchange:
    def find(name: str) -> Found:
        return Found(ALICE) if name == "alice" else Found(NOBODY, is_known=False)

    return ScramServer(ScramMechanism.SHA_256, find, "nonce")


@settings(max_examples=2_000)
@given(st.lists(requests, max_size=8))
def test_nothing_that_is_sent_opens_a_connection_or_breaks_it(sequence: list[tuple[str, bytes]]) -> None:
    server = SaslServer({"PLAIN": plain, "SCRAM-SHA-256": scram}, lambda mechanism: 0)
    for kind, content in sequence:
        was_ended = server.phase is Phase.ENDED
        if kind == "token":
            server.on_token(content, 0)
        elif kind == "handshake":
            server.on_handshake(content.decode(), 1, 0)
        elif kind == "versions":
            server.on_api_versions(is_good=True)
        else:
            server.on_other()
        assert server.phase is not Phase.OPEN
        assert server.user is None
        assert not was_ended or server.phase is Phase.ENDED


@settings(max_examples=2_000)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(
            st.sampled_from(
                [
                    "ScramLoginModule",
                    " required",
                    " username",
                    "=",
                    '"',
                    "'",
                    "\\",
                    ";",
                    "a",
                    " ",
                    "/*",
                    "*/",
                    "//",
                    "\n",
                    "7",
                ]
            ),
            max_size=20,
        ).map("".join),
    )
)
def test_a_login_is_read_or_refused(text: str) -> None:
    try:
        login = parse(text)
    except MalformedJaas:
        return
    assert login.module in ("PLAIN", "SCRAM")


@settings(max_examples=1_000)
@given(st.text(max_size=200))
def test_a_credential_is_read_or_refused(text: str) -> None:
    try:
        credential = ScramCredential.decode(text)
    except ValueError:
        return
    assert credential.iterations >= 0
