"""Brokers of both brands on a ZooKeeper that lets in only who shows a certificate: the same access control lists."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from kavka.config import BrokerConfig
from kavka.config.zookeeper import zookeeper_tls
from kavka.runtime.zookeeper.zookeeper_tls import ZooKeeperTls
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.port import OPEN_ACL, AclList, NoNode
from kavka.zookeeper.znode_acls import CREATOR_ALL, WORLD_READ
from tests.apache_kafka import PeerMissing, Release, installed
from tests.apache_kafka.cluster import run_tool
from tests.conformance.zookeeper.zookeeper_process import ZooKeeperProcess
from tests.kit.certificates import Authority
from tests.kit.kavka_process import HOST, KavkaProcess, answers_metadata
from tests.kit.ports import free_port
from tests.kit.zookeeper_ensemble import Secured, ZooKeeperEnsemble

pytestmark = [pytest.mark.thorough, pytest.mark.kafka, pytest.mark.timeout(300)]
DISTINGUISHED_NAME = "CN=broker 1,OU=brokers"
OF_BROKERS = {
    "broker.id": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "zookeeper.session.timeout.ms": "18000",
    "zookeeper.set.acl": "true",
}


class Secure:
    """A ZooKeeper with certificates."""

    connect_string = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.authority_file = directory / "authority.pem"
        self.authority_file.write_text(self.authority.certificate)
        self.server_file = self.authority.sign("zookeeper").write(directory / "server.pem")
        pairs = [("OU", "brokers"), ("CN", "broker 1")]
        self.broker_file = self.authority.sign(pairs).write(directory / "broker.pem")
        self.settings = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self.broker_file),
            "zookeeper.ssl.truststore.location": str(self.authority_file),
        }

    def acls(self, chroot: str) -> dict[str, AclList]:
        """The list of every node below `chroot`, its own as "/"."""

        async def read() -> dict[str, AclList]:
            tls = zookeeper_tls(BrokerConfig.from_properties(self.settings))
            assert tls is not None
            client = await ZooKeeperClient.connect(
                ZooKeeperTls(tls).network(),
                self.connect_string + chroot,
                session_timeout_ms=10_000,
                connection_timeout_ms=10_000,
                rng=random.Random(1),
            )
            found: dict[str, AclList] = {}
            waiting = ["/"]
            while waiting:
                path = waiting.pop()
                try:
                    found[path] = (await client.get_acl(path))[0]
                    waiting += [f"{path.rstrip('/')}/{name}" for name in await client.children(path)]
                except NoNode:
                    continue  # It went meanwhile.
            await client.close()
            return found

        return asyncio.run(read())


@pytest.fixture(scope="module", params=["apache", "kavka"])
def zookeeper(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    try:
        installed("zk")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    place = Secure(tmp_path_factory.mktemp("zookeeper"))
    if request.param == "kavka":
        files = ("--certificate", str(place.server_file), "--authority", str(place.authority_file))
        data = place.directory / "data"
        # Java's servers on two cores pause longer than sessions of the tests beside this one last.
        with ZooKeeperProcess(data, tick_ms=2_000, options=files, securely=True) as process:
            place.connect_string = process.address
            yield place
        return
    secured = Secured(place.server_file, place.authority_file)
    with ZooKeeperEnsemble(place.directory, members=1, secured=secured) as ensemble:
        place.connect_string = ensemble.secure_connect_string
        yield place


@contextmanager
def kafka(directory: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """A broker of Apache Kafka 3.9 in ZooKeeper mode; gives its address."""
    directory.mkdir()
    port = free_port()
    properties = directory / "server.properties"
    lines = {**settings, "listeners": f"PLAINTEXT://{HOST}:{port}", "log.dirs": str(directory / "logs")}
    properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    log = directory / "broker.log"
    with log.open("w") as output:
        broker = subprocess.Popen(
            Release.named("zk").server_command("kafka.Kafka", str(properties), options=["-Xmx512M"]),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        while not answers_metadata(port):
            assert broker.poll() is None, log.read_text()[-4000:]
            time.sleep(0.05)
        yield f"{HOST}:{port}"
    finally:
        broker.kill()
        broker.wait()


def fill(bootstrap: str) -> None:
    """A topic, its settings, a user, a broker's settings and an ACL."""
    at = ("--bootstrap-server", bootstrap)
    run_tool("zk", "topics", *at, "--create", "--topic", "t", "--partitions", "2", "--config", "retention.ms=1000")
    configs = ("configs", *at, "--alter", "--entity-type")
    run_tool("zk", *configs, "users", "--entity-name", "alice", "--add-config", "producer_byte_rate=1024")
    run_tool("zk", *configs, "brokers", "--entity-name", "1", "--add-config", "log.retention.ms=900000")
    run_tool("zk", *configs, "brokers", "--entity-default", "--add-config", "log.retention.ms=900000")
    run_tool("zk", "acls", *at, "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "t")


@pytest.mark.setting("zookeeper.set.acl")
def test_the_access_control_lists_are_kafkas(zookeeper: Secure, tmp_path: Path) -> None:
    settings = {**OF_BROKERS, **zookeeper.settings}
    with kafka(tmp_path / "kafka", {**settings, "zookeeper.connect": f"{zookeeper.connect_string}/a/kafka"}) as theirs:
        fill(theirs)
        expected = zookeeper.acls("/a/kafka")
    ours = {**settings, "zookeeper.connect": f"{zookeeper.connect_string}/a/kavka"}
    with KavkaProcess(tmp_path / "kavka", settings=ours) as broker:
        fill(broker.bootstrap)
        found = zookeeper.acls("/a/kavka")
    for path in ("/", "/config/users/alice", "/config/brokers/1", "/config/topics/t", "/kafka-acl/Topic/t"):
        assert path in expected
        assert path in found
    assert {path: found[path] for path in found.keys() & expected.keys()} == {
        path: expected[path] for path in found.keys() & expected.keys()
    }
    creator = CREATOR_ALL._replace(scheme="x509", id=DISTINGUISHED_NAME)
    assert found["/config/users/alice"] == (creator,)
    for path in found.keys() - expected.keys():
        assert found[path][0] == creator, path


def test_kafkas_migration_tool_secures_what_a_broker_wrote_and_opens_it_again(
    zookeeper: Secure, tmp_path: Path
) -> None:
    settings = {**OF_BROKERS, **zookeeper.settings, "zookeeper.connect": f"{zookeeper.connect_string}/m"}
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in zookeeper.settings.items()))

    def migrate(to: str) -> None:
        run_tool(
            "zk",
            "kafka.admin.ZkSecurityMigrator",
            *("--zookeeper.acl", to, "--zookeeper.connect", f"{zookeeper.connect_string}/m"),
            *("--zk-tls-config-file", str(file)),
        )

    creator = CREATOR_ALL._replace(scheme="x509", id=DISTINGUISHED_NAME)
    with KavkaProcess(tmp_path / "kavka", settings={**settings, "zookeeper.set.acl": "false"}) as broker:
        fill(broker.bootstrap)
        of_kavka = {path for path in zookeeper.acls("/m") if path.startswith("/kavka")}
        assert set(zookeeper.acls("/m").values()) == {OPEN_ACL}
        migrate("secure")
        found = zookeeper.acls("/m")
        for path in ("/config/users/alice", "/config/brokers/1"):
            assert found[path] == (creator,)
        for path in (
            "/",
            "/brokers/topics/t/partitions/0/state",
            "/kafka-acl/Topic/t",
            "/brokers/ids/1",
            "/controller",
        ):
            assert found[path] == (creator, WORLD_READ), path
        assert {path for path in found if found[path] == OPEN_ACL} == {"/consumers", *of_kavka}
        # The broker goes on: it is the creator.
        run_tool("zk", "topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", "later")
        migrate("unsecure")
        assert set(zookeeper.acls("/m").values()) == {OPEN_ACL}
