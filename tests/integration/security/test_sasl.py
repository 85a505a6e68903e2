"""Listeners that authenticate by SASL: who gets in, as whom, for how long; and brokers that log in on each other."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from kavka.broker.assembly.broker import Broker
from kavka.broker.authentication.sasl_gate import RECORDED_AFTER_S
from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.client.settings import ClientSettings
from kavka.decisions import DecisionKind
from kavka.errors import ConfigError, ErrorCode, RequestError
from kavka.metrics import Gauge
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.protocol.messages.metadata_response import MetadataResponse
from kavka.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.runtime.network.network import SocketNetwork
from kavka.security.plain import client_token
from kavka.security.scram_credentials import ScramMechanism, credential_of, salted
from kavka.zookeeper.port import ZooKeeper
from kavka.zookeeper.znodes import ConfigEntity
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.sasl_script import (
    CASES,
    LISTENER,
    SCRAM_LOGIN,
    Wire,
    add_user,
    remove_user,
    settings,
    wait_for_user,
    wait_until_out,
)

SECURED = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}
BROKERS = "SCRAM-SHA-512"
OWN = f"listener.name.{LISTENER.lower()}"


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), 280))

    return run


def cluster_of(path: Path, own: Mapping[str, str] | None = None, **more: Any) -> InProcessCluster:
    return InProcessCluster(
        path, count=more.pop("count", 1), settings={**SECURED, **(own or {})}, more_listeners=[LISTENER], **more
    )


def failures(broker: Broker) -> dict[str, float]:
    assert broker.gates is not None
    counts = broker.gates.counts[LISTENER]
    return {"failed": counts.failed, "again": counts.failed_again, "succeeded": counts.succeeded}


async def in_thread(work: Any, *arguments: Any) -> Any:
    return await asyncio.to_thread(work, *arguments)


@pytest.mark.setting("sasl.enabled.mechanisms", "sasl.jaas.config")
@in_a_loop
async def test_a_client_is_who_it_proves_to_be(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        port, plaintext = cluster.ports_of[LISTENER][1], cluster.bootstrap[0][1]
        assert await in_thread(add_user, plaintext, "carol", "carol-secret") == {"carol": 0}
        await in_thread(wait_for_user, port, "carol", "carol-secret")
        for mechanism, user, password in (
            (SaslMechanism.PLAIN, "alice", "alice-secret"),
            (SaslMechanism.SCRAM_SHA_256, "carol", "carol-secret"),
            (SaslMechanism.SCRAM_SHA_512, "carol", "carol-secret"),
        ):
            login = SaslSettings(mechanism=mechanism, username=user, password=password)
            client = Cluster(SocketNetwork(), [("127.0.0.1", port)], ClientSettings(sasl=login))
            async with client:
                await client.refresh()
                assert client.brokers
            wrong = SaslSettings(mechanism=mechanism, username=user, password="wrong")
            with pytest.raises(RequestError) as refused:
                await Cluster(SocketNetwork(), [("127.0.0.1", port)], ClientSettings(sasl=wrong)).connect()
            assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@in_a_loop
async def test_kavkas_client_renews_its_session_on_the_same_connection(tmp_path: Path) -> None:
    """Each mechanism with a real broker; when exactly: tests/unit/client/test_client_sessions.py."""
    mechanisms = (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
    lifetime = {f"{OWN}.{mechanism.value.lower()}.connections.max.reauth.ms": "3000" for mechanism in mechanisms}
    async with cluster_of(tmp_path, lifetime) as cluster:
        port, plaintext = cluster.ports_of[LISTENER][1], cluster.bootstrap[0][1]
        # PLAIN knows alice already; SCRAM takes her password from here.
        await in_thread(add_user, plaintext, "alice", "alice-secret")
        await in_thread(wait_for_user, port, "alice", "alice-secret")
        gates = cluster.broker(1).gates
        assert gates is not None
        counts = gates.counts[LISTENER]

        async def work(mechanism: SaslMechanism) -> None:
            login = SaslSettings(mechanism=mechanism, username="alice", password="alice-secret")
            async with Cluster(SocketNetwork(), [("127.0.0.1", port)], ClientSettings(sasl=login)) as client:
                connection = await client.any_connection()
                await asyncio.sleep(3.1)  # Nothing but time ends a session.
                asked = (
                    connection.request(ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse) for _ in range(4)
                )
                await asyncio.gather(*asked)

        await asyncio.gather(*(work(mechanism) for mechanism in mechanisms))
        assert (counts.succeeded_again, counts.failed_again, counts.expired) == (len(mechanisms), 0, 0)


@in_a_loop
async def test_a_removed_user_stays_out_and_open_connections_stay(tmp_path: Path) -> None:
    def work(port: int, plaintext: int) -> None:
        add_user(plaintext, "carol", "carol-secret")
        wait_for_user(port, "carol", "carol-secret")
        with Wire(port) as wire:
            wire.handshake("SCRAM-SHA-256")
            assert wire.scram(ScramMechanism.SHA_256, "carol", "carol-secret")[0] == "NONE"
            assert remove_user(plaintext, "carol") == {"carol": 0}
            assert remove_user(plaintext, "carol") == {"carol": ErrorCode.RESOURCE_NOT_FOUND}
            wait_until_out(port, "carol", "carol-secret")
            assert wire.is_served() == "served"

    async with cluster_of(tmp_path) as cluster:
        await in_thread(work, cluster.ports_of[LISTENER][1], cluster.bootstrap[0][1])


@in_a_loop
async def test_failures_are_counted_and_recorded_without_names_that_nobody_has(tmp_path: Path) -> None:
    def work(port: int) -> None:
        for user, password in (("alice", "canary-1"), ("canary-2", "canary-3"), ("canary-4", "canary-5")):
            with Wire(port) as wire:
                wire.handshake("PLAIN")
                assert wire.token(client_token(user, password))[0] == "SASL_AUTHENTICATION_FAILED"
        with Wire(port) as wire:
            wire.handshake("PLAIN")
            wire.token(client_token("alice", "alice-secret"))
            assert wire.is_served() == "served"

    async with cluster_of(tmp_path) as cluster:
        broker = cluster.broker(1)
        recorded: list[Any] = []
        assert broker.gates is not None
        failures_of = broker.gates._ports.failures
        failures_of._record = recorded.append
        await in_thread(work, cluster.ports_of[LISTENER][1])
        await asyncio.sleep(2 * RECORDED_AFTER_S)  # The last failure is recorded after its answer.
        assert failures(broker) == {"failed": 3, "again": 0, "succeeded": 1}
        assert [each.kind for each in recorded] == [DecisionKind.AUTHENTICATION_FAILED] * 2
        assert recorded[0].why == (
            f"User:alice from host 127.0.0.1 did not authenticate with PLAIN on listener {LISTENER}: wrong password"
        )
        assert recorded[1].evidence["reason"] == "unknown user"
        assert "canary" not in repr(recorded)
        gauge = cluster._servers[1].metrics.get(
            "kafka.server",
            "socket-server-metrics",
            "failed-authentication-total",
            listener=LISTENER,
            networkProcessor="0",
        )
        assert isinstance(gauge, Gauge)
        assert gauge.read() == 3


@pytest.mark.setting("connections.max.reauth.ms")
@in_a_loop
async def test_a_session_ends_unless_its_client_authenticates_again(tmp_path: Path) -> None:
    """Each answer of Apache Kafka's is in the conformance test."""

    def work(port: int) -> None:
        for name in ("re-authentication", "a request after the session", "re-authentication as somebody else"):
            with Wire(port) as wire:
                found = CASES[name](wire)
                assert found[-1] == ("served" if name == "re-authentication" else "closed"), (name, found)

    async with cluster_of(tmp_path) as cluster:
        await in_thread(work, cluster.ports_of[LISTENER][1])
        assert failures(cluster.broker(1))["again"] == 1


