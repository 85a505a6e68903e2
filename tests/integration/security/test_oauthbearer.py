"""Listeners with OAUTHBEARER: who gets in, for how long, and what follows when the issuer changes its keys or fails."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.authentication import issuer_keys
from kavka.broker.authentication.sasl_gate import RECORDED_AFTER_S
from kavka.errors import ConfigError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.keys_server import KeysServer
from tests.kit.sasl_script import LISTENER, Wire, told
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, encoded, first_message, key_set, token

OWN = f"listener.name.{LISTENER.lower()}.oauthbearer"
REFUSED = '{"status":"invalid_token"}'
SHORT_S = 6
"""Long enough for a login and a second one on a busy machine."""


def settings_of(url: str, login: str | None = None, **own: str) -> dict[str, str]:
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{LISTENER}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "10",
        "kavka.authentication.free.failures": "0",
        f"{OWN}.sasl.oauthbearer.jwks.endpoint.url": url,
        f"{OWN}.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{OWN}.sasl.oauthbearer.expected.audience": f"others,{AUDIENCE}",
        f"{OWN}.sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "200",
        **own,
    }
    if login is not None:
        settings[f"{OWN}.sasl.jaas.config"] = login
    return settings


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KeysServer]:
    with KeysServer(tmp_path, key_set("RS256-1", "ES256-1")) as running:
        yield running


def on_kavka(path: Path, settings: dict[str, str], work: Callable[[int], Any]) -> tuple[Any, list[Any]]:
    """What `work` finds, and the why-records meanwhile."""

    async def scenario() -> Any:
        async with InProcessCluster(path / "kavka", count=1, settings=settings, more_listeners=[LISTENER]) as cluster:
            gates = cluster.broker(1).gates
            assert gates is not None
            recorded: list[Any] = []
            gates._ports.failures._record = recorded.append
            found = await asyncio.to_thread(work, cluster.ports_of[LISTENER][1])
            await asyncio.sleep(2 * RECORDED_AFTER_S)  # The last failure is recorded after its answer.
            return found, recorded

    return asyncio.run(asyncio.wait_for(scenario(), 280))


def logged_in(wire: Wire, text: str, **how: Any) -> Any:
    assert wire.handshake("OAUTHBEARER") == ("NONE", ["OAUTHBEARER"])
    return wire.token(first_message(text, **how))


def answers(port: int, text: str) -> list[Any]:
    """What a client with this token is answered until it is in or out."""
    with Wire(port) as wire:
        found = [logged_in(wire, text)]
        if found[0][2]:
            found += [wire.token(b"\x01"), wire.ended()]
        return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.setting(
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.clock.skew.seconds",
)
def test_a_client_is_whom_its_token_names_and_nobody_gets_in_with_another(tmp_path: Path, server: KeysServer) -> None:
    now = time.time()
    wrong = {
        "token of another issuer": token(claims(iss="https://evil.example", jti="canary")),
        "token for another audience": token(claims(aud="canary")),
        "expired token": token(claims(now - 1000, jti="canary")),
        "token that is not valid yet": token(claims(nbf=int(now) + 300)),
        "token signed with an unknown key": token(kid="RS256-canary"),
        "wrong signature of the token": token(kid="RS256-2", header={"kid": "RS256-1"}),
        "token with a header that is not accepted": token(header={"jku": "https://canary.example"}),
        "malformed token": "canary",
    }

    def work(port: int) -> None:
        with Wire(port) as wire:
            error, message, has_token, lifetime_ms = logged_in(wire, token(), traceId="x")
            assert (error, message, has_token) == ("NONE", "", False)
            assert 580_000 < lifetime_ms <= 600_000
            assert wire.is_served() == "served"
        # Clocks may differ by a minute.
        with Wire(port) as wire:
            now_s = int(time.time())
            assert logged_in(wire, token(claims(iat=now_s - 50, exp=now_s - 40)))[0] == "NONE"
        for text in wrong.values():
            assert answers(port, text) == [
                ("NONE", "", True, 0),
                ("SASL_AUTHENTICATION_FAILED", REFUSED, False, 0),
                "closed",
            ]
        unsigned = f"{encoded({'alg': 'none'})}.{encoded(claims())}."
        assert answers(port, unsigned)[1][0] == "SASL_AUTHENTICATION_FAILED"
        with Wire(port) as wire:
            assert logged_in(wire, token(), authzid="admin")[0] == "SASL_AUTHENTICATION_FAILED"
            assert wire.ended() == "closed"

    settings = settings_of(server.url, server.login, **{"sasl.oauthbearer.clock.skew.seconds": "60"})
    _, recorded = on_kavka(tmp_path, settings, work)
    reasons = [record.evidence["reason"] for record in recorded]
    refused = "token signed with an algorithm that is not accepted"
    assert reasons == [*wrong, refused, "another identity asked for"]
    assert recorded[1].why == (
        f"User:alice from host 127.0.0.1 did not authenticate with OAUTHBEARER on listener {LISTENER}: "
        "token for another audience"
    )
    assert "canary" not in repr(recorded)
    assert "eyJ" not in repr(recorded)


@pytest.mark.setting("sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name")
def test_the_settings_name_the_claims(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(key_set("ES256-1"))

    def work(port: int) -> list[Any]:
        def error(**other: Any) -> Any:
            content = claims(**{"email": "al@example.org", "sub": None, **other})
            return answers(port, token(content, kid="ES256-1", algorithm="ES256"))[-1][0]

        return [error(), error(email=None, sub="alice"), error(roles=["x", "x"]), error(scope=["x", "x"])]

    own = {"sasl.oauthbearer.sub.claim.name": "email", "sasl.oauthbearer.scope.claim.name": "roles"}
    found, recorded = on_kavka(tmp_path, settings_of(f"file://{file}", **own), work)
    assert found == ["NONE", "c", "c", "NONE"]
    assert {record.evidence["reason"] for record in recorded} == {
        "token without a claim that is needed, or with a malformed one"
    }


def test_a_new_key_of_the_issuer_is_found_and_unknown_ones_do_not_make_it_asked_again_and_again(
    tmp_path: Path, server: KeysServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer_keys, "LOOK_AGAIN_MS", 10**9)

    def work(port: int) -> None:
        assert server.asked == 1
        for _ in range(20):
            assert answers(port, token(kid="RS256-3"))[-1] == "closed"
        assert server.asked == 1
        monkeypatch.setattr(issuer_keys, "LOOK_AGAIN_MS", 0)
        server.document = key_set("RS256-3")
        wait_until(lambda: answers(port, token(kid="RS256-3"))[0][2] is False)
        # What the issuer has taken back is good for nothing.
        assert answers(port, token(kid="RS256-1"))[-1] == "closed"

    on_kavka(tmp_path, settings_of(server.url, server.login), work)


@pytest.mark.setting("sasl.oauthbearer.jwks.endpoint.refresh.ms")
@pytest.mark.parametrize(
    "manner",
    [
        "lies",
        *(pytest.param(each, marks=pytest.mark.thorough) for each in ("fails", "empty", "huge", "redirects", "cut")),
    ],
)
def test_while_the_keys_cannot_be_fetched_the_last_ones_stay(
    tmp_path: Path, server: KeysServer, manner: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And a broker that has none yet serves all the same, and believes nobody."""

    def work(port: int) -> None:
        asked = server.asked
        assert answers(port, token())[-1] == "closed"
        wait_until(lambda: server.asked > asked + 1)
        server.manner = "well"
        wait_until(lambda: answers(port, token())[0][2] is False)
        server.manner = manner
        asked = server.asked
        wait_until(lambda: server.asked > asked + 1)
        assert answers(port, token())[0][2] is False

    server.manner = manner
    own = {"sasl.oauthbearer.jwks.endpoint.refresh.ms": "100"}
    _, recorded = on_kavka(tmp_path, settings_of(server.url, server.login, **own), work)
    assert recorded[0].evidence["reason"] == "no keys to verify tokens with"
    output = "".join(capfd.readouterr())
    assert "keys of tokens could not be fetched" in output
    assert "canary" not in output


