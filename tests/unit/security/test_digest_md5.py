"""DIGEST-MD5 as ZooKeeper uses it: proofs, and what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security import digest_md5
from kavka.security.digest_md5 import MAX_MESSAGE_BYTES, DigestClient, DigestServer, SaslFailed, directives
from kavka.security.secret import Secret

USERS = {"kafka": Secret("se,cret"), 'o"dd\\': Secret("x")}


def exchange(username: str, password: str) -> str:
    server = DigestServer(USERS, "server-nonce")
    client = DigestClient(username, Secret(password), "client-nonce")
    user, proof = server.answer(client.respond(server.challenge()))
    client.finish(proof)
    return user


@pytest.mark.parametrize(("name", "password"), [("kafka", "se,cret"), ('o"dd\\', "x")])
def test_who_knows_the_password_is_who_he_says(name: str, password: str) -> None:
    assert exchange(name, password) == name


@pytest.mark.parametrize(("name", "password"), [("kafka", "wrong"), ("kafka", ""), ("nobody", ""), ("", "")])
def test_who_does_not_know_it_is_nobody(name: str, password: str) -> None:
    with pytest.raises(SaslFailed, match="unknown user, or wrong password"):
        exchange(name, password)


def test_the_digests_are_those_of_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    """RFC 2831, section 4."""
    monkeypatch.setattr(digest_md5, "URI", "imap/elwood.innosoft.com")
    values = digest_md5._Values(
        "chris", "elwood.innosoft.com", Secret("secret"), "OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk", ""
    )
    assert digest_md5._digest("AUTHENTICATE:", values) == "d388dad90d4bbd760a152321f2143af7"
    assert digest_md5._digest(":", values) == "ea40f60335c427b5527b84dbabcdfffd"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('authzid="kafka"', 'authzid="admin"'),
        ('nonce="server-nonce"', 'nonce="another"'),
        ("nc=00000001", "nc=00000002"),
        ("zookeeper/zk-sasl-md5", "imap/elsewhere"),
        ('realm="zk-sasl-md5"', 'realm="elsewhere"'),
        ("qop=auth", "qop=auth-int"),
        ('cnonce="client-nonce"', 'cnonce=""'),
        ("response=", "response=0"),
        ("maxbuf=65536", 'username="admin"'),
    ],
)
def test_a_response_that_was_changed_proves_nothing(old: str, new: str) -> None:
    server = DigestServer(USERS, "server-nonce")
    response = DigestClient("kafka", Secret("se,cret"), "client-nonce").respond(server.challenge()).decode()
    assert old in response
    with pytest.raises(SaslFailed):
        server.answer(response.replace(old, new).encode())


def test_a_response_is_good_once() -> None:
    server = DigestServer(USERS, "server-nonce")
    response = DigestClient("kafka", Secret("se,cret"), "client-nonce").respond(server.challenge())
    server.answer(response)
    with pytest.raises(SaslFailed, match="over"):
        server.answer(response)


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    client = DigestClient("kafka", Secret("se,cret"), "client-nonce")
    with pytest.raises(SaslFailed):
        client.finish(b"rspauth=")
    client.respond(DigestServer({}, "server-nonce").challenge())
    for proof in (b"", b"rspauth=0", b"rspauth=00000000000000000000000000000000"):
        with pytest.raises(SaslFailed, match="does not know the password"):
            client.finish(proof)


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b'nonce="n"',
        b'nonce="n",algorithm=md5',
        b"algorithm=md5-sess",
        b'nonce="n",algorithm=md5-sess,qop="auth-conf"',
    ],
)
def test_a_challenge_that_asks_for_something_else_is_refused(challenge: bytes) -> None:
    with pytest.raises(SaslFailed):
        DigestClient("kafka", Secret("x"), "c").respond(challenge)


@given(st.binary(max_size=MAX_MESSAGE_BYTES + 10) | st.text('abc=",\\ \t').map(str.encode))
def test_whatever_comes_the_outcome_is_a_refusal(message: bytes) -> None:
    with pytest.raises(SaslFailed):
        DigestServer(USERS, "server-nonce").answer(message)
    with suppress(SaslFailed):
        assert isinstance(directives(message), dict)