@in_a_loop
async def test_what_was_sent_behind_a_failed_re_authentication_is_not_handled(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with Wire(port) as wire:
            wire.handshake("PLAIN")
            assert wire.token(client_token("alice", "alice-secret"))[0] == "NONE"
            metadata = wire.request(ApiKey.METADATA, 4, MetadataRequest(topics=[]))
            handshake = wire.request(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN"))
            token = SaslAuthenticateRequest(auth_bytes=client_token("alice", "x"))
            wrong = wire.request(ApiKey.SASL_AUTHENTICATE, 1, token)
            wire.send(metadata + handshake + wrong + metadata * 3)
            assert wire.answer(ApiKey.METADATA, 4) != "closed"
            assert wire.answer(ApiKey.SASL_HANDSHAKE, 1).error_code == ErrorCode.NONE
            assert wire.answer(ApiKey.SASL_AUTHENTICATE, 1).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            assert wire.ended() == "closed"

    async with cluster_of(tmp_path) as cluster:
        await in_thread(work, cluster.ports_of[LISTENER][1])
        assert failures(cluster.broker(1)) == {"failed": 0, "again": 1, "succeeded": 1}


@pytest.mark.setting("sasl.server.max.receive.size")
@in_a_loop
async def test_a_long_frame_ends_a_connection_that_has_not_authenticated(tmp_path: Path) -> None:
    def work(port: int) -> None:
        with Wire(port) as wire:
            wire.send(struct.pack(">i", 20_001))
            assert wire.ended() == "closed"
        with Wire(port) as wire:
            wire.handshake("PLAIN")
            wire.token(client_token("alice", "alice-secret"))
            long = MetadataRequest(topics=[], allow_auto_topic_creation=False)
            frame = wire.request(ApiKey.METADATA, 4, long)
            wire.send(frame)
            assert wire.receive() is not None
            wire.send(struct.pack(">i", 30_000) + bytes(30_000))  # Longer, and no request: read whole, then closed.
            assert wire.ended() == "closed"

    async with cluster_of(tmp_path) as cluster:
        await in_thread(work, cluster.ports_of[LISTENER][1])
        assert failures(cluster.broker(1))["failed"] == 1


@pytest.mark.setting("connection.failed.authentication.delay.ms")
@in_a_loop
async def test_a_failure_is_told_after_a_delay(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, {"connection.failed.authentication.delay.ms": "700"}) as cluster:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def work(port: int) -> None:
            with Wire(port) as wire:
                wire.handshake("PLAIN")
                assert wire.token(client_token("alice", "x"))[0] == "SASL_AUTHENTICATION_FAILED"

        await in_thread(work, cluster.ports_of[LISTENER][1])
        assert loop.time() - began >= 0.69


@in_a_loop
async def test_processors_with_threads_of_their_own_have_the_same_gate(tmp_path: Path) -> None:
    def work(port: int) -> None:
        for name in (
            "PLAIN",
            "pipelined",
            "pipelined, wrong password",
            "bare tokens",
            "oversized",
            "ApiVersions twice",
        ):
            with Wire(port) as wire:
                found = CASES[name](wire)
            right = name in ("PLAIN", "pipelined", "bare tokens")
            assert found[-1] == ("served" if right else "closed"), (name, found)

    async with cluster_of(tmp_path, {"num.network.threads": "2"}) as cluster:
        await in_thread(work, cluster.ports_of[LISTENER][1])


def brokers_settings(mechanism: str, login: str) -> dict[str, str]:
    return {
        **{name: text for name, text in SECURED.items() if name != "inter.broker.listener.name"},
        "inter.broker.listener.name": LISTENER,
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"{OWN}.{mechanism.lower()}.sasl.jaas.config": login,
        f"{OWN}.{mechanism.lower()}.connections.max.reauth.ms": "10000",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:broker;User:ANONYMOUS",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
    }


async def add_brokers_user(session: ZooKeeper) -> None:
    """As `kafka-configs --zookeeper` does before any broker runs."""
    credential = credential_of(
        ScramMechanism.SHA_512, b"salt", salted(ScramMechanism.SHA_512, "broker-secret", b"salt", 4096), 4096
    )
    for path in ("/config", "/config/users"):
        await session.create(path)
    await session.create("/config/users/broker", ConfigEntity({BROKERS: credential.encode()}).encode())


@pytest.mark.setting("sasl.mechanism.inter.broker.protocol")
@in_a_loop
async def test_brokers_log_in_on_each_other_and_replicate(tmp_path: Path) -> None:
    login = SCRAM_LOGIN.replace("required;", 'required username="broker" password="broker-secret";')
    cluster = InProcessCluster(
        tmp_path, settings=brokers_settings(BROKERS, login), more_listeners=[LISTENER], prepare=add_brokers_user
    )
    async with cluster:
        await cluster.wait_until_all_know([1, 2, 3])
        async with cluster.client() as client:
            assert await Admin(client).create_topics([NewTopic("orders", 3, 3)]) == {}
        for partition in range(3):
            await cluster.wait_for_isr("orders", partition, [1, 2, 3])
        # Sessions last 10 s. Fetchers and controller log in again half a second or more before their end.
        again = [cluster.broker(each).gates for each in (1, 2, 3)]
        await cluster.until(
            lambda: all(gates is not None and gates.counts[LISTENER].succeeded_again >= 1 for gates in again),
            "brokers authenticate again",
        )
        for partition in range(3):
            await cluster.wait_for_isr("orders", partition, [1, 2, 3])
        assert all(gates is not None and gates.counts[LISTENER].expired == 0 for gates in again)


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "does not say which tokens it believes"),
        ({"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "names DIGEST-MD5, which kavka does not have"),
        (
            {"sasl.enabled.mechanisms": "PLAIN,GSSAPI"},
            "gssapi.sasl.jaas.config is not set, which names the broker's keytab",
        ),
        ({f"{OWN}.plain.sasl.jaas.config": "garbage"}, "there is no login module"),
        ({f"{OWN}.plain.sasl.jaas.config": SCRAM_LOGIN}, "login module of SCRAM, which is not for PLAIN"),
        ({"sasl.server.callback.handler.class": "x.Y"}, "this is a Java class"),
        ({f"{OWN}.plain.sasl.server.callback.handler.class": "x.Y"}, "this is a Java class"),
        (
            {"inter.broker.listener.name": LISTENER, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
            "has no username and password, with which this broker logs in",
        ),
        ({"inter.broker.listener.name": LISTENER}, "sasl.mechanism.inter.broker.protocol is GSSAPI, but listener"),
    ],
)
@in_a_loop
async def test_what_cannot_be_carried_out_keeps_a_broker_from_starting(
    tmp_path: Path, own: dict[str, str], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        async with cluster_of(tmp_path, own):
            pass


KERBEROS = {
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    f"{OWN}.gssapi.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
    'keyTab="/nowhere/keytab" principal="kafka/localhost@NOWHERE.TEST";',
}


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({}, r"needs the package gssapi: pip install '.*\[kerberos\]'"),
        ({f"{OWN}.gssapi.sasl.jaas.config": "Krb5LoginModule required;"}, "neither useKeyTab=true nor useTicketCache"),
        ({f"{OWN}.gssapi.sasl.jaas.config": "Krb5LoginModule required useTicketCache=true;"}, "it checks with keys"),
        ({"sasl.kerberos.service.name": ""}, "sasl.kerberos.service.name is not set"),
        ({"sasl.kerberos.principal.to.local.rules": "DEFAULT,RULE:[1:$1"}, r"Invalid rule: RULE:\[1:\$1"),
        ({f"{OWN}.sasl.kerberos.principal.to.local.rules": "RULE:[1:$1]/X"}, "unmatched substring: `X`"),
        (
            {"inter.broker.listener.name": LISTENER, "sasl.mechanism.inter.broker.protocol": "GSSAPI"},
            "needs the package gssapi",
        ),
    ],
)
@in_a_loop
async def test_a_login_with_kerberos_that_cannot_be_carried_out_keeps_a_broker_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], why: str
) -> None:
    """Without the package, on a machine that has it, too."""
    monkeypatch.setattr("kavka.security.kerberos_library.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=why):
        async with cluster_of(tmp_path, {**KERBEROS, **own}):
            pass


@pytest.mark.setting("kavka.authentication.free.failures", "kavka.authentication.max.delay.ms")
@in_a_loop
async def test_an_address_that_guesses_waits_and_others_do_not(tmp_path: Path) -> None:
    """One failure is free; then each has the address wait, here no longer than a tenth of a second."""
    own = {"kavka.authentication.free.failures": "1", "kavka.authentication.max.delay.ms": "100"}
    async with cluster_of(tmp_path, own) as cluster:
        port = cluster.ports_of[LISTENER][1]
        gates = cluster.broker(1).gates
        assert gates is not None
        recorded: list[Any] = []
        gates._ports.failures._record = recorded.append

        def log_in(password: str) -> Any:
            with Wire(port) as wire:
                wire.handshake("PLAIN")
                return wire.token(client_token("alice", password))

        answers = [await in_thread(log_in, password) for password in ("wrong",) * 4 + ("alice-secret",)]
        await asyncio.sleep(2 * RECORDED_AFTER_S)  # The last failure is recorded after its answer.
        assert [each[0] for each in answers] == ["SASL_AUTHENTICATION_FAILED"] * 4 + ["NONE"]
        assert [each.evidence["slowed_ms"] for each in recorded] == [0, 100]
