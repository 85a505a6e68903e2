"""TLS and SASL against Apache Kafka's listeners; kavka's brokers have none."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kavka.client.admin import Admin, NewTopic
from kavka.client.cluster import Cluster
from kavka.client.consumer import Consumer
from kavka.client.login import client_login
from kavka.client.producer import Producer
from kavka.client.security import PASSWORD_MECHANISMS, SaslMechanism, SaslSettings, TlsSettings
from kavka.client.settings import ClientSettings, ConsumerSettings, OffsetReset
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.tls.tls_network import TlsNetwork
from kavka_spark.source import KavkaReader
from kavka_spark.source_options import source_options
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.kavka_process import HOST
from tests.kit.ports import free_port

pytestmark = pytest.mark.kafka

USER, PASSWORD = "alice", "alice's = secret, 1"
MECHANISMS = [mechanism.value for mechanism in PASSWORD_MECHANISMS]


BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"


class Listeners(NamedTuple):
    """Where the broker listens, and whose certificate it shows."""

    tls: int
    sasl: int
    sasl_tls: int
    certificate: Path


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    directory = tmp_path_factory.mktemp("secured")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    key, certificate, both = directory / "key.pem", directory / "certificate.pem", directory / "both.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=kafka"]
    made += ["-addext", f"subjectAltName=IP:{HOST}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    jaas = directory / "jaas.conf"
    jaas.write_text(
        "KafkaServer {\n org.apache.kafka.common.security.scram.ScramLoginModule required;\n"
        f' org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";\n}};\n'
    )
    options = f"-Xmx512M -Xms256M -Djava.security.auth.login.config={jaas}"
    try:
        kafka = ApacheKafka(directory / "zk", heap=options)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    found = Listeners(free_port(), free_port(), free_port(), certificate)
    addresses = ",".join(
        f"{name}://{HOST}:{port}"
        for name, port in (
            ("PLAINTEXT", kafka.port),
            ("SSL", found.tls),
            ("SASL_PLAINTEXT", found.sasl),
            ("SASL_SSL", found.sasl_tls),
        )
    )
    kafka.set(
        {
            "listeners": addresses,
            "advertised.listeners": addresses,
            "sasl.enabled.mechanisms": ",".join([*MECHANISMS, "OAUTHBEARER"]),
            **{f"listener.name.{name}.oauthbearer.sasl.jaas.config": BEARER for name in ("sasl_plaintext", "sasl_ssl")},
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(both),
        }
    )
    with kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        upsertions = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for upsertion in upsertions:
            for done in admin.alter_user_scram_credentials([upsertion]).values():
                done.result(30)
        yield found


def cluster(
    listeners: Listeners, *, tls: bool, mechanism: str | None = None, password: str = PASSWORD, user: str = USER
) -> Cluster:
    if mechanism is None:
        sasl, port = None, listeners.tls
    else:
        sasl = SaslSettings(mechanism=SaslMechanism(mechanism), username=user, password=password)
        port = listeners.sasl_tls if tls else listeners.sasl
    network = TlsNetwork(TlsSettings(authorities=str(listeners.certificate)).context()) if tls else SocketNetwork()
    return Cluster(network, [(HOST, port)], ClientSettings(sasl=sasl, api_timeout_ms=15_000))


def test_a_token_lets_the_client_in_and_one_that_the_broker_refuses_does_not(listeners: Listeners) -> None:
    def client(options: str) -> Cluster:
        settings = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": BEARER.replace(";", f" {options};"),
        }
        sasl = client_login(settings, read=lambda path: b"").sasl
        return Cluster(SocketNetwork(), [(HOST, listeners.sasl)], ClientSettings(sasl=sasl, api_timeout_ms=15_000))

    async def run() -> None:
        async with client(f'unsecuredLoginStringClaim_sub="{USER}"') as connected:
            await connected.refresh()
            assert connected.brokers
        with pytest.raises(RequestError, match=r"refused OAUTHBEARER.*invalid_token") as refused:
            # Apache Kafka wants the claim sub, where the client was told to name another.
            await client('unsecuredLoginPrincipalClaimName="who" unsecuredLoginStringClaim_who="a"').connect()
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED

    asyncio.run(run())


@pytest.mark.parametrize(
    ("tls", "mechanism"), [(True, None), *((tls, mechanism) for mechanism in MECHANISMS for tls in (False, True))]
)
def test_records_go_in_and_out(listeners: Listeners, tls: bool, mechanism: str | None) -> None:
    topic = f"secured-{mechanism}-{tls}"
    values = [b"%d" % number * 3_000 for number in range(200)]

    async def run() -> None:
        async with cluster(listeners, tls=tls, mechanism=mechanism) as connected:
            assert not await Admin(connected).create_topics([NewTopic(topic, 1, 1)])
            async with Producer(connected) as producer:
                for value in values:
                    await producer.send(topic, value)
            found: list[bytes | None] = []
            async with Consumer(connected, ConsumerSettings(auto_offset_reset=OffsetReset.EARLIEST)) as consumer:
                await consumer.assign_topic(topic)
                while len(found) < len(values):
                    found += [record.value for record in await consumer.poll()]
            assert found == values

    asyncio.run(asyncio.wait_for(run(), 280))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("who", [{"password": "wrong"}, {"user": "mallory"}])
def test_a_wrong_name_or_password_is_said_at_once(listeners: Listeners, mechanism: str, who: dict[str, str]) -> None:
    async def run() -> None:
        async with cluster(listeners, tls=True, mechanism=mechanism, **who):
            pass

    with pytest.raises(RequestError, match=f"refused {mechanism} as '{who.get('user', USER)}'") as caught:
        asyncio.run(asyncio.wait_for(run(), 40))
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert who.get("password", PASSWORD) not in str(caught.value)


def test_a_certificate_of_an_unknown_authority_is_not_believed(listeners: Listeners) -> None:
    async def run() -> None:
        network = TlsNetwork(TlsSettings().context())
        async with Cluster(network, [(HOST, listeners.tls)], ClientSettings(api_timeout_ms=3_000)):
            pass

    with pytest.raises(ConnectionFailed, match=r"certificate of .* cannot be verified"):
        asyncio.run(asyncio.wait_for(run(), 60))


def test_a_listener_without_tls_is_told_from_one_with_it(listeners: Listeners) -> None:
    async def run() -> None:
        network = TlsNetwork(TlsSettings().context(), connect_timeout_s=10)
        async with Cluster(network, [(HOST, listeners.sasl)], ClientSettings(api_timeout_ms=3_000)):
            pass

    with pytest.raises(ConnectionFailed, match="does it listen with TLS there"):
        asyncio.run(asyncio.wait_for(run(), 60))


def test_sparks_options_reach_a_secured_listener(listeners: Listeners) -> None:
    options = {
        "kafka.bootstrap.servers": f"{HOST}:{listeners.sasl_tls}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" '
        f'password="{PASSWORD}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(listeners.certificate),
        "subscribe": "spark-secured",
    }

    async def fill() -> None:
        async with cluster(listeners, tls=True) as connected:
            assert not await Admin(connected).create_topics([NewTopic("spark-secured", 1, 1)])
            async with Producer(connected) as producer:
                for number in range(10):
                    await producer.send("spark-secured", b"%d" % number)

    asyncio.run(asyncio.wait_for(fill(), 280))
    reader = KavkaReader(source_options(options, streaming=False), ("value",))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert sum(batch.num_rows for batch in batches) == 10
    wrong = {**options, "kafka.sasl.jaas.config": options["kafka.sasl.jaas.config"].replace("secret", "guess")}
    with pytest.raises(RequestError, match=f"refused SCRAM-SHA-256 as '{USER}'"):
        KavkaReader(source_options(wrong, streaming=False), ("value",)).partitions()
