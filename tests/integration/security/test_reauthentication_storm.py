"""500 sessions that are due at once: each is prolonged on its connection, or ends, and nobody else notices."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.security.plain import client_token
from tests.kit.broker_client import BrokerClient, Closed
from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port

CLIENTS = 500
CROWD, ELSEWHERE = "127.0.0.5", "127.0.0.6"
SESSION_MS = 120_000
SOONEST_AGAIN_S = 1.1
"""Kafka's brokers, and so kavka's, refuse who logs in again within a second of the last time."""
HANDSHAKE = SaslHandshakeRequest(mechanism="PLAIN")
METADATA = MetadataRequest(topics=[], allow_auto_topic_creation=False)
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="good";'


def token(password: str) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=client_token("alice", password))


def log_in(client: BrokerClient) -> int:
    assert client.ask(HANDSHAKE, 1).error_code == 0
    answer = client.ask(token("good"), 2)
    assert answer.error_code == 0
    return int(answer.session_lifetime_ms)


def again(client: BrokerClient, password: str) -> None:
    """Logs in again, and goes on, without waiting for an answer."""
    client.send(HANDSHAKE, 1)
    client.send(token(password), 2)
    client.send(METADATA, 12)


def outcome(client: BrokerClient, password: str) -> str:
    """What came back."""
    try:
        assert client.receive(HANDSHAKE, 1).error_code == 0
        if client.receive(token(password), 2).error_code:
            assert client.is_closed_by_broker()
            return "refused and closed"
        client.receive(METADATA, 12)
        return "goes on"
    except Closed:
        return "closed"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    own, secured = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{own},SASL_PLAINTEXT://127.0.0.1:{secured}",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
        "connections.max.reauth.ms": str(SESSION_MS),
    }
    with KavkaProcess(tmp_path / "data", port=own, settings=settings):
        yield secured


@pytest.mark.thorough
def test_500_clients_log_in_again_at_once(port: int) -> None:
    clients = [BrokerClient(port, source=CROWD, timeout_s=60) for _ in range(CLIENTS)]
    try:
        assert {log_in(client) for client in clients} == {SESSION_MS}
        for password, expected in (("good", "goes on"), ("wrong", "refused and closed")):
            time.sleep(SOONEST_AGAIN_S)
            for client in clients:
                again(client, password)
            with BrokerClient(
                port, source=ELSEWHERE, timeout_s=10
            ) as good:  # Whatever the crowd's address has to wait.
                log_in(good)
            assert Counter(outcome(client, password) for client in clients) == {expected: CLIENTS}
    finally:
        for client in clients:
            client.close()
