"""Connections to an Apache ZooKeeper that listens with TLS: what each setting does, and what is refused."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kavka.config import BrokerConfig
from kavka.config.zookeeper import zookeeper_tls
from kavka.errors import ConfigError, ConnectionFailed
from kavka.runtime.zookeeper.zookeeper_tls import ZooKeeperTls
from kavka.zookeeper.client import ZooKeeperClient
from tests.apache_kafka import PeerMissing
from tests.kit.certificates import Authority
from tests.kit.kavka_process import HOST
from tests.kit.zookeeper_ensemble import Secured, ZooKeeperEnsemble

NAME = "localhost"
FAILS_MS = 1_500
"""A session that no server begins is tried for until then."""
pytestmark = [pytest.mark.thorough, pytest.mark.kafka, pytest.mark.timeout(180)]


class Place:
    """An ensemble of one with TLS, and what its clients need."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()
        self.authority_file = directory / "authority.pem"
        self.authority_file.write_text(self.authority.certificate)
        server = self.authority.sign("zookeeper", names=[NAME]).write(directory / "server.pem")
        self.client = self.authority.sign([("OU", "brokers"), ("CN", "broker 1")]).write(directory / "client.pem")
        self.ensemble = ZooKeeperEnsemble(directory, members=1, secured=Secured(server, self.authority_file))

    def settings(self, **others: str | None) -> dict[str, str]:
        """Those that work, with others; None leaves one out."""
        found = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "zookeeper.ssl.keystore.location": str(self.client),
            "zookeeper.ssl.truststore.location": str(self.authority_file),
        }
        for name, value in others.items():
            found.pop(name.replace("_", "."), None)
            if value is not None:
                found[name.replace("_", ".")] = value
        return found

    def connect(self, settings: dict[str, str], *, host: str = NAME, time_ms: int = 20_000) -> None:
        """Writes and reads over a connection. Raises ConfigError, ConnectionFailed."""
        tls = zookeeper_tls(BrokerConfig.from_properties(settings))
        assert tls is not None
        network = ZooKeeperTls(tls).network()
        connect_string = self.ensemble.secure_connect_string.replace(HOST, host)

        async def scenario() -> None:
            client = await ZooKeeperClient.connect(
                network,
                f"{connect_string}/in/a/chroot",
                session_timeout_ms=6_000,
                connection_timeout_ms=time_ms,
                rng=random.Random(1),
            )
            await client.create("/n", b"x" * 200_000)
            assert await client.get_many(["/n"] * 50) == [await client.get("/n")] * 50
            await client.delete("/n")
            await client.close()

        asyncio.run(scenario())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    try:
        made = Place(tmp_path_factory.mktemp("zookeeper"))
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with made.ensemble:
        yield made


@pytest.mark.setting(
    "zookeeper.ssl.client.enable",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.truststore.location",
    "zookeeper.clientCnxnSocket",
)
def test_a_session_over_tls(place: Place) -> None:
    place.connect(place.settings())


def test_a_client_without_a_certificate_is_not_let_in_and_told_why(place: Place) -> None:
    with pytest.raises(ConnectionFailed, match="TLS"):
        place.connect(place.settings(zookeeper_ssl_keystore_location=None), time_ms=FAILS_MS)


def test_an_ensemble_of_another_authority_is_not_believed(place: Place, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority().certificate)
    with pytest.raises(ConnectionFailed, match="cannot be verified"):
        place.connect(place.settings(zookeeper_ssl_truststore_location=str(other)), time_ms=FAILS_MS)


@pytest.mark.setting("zookeeper.ssl.endpoint.identification.algorithm")
def test_the_host_is_checked_unless_the_setting_is_empty(place: Place) -> None:
    name = "zookeeper_ssl_endpoint_identification_algorithm"
    with pytest.raises(ConnectionFailed):
        place.connect(place.settings(), host=HOST, time_ms=FAILS_MS)
    with pytest.raises(ConfigError):
        place.connect(place.settings(**{name: "none"}))
    place.connect(place.settings(**{name: ""}), host=HOST)


@pytest.mark.setting("zookeeper.ssl.protocol", "zookeeper.ssl.enabled.protocols", "zookeeper.ssl.cipher.suites")
@pytest.mark.parametrize(
    "chosen",
    [
        {"zookeeper.ssl.protocol": "TLSv1.3"},
        {"zookeeper.ssl.enabled.protocols": "TLSv1.2,TLSv1.3"},
        {"zookeeper.ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
    ],
)
def test_versions_and_suites_that_both_sides_have(place: Place, chosen: dict[str, str]) -> None:
    place.connect({**place.settings(), **chosen})


def test_a_suite_that_the_server_does_not_have_fails(place: Place) -> None:
    with pytest.raises(ConnectionFailed):
        place.connect(
            {**place.settings(), "zookeeper.ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"},
            time_ms=FAILS_MS,
        )


def test_a_plaintext_port_is_named_as_what_it_is(place: Place) -> None:
    tls = zookeeper_tls(BrokerConfig.from_properties(place.settings()))
    assert tls is not None

    async def scenario() -> None:
        await ZooKeeperClient.connect(
            ZooKeeperTls(tls).network(),
            place.ensemble.connect_string,
            session_timeout_ms=6_000,
            connection_timeout_ms=2_000,
            rng=random.Random(1),
        )

    with pytest.raises(ConnectionFailed, match="does it listen with TLS there"):
        asyncio.run(scenario())
