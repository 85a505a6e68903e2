"""DIGEST-MD5 with Apache ZooKeeper's own client and server at the other end."""

from __future__ import annotations

import asyncio
import random
import secrets
import subprocess
from pathlib import Path

import pytest

from kavka.config import BrokerConfig
from kavka.config.zookeeper import Password, zookeeper_login
from kavka.errors import ConnectionFailed
from kavka.runtime.network.network import SocketNetwork
from kavka.security.digest_md5 import DigestLogin
from kavka.zookeeper.client import ClientOptions, ZooKeeperClient
from kavka.zookeeper.port import Acl, Permission
from kavka.zookeeper.znode_acls import secure_acl
from tests.apache_kafka import PeerMissing, Release, installed
from tests.conformance.zookeeper.zookeeper_process import ZooKeeperProcess
from tests.kit.certificates import Authority
from tests.kit.zookeeper_ensemble import Secured, ZooKeeperEnsemble

pytestmark = [pytest.mark.thorough, pytest.mark.kafka, pytest.mark.timeout(180)]
MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


@pytest.fixture(autouse=True, scope="module")
def _installed() -> None:
    try:
        installed("zk")
    except PeerMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.setting("kavka.zookeeper.sasl.jaas.config")
def test_kavkas_client_logs_in_on_apache_zookeeper(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.certificate)
    server = authority.sign("zookeeper").write(tmp_path / "server.pem")

    async def connect(address: str, password: str, time_ms: int) -> None:
        text = f'{MODULE} required username="kafka" password="{password}";'
        found = zookeeper_login(BrokerConfig.from_properties({"kavka.zookeeper.sasl.jaas.config": text}))
        assert isinstance(found, Password)
        client = await ZooKeeperClient.connect(
            SocketNetwork(),
            address,
            session_timeout_ms=10_000,
            connection_timeout_ms=time_ms,
            rng=random.Random(1),
            options=ClientOptions(acl_of=secure_acl, login=DigestLogin(*found, lambda: secrets.token_hex(20))),
        )
        await client.create("/config", b"1")
        assert (await client.get_acl("/config"))[0] == (
            Acl(Permission.ALL, "sasl", "kafka"),
            Acl(Permission.READ, "world", "anyone"),
        )
        await client.close()

    secured = Secured(server, tmp_path / "authority.pem", "none", {"kafka": "se,cret"})
    with ZooKeeperEnsemble(tmp_path, members=1, secured=secured) as ensemble:
        asyncio.run(connect(ensemble.connect_string, "se,cret", 20_000))
        with pytest.raises(ConnectionFailed, match="the login of user kafka failed"):
            asyncio.run(connect(ensemble.connect_string, "wrong", 2_000))


def test_apaches_client_logs_in_on_kavka_zookeeper_and_may_do_nothing_without(tmp_path: Path) -> None:
    users, jaas = tmp_path / "users", tmp_path / "jaas.conf"
    users.write_text(f'{MODULE} required user_kafka="se,cret";')
    jaas.write_text(f'Client {{ {MODULE} required username="kafka" password="se,cret"; }};')

    def shell(*options: str, address: str) -> str:
        java, *rest = Release.named("zk").tool_command("zookeeper-shell", "-server", address)
        return subprocess.run(
            [java, *options, *rest],
            input="create /n one auth::cdrwa\ngetAcl /n\nget /n\nquit\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        ).stdout

    with ZooKeeperProcess(tmp_path / "data", tick_ms=2_000, options=("--users", str(users))) as server:
        printed = shell(f"-Djava.security.auth.login.config={jaas}", address=server.address)
        assert "Created /n" in printed, printed
        assert "'sasl,'kafka\n: cdrwa" in printed, printed
        assert "one" in printed
        printed = shell(address=server.address)
        assert "Created /n" not in printed
        assert "'sasl" not in printed
        assert "\none" not in printed