@pytest.mark.parametrize("threads", ["1", pytest.param("2", marks=pytest.mark.thorough)])
def test_a_session_ends_with_its_token_and_its_client_may_bring_another(
    tmp_path: Path, server: KeysServer, threads: str
) -> None:
    def short(sub: str = "alice") -> str:
        return token(claims(sub=sub, exp=int(time.time()) + SHORT_S))

    def work(port: int) -> None:
        with Wire(port) as wire:
            lifetime_ms = logged_in(wire, short())[3]
            assert 0 < lifetime_ms <= SHORT_S * 1_000
            # Everything behind the new token waits for what comes of it.
            asked = [
                wire.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="OAUTHBEARER")),
                wire.request(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=first_message(token()))),
                *(wire.request(ApiKey.METADATA, 4, MetadataRequest(topics=[])) for _ in range(3)),
            ]
            wire.send(b"".join(asked))
            assert wire.answer(ApiKey.SASL_HANDSHAKE, 1).error_code == 0
            error, _, _, again_ms = told(wire.answer(ApiKey.SASL_AUTHENTICATE, 1))
            assert (error, again_ms > 500_000) == ("NONE", True)
            for _ in range(3):
                assert wire.answer(ApiKey.METADATA, 4) != "closed"
        with Wire(port) as wire:
            logged_in(wire, short())
            asked = [
                wire.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="OAUTHBEARER")),
                wire.request(
                    ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=first_message(short("bob")))
                ),
                *(wire.request(ApiKey.METADATA, 4, MetadataRequest(topics=[])) for _ in range(3)),
            ]
            wire.send(b"".join(asked))
            assert wire.answer(ApiKey.SASL_HANDSHAKE, 1).error_code == 0
            assert told(wire.answer(ApiKey.SASL_AUTHENTICATE, 1))[0] == "SASL_AUTHENTICATION_FAILED"
            assert wire.ended() == "closed"
        with Wire(port) as wire:
            logged_in(wire, short())
            wait_until(lambda: wire.is_served() == "closed")

    own = {"num.network.threads": threads}
    _, recorded = on_kavka(tmp_path, settings_of(server.url, server.login, **own), work)
    assert [record.evidence["reason"] for record in recorded] == ["principal changed"]


