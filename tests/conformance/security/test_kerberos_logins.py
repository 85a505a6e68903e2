"""kavka as the one who logs in with Kerberos, and a real KDC: its client, its commands, and brokers on each other."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster
from kavka.client.connection import BrokerConnection
from kavka.client.login import client_login
from kavka.client.settings import ClientSettings
from kavka.errors import ConfigError, ConnectionFailed, KavkaError, RequestError
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import MetadataRequest, MetadataResponse
from kavka.runtime.network.network import SocketNetwork
from tests.conformance.security.test_kerberos import SERVICE, login_of, settings_of
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.integration.documentation.page import blocks
from tests.kit.console_client import ConsoleClient
from tests.kit.console_process import ConsoleProcess
from tests.kit.kerberos_realm import HOST, KerberosRealm, missing
from tests.kit.process_cluster import eventually
from tests.kit.sasl_script import LISTENER

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(bool(missing()), reason=f"needs {missing()}: tools/setup_kerberos.sh installs it"),
]
CONTROL = "CONTROL"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[KerberosRealm]:
    with KerberosRealm(tmp_path / "realm") as running:
        running.add(SERVICE, f"http/{HOST}", "alice")
        running.keytab(SERVICE)
        with running.around():
            yield running


def client_of(**own: str) -> ClientSettings:
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI", **own}
    return ClientSettings(sasl=client_login(settings, read=lambda path: b"").sasl, connect_timeout_ms=3000)


def with_keytab(realm: KerberosRealm, principal: str = "alice", keytab: Path | None = None) -> dict[str, str]:
    path = keytab or realm.keytab(principal)
    return {"sasl.kerberos.keytab": str(path), "sasl.kerberos.principal": principal}


async def topics_seen(cluster: InProcessCluster, settings: ClientSettings, *, again: int = 0, host: str = HOST) -> None:
    """Logs in, and asks for metadata every 100 ms on the same connection, until it has logged in so often again."""
    gates, port = cluster.broker(1).gates, cluster.ports_of[LISTENER][1]
    assert gates is not None
    wanted = gates.counts[LISTENER].succeeded_again + again
    connection = await BrokerConnection.open(SocketNetwork(), host, port, settings)
    try:
        while True:
            answer = await connection.request(ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse)
            assert answer.brokers
            if gates.counts[LISTENER].succeeded_again >= wanted:
                return
            await asyncio.sleep(0.1)
    finally:
        connection.close()


def one_broker(path: Path, realm: KerberosRealm, **own: str) -> InProcessCluster:
    settings = settings_of(realm, **own)
    return InProcessCluster(path / "kavka", count=1, settings=settings, more_listeners=[LISTENER], host=HOST)


async def refusal(cluster: InProcessCluster, own: dict[str, str], host: str = HOST) -> KavkaError:
    with pytest.raises((RequestError, ConnectionFailed)) as caught:
        await topics_seen(cluster, client_of(**own), host=host)
    return caught.value


def test_a_client_logs_in_with_a_keytab_and_with_a_ticket_cache_and_again(tmp_path: Path, realm: KerberosRealm) -> None:
    """On a connection whose session lasts four seconds. The tickets of a cache are those that kinit got."""
    tickets = realm.tickets("alice", realm.keytab("alice"))
    jaas = f'{MODULE} useTicketCache=true ticketCache="{tickets}" principal="alice@{realm.realm}" serviceName="kafka";'
    java = f'{MODULE} useKeyTab=true storeKey=true keyTab="{realm.keytab("alice")}" principal="alice@{realm.realm}";'

    async def scenario() -> None:
        async with one_broker(tmp_path, realm, **{"connections.max.reauth.ms": "4000"}) as cluster:
            for own in (
                with_keytab(realm),
                {"sasl.jaas.config": jaas},
                {"sasl.jaas.config": java, "sasl.kerberos.service.name": "kafka"},
            ):
                await topics_seen(cluster, client_of(**own), again=1)
            gates = cluster.broker(1).gates
            assert gates is not None
            counts = gates.counts[LISTENER]
            assert (counts.failed, counts.expired) == (0, 0)

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_each_refusal_says_what_is_wrong(tmp_path: Path, realm: KerberosRealm) -> None:
    async def scenario() -> None:
        async with one_broker(tmp_path, realm) as cluster:
            keytab, nowhere = realm.keytab("alice"), tmp_path / "nowhere"
            cache = f"{MODULE} useTicketCache=true serviceName=kafka"
            late = realm.tickets("alice", keytab, life="1s")
            for own, host, why in (
                ({}, HOST, "there is no ticket in the usual cache: run kinit, or name a keytab"),
                ({"sasl.jaas.config": f'{cache} ticketCache="{nowhere}";'}, HOST, f"there is no ticket in {nowhere}"),
                (with_keytab(realm, "bob", keytab), HOST, f"keytab {keytab} has no key of bob"),
                (with_keytab(realm, "alice", nowhere), HOST, f"keytab {nowhere} cannot be read"),
                (with_keytab(realm), "127.0.0.1", "the KDC knows no service kafka/127.0.0.1"),
                ({**with_keytab(realm), "sasl.kerberos.service.name": "x"}, HOST, "the KDC knows no service x/"),
                ({**with_keytab(realm), "sasl.kerberos.service.name": "http"}, HOST, "refused GSSAPI as 'alice'"),
            ):
                assert why in str(await refusal(cluster, own, host))
            await asyncio.sleep(1.5)
            expired = await refusal(cluster, {"sasl.jaas.config": f'{cache} ticketCache="{late}";'})
            assert "the ticket has expired: run kinit" in str(expired)
            copied = tmp_path / "old.keytab"
            copied.write_bytes(keytab.read_bytes())
            realm.change_key("alice")
            old = await refusal(cluster, with_keytab(realm, "alice", copied))
            assert "is not the one that the KDC has for alice" in str(old)

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_kdc_that_is_down_or_hangs_does_not_hold_the_loop_and_who_has_a_ticket_goes_on(
    tmp_path: Path, realm: KerberosRealm
) -> None:
    async def scenario() -> None:
        async with one_broker(tmp_path, realm, **{"connections.max.reauth.ms": "4000"}) as cluster:
            good, new = client_of(**with_keytab(realm)), client_of(**with_keytab(realm, f"http/{HOST}"))
            await topics_seen(cluster, good)
            realm.stop()
            with pytest.raises(ConnectionFailed, match="no KDC of the realm answers"):
                await topics_seen(cluster, new)
            with socket.create_server(("127.0.0.1", realm.port), reuse_port=False):  # It accepts, and says nothing.
                began, ends = time.monotonic(), asyncio.get_running_loop().create_future()

                async def ticking() -> float:
                    longest = 0.0
                    while not ends.done():
                        before = time.monotonic()
                        await asyncio.sleep(0.02)
                        longest = max(longest, time.monotonic() - before)
                    return longest

                tick = asyncio.create_task(ticking())
                with pytest.raises(ConnectionFailed, match="within 3000 ms: no KDC of the realm answers"):
                    await topics_seen(cluster, new)
                ends.set_result(None)
                assert time.monotonic() - began < 15
                assert await tick < 2.5, "a call of the library stood in the loop"
                await topics_seen(cluster, good, again=1)

    asyncio.run(asyncio.wait_for(scenario(), 120))


def brokers_of(realm: KerberosRealm, **own: str) -> dict[str, str]:
    """Settings of brokers that log in on each other with tickets; the controller has a listener of its own for it."""
    both = f"{LISTENER}:{LISTENER},{CONTROL}:{LISTENER}"
    return settings_of(
        realm,
        **{
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{both}",
            "inter.broker.listener.name": LISTENER,
            "control.plane.listener.name": CONTROL,
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:kafka;User:ANONYMOUS",
            f"listener.name.{CONTROL.lower()}.gssapi.sasl.jaas.config": login_of(realm),
            **own,
        },
    )


async def replicates(cluster: InProcessCluster, topic: str) -> None:
    async with cluster.client() as client:
        assert await Admin(client).create_topics([NewTopic(topic, 3, 3)]) == {}
    for partition in range(3):
        await cluster.wait_for_isr(topic, partition, [1, 2, 3])


def three_brokers(path: Path, settings: dict[str, str]) -> InProcessCluster:
    return InProcessCluster(path / "kavka", settings=settings, more_listeners=[LISTENER, CONTROL], host=HOST)


def test_brokers_log_in_on_each_other_and_the_controller_on_them_and_again(
    tmp_path: Path, realm: KerberosRealm
) -> None:
    """They are User:kafka to each other, which an authorizer believes; nobody else may replicate."""
    settings = brokers_of(realm, **{"connections.max.reauth.ms": "6000"})

    async def scenario() -> None:
        async with three_brokers(tmp_path, settings) as cluster:
            await cluster.wait_until_all_know([1, 2, 3])
            await replicates(cluster, "orders")
            gates = [cluster.broker(each).gates for each in (1, 2, 3)]
            await cluster.until(
                lambda: all(gate is not None and gate.counts[LISTENER].succeeded_again >= 1 for gate in gates),
                "brokers log in again",
            )
            # The controller has no need to call its own broker.
            assert sum(gate.counts[CONTROL].succeeded for gate in gates if gate is not None) >= 2
            assert all(gate is not None and gate.counts[LISTENER].expired == 0 for gate in gates)
            realm.stop()
            await replicates(cluster, "without-a-kdc")

    asyncio.run(asyncio.wait_for(scenario(), 150))


def test_brokers_whose_kdc_is_down_start_and_join_when_it_is_back(tmp_path: Path, realm: KerberosRealm) -> None:
    settings = brokers_of(realm)
    realm.stop()

    async def scenario() -> None:
        async with three_brokers(tmp_path, settings) as cluster:
            realm.start()
            await cluster.wait_until_all_know([1, 2, 3])
            await replicates(cluster, "orders")

    asyncio.run(asyncio.wait_for(scenario(), 150))


@pytest.mark.parametrize(
    ("own", "why"),
    [
        ({"super.users": "User:nobody"}, "User:kafka"),
        ({"sasl.kerberos.principal.to.local.rules": "RULE:[1:$1]"}, "makes a name of kafka/localhost@KAVKA.TEST"),
    ],
)
def test_brokers_that_would_refuse_each_other_do_not_start(
    tmp_path: Path, realm: KerberosRealm, own: dict[str, str], why: str
) -> None:
    async def scenario() -> None:
        async with three_brokers(tmp_path, brokers_of(realm, **own)):
            pass

    with pytest.raises(ConfigError, match=why):
        asyncio.run(asyncio.wait_for(scenario(), 60))


def test_commands_log_in_with_the_file_that_java_has(tmp_path: Path, realm: KerberosRealm) -> None:
    """That of docs/security.md, but for its places and TLS."""
    [documented] = [text for block in blocks(PAGE) if "/etc/alice.keytab" in (text := "\n".join(block.lines))]
    file = tmp_path / "alice.properties"
    keytab = realm.keytab("alice")

    def command(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).parent / "kavka")
        return subprocess.run([program, *words], input=text, capture_output=True, text=True, timeout=60, check=False)

    async def scenario() -> list[Any]:
        async with one_broker(tmp_path, realm) as cluster:
            file.write_text(
                f"bootstrap.servers={HOST}:{cluster.ports_of[LISTENER][1]}\n"
                + f"{documented}\n".replace("SASL_SSL", "SASL_PLAINTEXT")
                .replace("/etc/alice.keytab", str(keytab))
                .replace("EXAMPLE.COM", realm.realm)
            )
            own = ("--client-config", str(file))
            ended = [
                await asyncio.to_thread(command, "topics", "create", "orders", *own),
                await asyncio.to_thread(command, "produce", "orders", *own, text="hello\n"),
                await asyncio.to_thread(command, "consume", "orders", "-o", "beginning", "-e", *own),
            ]
            keytab.unlink()
            return [*ended, await asyncio.to_thread(command, "topics", "list", *own)]

    created, produced, consumed, refused = asyncio.run(asyncio.wait_for(scenario(), 150))
    assert (created.returncode, produced.returncode) == (0, 0), created.stderr + produced.stderr
    assert "hello" in consumed.stdout
    assert refused.returncode != 0
    assert f"keytab {keytab} cannot be read" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_console_reaches_each_cluster_of_its_file_with_a_login_of_its_own(
    tmp_path: Path, realm: KerberosRealm
) -> None:
    """The same brokers twice, as two users: of "closed" the console sees nothing, because bob may do nothing there."""
    realm.add("bob")
    settings = settings_of(
        realm,
        **{
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "auto.create.topics.enable": "false",
        },
    )

    def table(name: str, user: str, port: int) -> str:
        file = tmp_path / f"{name}.properties"
        keytab = realm.keytab(user)
        file.write_text(
            f"bootstrap.servers={HOST}:{port}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
            f"sasl.kerberos.keytab={keytab}\nsasl.kerberos.principal={user}\n"
        )
        return f'[[cluster]]\nname = "{name}"\nclient_config = "{file}"\n'

    async def scenario() -> None:
        async with InProcessCluster(
            tmp_path / "kavka", count=1, settings=settings, more_listeners=[LISTENER], host=HOST
        ) as cluster:
            port = cluster.ports_of[LISTENER][1]
            async with cluster.client() as client:
                assert await Admin(client).create_topics([NewTopic("orders", 1, 1)]) == {}
            tables = table("open", "alice", port) + table("closed", "bob", port)
            await asyncio.to_thread(look, tables)

    def look(tables: str) -> None:
        with ConsoleProcess(f"poll_ms = 500\n{tables}", tmp_path / "console") as console:
            client = ConsoleClient(console.address)
            eventually("alice's topics are shown", lambda: "orders" in client.get("/c/open/topics").text, timeout_s=60)
            eventually("bob's cluster is read", lambda: "alive" in client.get("/c/closed/brokers").text, timeout_s=60)
            assert "orders" not in client.get("/c/closed/topics").text
            assert not console.failures, console.failures

    asyncio.run(asyncio.wait_for(scenario(), 150))


def test_a_cluster_client_reaches_all_brokers(tmp_path: Path, realm: KerberosRealm) -> None:
    """By the addresses that they advertise, each with a ticket of its own."""

    async def scenario() -> None:
        async with one_broker(tmp_path, realm) as cluster:
            port = cluster.ports_of[LISTENER][1]
            async with Cluster(SocketNetwork(), [(HOST, port)], client_of(**with_keytab(realm))) as client:
                assert await Admin(client).create_topics([NewTopic("orders", 1, 1)]) == {}

    asyncio.run(asyncio.wait_for(scenario(), 60))
