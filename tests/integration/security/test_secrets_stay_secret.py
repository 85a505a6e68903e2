"""Passwords that were set, sent, or typed in the wrong place are found nowhere: canaries in all that a broker shows."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest
import structlog

from kavka.metrics import Registry, render_prometheus
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.security.plain import client_token
from kavka.security.scram_credentials import ScramMechanism
from kavka.zookeeper.port import NoNode, ZooKeeper
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.oauthbearer_script import write_keys
from tests.kit.sasl_script import LISTENER, PLAIN_LOGIN, Wire, add_user, settings, wait_for_user
from tests.kit.token_issuer import AUDIENCE, ISSUER, claims, first_message, token
from tests.kit.token_script import Made, by_token, create, describe, renew

CANARY = "yellow-bird"


async def everything_in(zookeeper: ZooKeeper, path: str = "/") -> list[bytes]:
    found = []
    try:
        data, _stat = await zookeeper.get(path)
        found.append(data or b"")
        for child in await zookeeper.children(path):
            found += await everything_in(zookeeper, f"{path.rstrip('/')}/{child}")
    except NoNode:
        return found
    return found


def used_token(port: int) -> bytes:
    """The HMAC of a delegation token that was made, seen, used, renewed and guessed at."""
    with Wire(port) as wire:
        wire.handshake("PLAIN")
        assert wire.token(client_token("alice", f"{CANARY}-alice"))[0] == "NONE"
        made, told = create(wire)
        assert told["error"] == "NONE"
        renew(wire, made.hmac)
        renew(wire, made.hmac[:-1] + b"x")
        describe(wire)
    for each, ends in ((made, "NONE"), (Made(made.token_id, made.hmac[:-1]), "SASL_AUTHENTICATION_FAILED")):
        with (login := by_token(port, each))[0]:
            assert login[1][0] == ends
    return made.hmac


def attack(port: int, plaintext: int, tokens: list[bytes]) -> None:
    add_user(plaintext, "carol", f"{CANARY}-scram")
    wait_for_user(port, "carol", f"{CANARY}-scram")
    for said in (
        client_token("alice", f"{CANARY}-alice"),
        client_token("alice", f"{CANARY}-wrong"),
        client_token(f"{CANARY}-as-a-name", "x"),
        f"{CANARY}-no-message".encode(),
    ):
        with Wire(port) as wire:
            wire.handshake("PLAIN")
            wire.token(said)
    for user, password in (("carol", f"{CANARY}-wrong"), (f"{CANARY}-as-a-name", "x")):
        with Wire(port) as wire:
            wire.handshake("SCRAM-SHA-256")
            wire.scram(ScramMechanism.SHA_256, user, password)
    with Wire(port) as wire:
        wire.handshake(f"{CANARY}-mechanism")
    tokens.append(used_token(port))
    good = token()
    for message in (
        first_message(good, trace=f"{CANARY}-extension"),
        first_message(token(claims(jti=f"{CANARY}-claim", aud="other"))),
        first_message(token(claims(sub=f"{CANARY}-unsigned-name"), kid="RS256-2", header={"kid": "RS256-1"})),
        first_message(token(header={"kid": f"{CANARY}-key"})),
        first_message(f"{CANARY}-no-token"),
        first_message(good, authzid=f"{CANARY}-authzid"),
        f"n,,{CANARY}-no-message".encode(),
    ):
        with Wire(port) as wire:
            wire.handshake("OAUTHBEARER")
            wire.token(message)
            wire.token(b"\x01")


def described(plaintext: int) -> str:
    """What DescribeConfigs says of the broker."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)]
    )
    with Wire(plaintext) as wire:
        return repr(wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, request))


def test_no_canary_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    own = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
    own |= {
        "sasl.enabled.mechanisms": f"{own['sasl.enabled.mechanisms']},OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": write_keys(tmp_path / "keys.json"),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "delegation.token.secret.key": f"{CANARY}-key-of-tokens",
    }
    jaas = f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config"
    own[jaas] = PLAIN_LOGIN.replace("alice-secret", f"{CANARY}-alice").replace("admin-secret", f"{CANARY}-admin")
    shown: list[str] = []
    tokens: list[bytes] = []

    async def scenario() -> None:
        async with InProcessCluster(tmp_path, count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            ((_host, plaintext),) = cluster.bootstrap
            await asyncio.to_thread(attack, cluster.ports_of[LISTENER][1], plaintext, tokens)
            registry: Registry = cluster._servers[1].metrics
            shown.append(render_prometheus(registry))
            shown.extend(each.decode(errors="replace") for each in await everything_in(cluster.session))
            settings_shown = await asyncio.to_thread(described, plaintext)
            assert "sasl.enabled.mechanisms" in settings_shown
            assert jaas in settings_shown
            shown.append(settings_shown)
            await cluster.stop(1)

    with structlog.testing.capture_logs() as lines:
        asyncio.run(asyncio.wait_for(scenario(), 280))
    printed = capfd.readouterr()
    shown += [str(lines), printed.out, printed.err]
    for mechanism in ("PLAIN", "OAUTHBEARER"):
        assert f"did not authenticate with {mechanism}" in str(lines)
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.stat().st_size < 20_000_000:
            content = file.read_bytes()
            assert not [token_hmac for token_hmac in tokens if token_hmac in content], file
            shown.append(content.decode(errors="replace"))
    assert not [text[max(0, text.find(CANARY) - 60) :][:160] for text in shown if CANARY in text]
    # Nor any token: each begins like this.
    beginning = token()[:20]
    assert not [text for text in shown if beginning in text]
    (token_hmac,) = tokens
    for form in (b64encode(token_hmac).decode(), token_hmac.hex(), repr(token_hmac)[2:40]):
        assert not [text for text in shown if form in text]
