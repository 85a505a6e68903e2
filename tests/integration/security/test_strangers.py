"""A login that fails says the same, byte for byte, whether there is such a user or not."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path

import pytest

from kavka.protocol.api import ApiKey
from kavka.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from kavka.security.plain import client_token
from kavka.security.scram_credentials import ScramMechanism, new_salt
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.sasl_script import Wire, add_user, wait_for_user
from tests.kit.token_script import LISTENER, create, logged_in, settings

OWN = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
SALT = new_salt(2**129 + 12345)
TOKENS = ",tokenauth=true"


def answers(port: int, mechanism: str, name: str, extension: str = "") -> list[bytes | None]:
    """Every frame, to the end of the connection; a challenge without its nonce and salt, but with their lengths."""
    seen: list[bytes | None] = []
    with Wire(port) as wire:
        wire.send(wire.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism)))
        seen.append(wire.receive())
        if mechanism == "PLAIN":
            token = client_token(name, "wrong")
        else:
            said = wire.ask(
                ApiKey.SASL_AUTHENTICATE,
                1,
                SaslAuthenticateRequest(auth_bytes=f"n,,n={name},r=abc{extension}".encode()),
            )
            nonce, salt, iterations = bytes(said.auth_bytes).split(b",")
            seen.append(repr((said.error_code, said.error_message, len(nonce), len(salt), iterations)).encode())
            token = b"c=biws," + nonce + b",p=" + b64encode(bytes(64))
        wire.send(wire.request(ApiKey.SASL_AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=token)))
        while (frame := wire.receive()) is not None:
            seen.append(frame)
        return [*seen, None]


@pytest.mark.timeout(300)
def test_every_byte_is_the_same_whether_there_is_such_a_user_or_not(tmp_path: Path) -> None:
    def work(port: int, plaintext_port: int) -> None:
        add_user(plaintext_port, "alice", "alice-secret", iterations=8192, salt=SALT)
        wait_for_user(port, "alice", "alice-secret")
        with logged_in(port, "alice") as wire:
            token_id = create(wire)[0].token_id
        for mechanism in ("PLAIN", *(each.value for each in ScramMechanism)):
            known = answers(port, mechanism, "alice")
            assert len(known) == (3 if mechanism == "PLAIN" else 4)
            # A salt of Kafka's has 25 or 26 letters, by chance.
            assert any(known == answers(port, mechanism, f"bob{number:02}") for number in range(12))
        for mechanism in (each.value for each in ScramMechanism):
            by_token = answers(port, mechanism, token_id, TOKENS)
            assert len(by_token) == 4
            # A token's is drawn: one of sixty has 24 letters, and of two thousand 23.
            assert any(by_token == answers(port, mechanism, f"{number:022}", TOKENS) for number in range(5_000))

    async def scenario() -> None:
        own = OWN | {"connection.failed.authentication.delay.ms": "0", "kavka.authentication.free.failures": "0"}
        async with InProcessCluster(tmp_path, count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            ((_host, plaintext_port),) = cluster.bootstrap
            await asyncio.to_thread(work, cluster.ports_of[LISTENER][1], plaintext_port)

    asyncio.run(asyncio.wait_for(scenario(), 250))