def test_bare_messages_of_the_first_version_are_answered_as_such(tmp_path: Path, server: KeysServer) -> None:
    def work(port: int) -> None:
        with Wire(port) as wire:
            wire.handshake("OAUTHBEARER", 0)
            wire.raw(first_message(token()))
            assert wire.receive() == b""
            assert wire.is_served() == "served"
        with Wire(port) as wire:
            wire.handshake("OAUTHBEARER", 0)
            wire.raw(first_message("canary"))
            assert wire.receive() == REFUSED.encode()
            wire.raw(b"\x01")
            assert wire.ended() == "closed"

    on_kavka(tmp_path, settings_of(server.url, server.login), work)


def test_tokens_that_nobody_signed_are_believed_where_the_settings_say_so(tmp_path: Path) -> None:
    unsigned = f"{encoded({'alg': 'none'})}.{encoded({'sub': 'alice', 'exp': int(time.time()) + 600})}."
    settings = {name: text for name, text in settings_of("").items() if not name.startswith(OWN)}

    def work(port: int) -> None:
        with Wire(port) as wire:
            assert logged_in(wire, unsigned)[0] == "NONE"
            assert wire.is_served() == "served"
        assert answers(port, token())[-1] == "closed"

    on_kavka(tmp_path, {**settings, "kavka.oauthbearer.unsecured": "true"}, work)


def test_without_the_package_the_broker_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kavka.broker.assembly import oauthbearer_verifiers

    monkeypatch.setattr(oauthbearer_verifiers, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install '.*\[security\]'"):
        on_kavka(tmp_path, settings_of("file:///nothing"), lambda port: None)


def test_a_set_of_keys_with_keys_for_other_purposes_is_read(tmp_path: Path, server: KeysServer) -> None:
    keys = json.loads(server.document)
    server.document = json.dumps({"keys": [{"kty": "oct", "k": "AAAA"}, 7, *keys["keys"]]}).encode()
    on_kavka(tmp_path, settings_of(server.url, server.login), lambda port: answers(port, token())[0][0] == "NONE")
