"""Kerberos towards a real Apache ZooKeeper, with a real KDC: kavka's client, its brokers, and those of Apache Kafka."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster
from kavka.config import BrokerConfig
from kavka.config.zookeeper import zookeeper_login
from kavka.errors import ConnectionFailed
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.zookeeper.zookeeper_tickets import ZooKeeperTickets
from kavka.security.kerberos_login import KerberosLogin
from kavka.zookeeper.client import ClientOptions, ZooKeeperClient
from kavka.zookeeper.port import Acl, AclList, ConnectionLoss, NoAuth, Permission
from kavka.zookeeper.znode_acls import secure_acl
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.documentation.page import blocks
from tests.kit.kavka_process import HOST
from tests.kit.kerberos_realm import HOST as NAME
from tests.kit.kerberos_realm import KerberosRealm, missing
from tests.kit.ports import free_port
from tests.kit.second_broker import second_broker
from tests.kit.zookeeper_ensemble import Kerberos, ZooKeeperEnsemble

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.thorough,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(missing()), reason=f"needs {missing()}: tools/setup_kerberos.sh installs it"),
]
SERVER, BROKER = f"zookeeper/{NAME}", f"kafka/{NAME}"
MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
JAAS = "kavka.zookeeper.sasl.jaas.config"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "security.md"
BY_BROKERS = (Acl(Permission.ALL, "sasl", "kafka"), Acl(Permission.READ, "world", "anyone"))
"""A node that a broker made: whichever it was, ZooKeeper knows it by the first part of its principal."""


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[KerberosRealm]:
    with KerberosRealm(tmp_path / "realm") as running:
        running.add(SERVER, BROKER, "alice")
        with running.around():
            yield running


def ensemble_of(realm: KerberosRealm, directory: Path, *, members: int) -> ZooKeeperEnsemble:
    try:
        kerberos = Kerberos(f"{SERVER}@{realm.realm}", realm.keytab(SERVER), realm.config)
        return ZooKeeperEnsemble(directory, members=members, kerberos=kerberos)
    except PeerMissing as absent:
        pytest.skip(str(absent))


def by_name(ensemble: ZooKeeperEnsemble) -> str:
    """As the principal of its members has it."""
    return ",".join(f"{NAME}:{ensemble.port(member)}" for member in ensemble.members)


def login_of(realm: KerberosRealm, principal: str, *, keytab: Path | None = None, more: str = "") -> str:
    path = keytab or realm.keytab(principal)
    return f'{MODULE} keyTab="{path}" principal="{principal}@{realm.realm}"{more};'


@asynccontextmanager
async def connected(address: str, jaas: str, *, time_ms: int = 20_000) -> Any:
    found = zookeeper_login(BrokerConfig.from_properties({JAAS: jaas}))
    assert isinstance(found, KerberosLogin)
    client = await ZooKeeperClient.connect(
        SocketNetwork(),
        address,
        session_timeout_ms=20_000,
        connection_timeout_ms=time_ms,
        rng=random.Random(1),
        options=ClientOptions(acl_of=secure_acl, login=ZooKeeperTickets(found)),
    )
    try:
        yield client
    finally:
        await client.close()


async def written(client: ZooKeeperClient, data: bytes) -> None:
    """A write whose connection ends meanwhile may not have been carried out."""
    while True:
        try:
            await client.set("/config", data)
            return
        except ConnectionLoss:
            await asyncio.sleep(0.05)


@pytest.mark.setting(JAAS)
def test_a_session_logs_in_on_the_next_member_when_one_dies_and_each_refusal_says_why(
    tmp_path: Path, realm: KerberosRealm
) -> None:
    async def refusal(address: str, jaas: str) -> str:
        with pytest.raises(ConnectionFailed) as caught:
            async with connected(address, jaas, time_ms=3_000):
                pass
        return str(caught.value)

    async def scenario(ensemble: ZooKeeperEnsemble) -> None:
        address = by_name(ensemble)
        async with connected(address, login_of(realm, BROKER)) as client:
            await client.create("/config", b"1")
            assert (await client.get_acl("/config"))[0] == BY_BROKERS
            member = ensemble.member_of(client.session_id)
            assert member is not None
            await asyncio.to_thread(ensemble.kill, member)
            # Only its creator may, so that it is known on the new connection as well.
            await written(client, b"2")
            async with connected(address, login_of(realm, "alice")) as other:
                assert (await other.get("/config"))[0] == b"2"
                with pytest.raises(NoAuth):
                    await other.set("/config", b"3")
            await asyncio.to_thread(ensemble.start, member)
            nowhere = tmp_path / "nowhere"
            for jaas, why in (
                (login_of(realm, BROKER, more=" serviceName=http"), "the KDC knows no service http/localhost"),
                (login_of(realm, BROKER, more=" serviceName=http"), f"option serviceName of {JAAS}"),
                (login_of(realm, "alice", keytab=nowhere), f"keytab {nowhere} cannot be read"),
            ):
                assert why in await refusal(address, jaas)
            assert "the KDC knows no service zookeeper/127.0.0.1" in await refusal(
                ensemble.connect_string, login_of(realm, BROKER)
            )
            realm.stop()
            await written(client, b"4")

    with ensemble_of(realm, tmp_path / "ensemble", members=3) as ensemble:
        asyncio.run(asyncio.wait_for(scenario(ensemble), 300))


def acls(address: str, jaas: str) -> dict[str, AclList]:
    """The list of each node that brokers share."""

    async def read() -> dict[str, AclList]:
        async with connected(address, jaas) as client:
            return {
                path: (await client.get_acl(path))[0]
                for path in ("/brokers/topics/by-1", "/brokers/topics/by-2", "/controller", "/config/topics/by-2")
            }

    return asyncio.run(read())


def test_brokers_of_both_brands_share_one_ensemble_and_its_lists(
    tmp_path: Path, realm: KerberosRealm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each makes a topic that the other follows. kavka's settings are those of docs/security.md but for the places."""
    [documented] = [text for block in blocks(PAGE) if JAAS in (text := "\n".join(block.lines)) and "Krb5" in text]
    jaas = login_of(realm, BROKER)
    file = tmp_path / "client.conf"
    file.write_text(f"Client {{ {jaas} }};\n")
    java = f"-Djava.security.krb5.conf={realm.config} -Djava.security.auth.login.config={file}"
    with ensemble_of(realm, tmp_path / "ensemble", members=1) as ensemble:
        monkeypatch.setenv("JDK_JAVA_OPTIONS", java)
        address = by_name(ensemble)
        own = documented.replace("\\\n", "")
        for before, after in (
            ("zk1.example.com:2181,zk2.example.com:2181,zk3.example.com:2181", address),
            ("/etc/kafka/kafka.keytab", str(realm.keytab(BROKER))),
            ("kafka/broker1.example.com@EXAMPLE.COM", f"{BROKER}@{realm.realm}"),
        ):
            assert before in own
            own = own.replace(before, after)
        settings = dict(line.split("=", 1) for line in own.splitlines())
        port = free_port()
        settings |= {"listeners": f"PLAINTEXT://{HOST}:{port}", "log.dirs": str(tmp_path / "logs")}
        theirs = {"zookeeper.connect": address, "zookeeper.set.acl": "true"}
        kafka = ApacheKafka(tmp_path / "kafka", heap="-Xmx384M -Xms128M", settings=theirs)
        with kafka, second_broker(tmp_path, port, settings):

            async def make(topic: str, at: int) -> None:
                async with Cluster(SocketNetwork(), [(HOST, at)]) as cluster:
                    admin = Admin(cluster)
                    assert await admin.create_topics([NewTopic(topic, 2, 2)]) == {}
                    [described] = await admin.describe_topics([topic])
                    assert {each.leader for each in described.partitions} == {1, 2}

            asyncio.run(make("by-1", kafka.port))
            asyncio.run(make("by-2", port))
            found = acls(address, jaas)
        assert found == dict.fromkeys(found, BY_BROKERS)
