"""`kavka security check` on Apache Kafka: what its defaults leave open is found, and what is closed is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.certificates import Authority
from tests.kit.command_line import run_alone
from tests.kit.ports import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]
HOST = "127.0.0.1"
HEAP = "-Xmx512M -Xms256M"
ANYBODY = {
    "no-encryption",
    "no-authentication",
    "metadata-for-anybody",
    "settings-for-anybody",
    "users-for-anybody",
    "broker-requests-for-anybody",
    "administration-for-anybody",
    "topics-made-by-asking",
    "no-authorizer",
    "brokers-in-clear",
}


def kafka(path: Path, mode: str) -> ApacheKafka:
    try:
        return ApacheKafka(path, mode=mode, heap=HEAP)
    except PeerMissing as missing:
        pytest.skip(str(missing))


def checked(*words: str) -> tuple[int, dict[str, Any]]:
    done = run_alone("security", "check", *words, "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def names(answer: dict[str, Any]) -> set[str]:
    assert not answer["could_not_tell"], answer["could_not_tell"]
    return {each["name"] for each in answer["findings"]}


def test_a_default_kafka_with_zookeeper_is_open_in_thirteen_ways(tmp_path: Path) -> None:
    with kafka(tmp_path / "kafka", "zk") as broker:
        status, answer = checked(broker.bootstrap, "--zookeeper", broker.zookeeper)
    assert status == 1
    assert names(answer) == {*ANYBODY, "zookeeper-open", "zookeeper-writable", "zookeeper-secrets-readable"}


@pytest.mark.thorough
def test_a_default_kafka_with_kraft_is_open_in_as_many_ways_but_for_zookeeper(tmp_path: Path) -> None:
    with kafka(tmp_path / "kafka", "kraft") as broker:
        status, answer = checked(broker.bootstrap)
    assert (status, names(answer)) == (1, ANYBODY)
    mends = {each["name"]: each["mend"] for each in answer["findings"]}
    assert "StandardAuthorizer" in mends["no-authorizer"]


@pytest.mark.thorough
def test_listeners_of_kafka_with_tls_are_told_apart(tmp_path: Path) -> None:
    """Each of its ways to ask for certificates and passwords, and one closed as it should be."""
    broker = kafka(tmp_path / "kafka", "zk")
    authority = Authority(days=365)
    store = authority.sign([("CN", "broker 1")], days=90).write(tmp_path / "broker.pem")
    trust = tmp_path / "authority.pem"
    trust.write_text(authority.certificate)
    ports = {name: free_port() for name in ("NOCERT", "ASKED", "NEEDED", "LOGIN")}
    module = "org.apache.kafka.common.security"
    listeners = ",".join(
        [f"PLAINTEXT://{HOST}:{broker.port}", *(f"{name}://{HOST}:{port}" for name, port in ports.items())]
    )
    broker.set(
        {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NOCERT:SSL,ASKED:SSL,NEEDED:SSL,LOGIN:SASL_SSL",
            "inter.broker.listener.name": "NEEDED",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trust),
            "listener.name.asked.ssl.client.auth": "requested",
            "listener.name.needed.ssl.client.auth": "required",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required "
            'username="admin" password="admin-secret" user_admin="admin-secret";',
            "listener.name.login.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:CN=broker 1;User:admin;User:ANONYMOUS",
        }
    )
    login = tmp_path / "admin.properties"
    login.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=admin\nsasl.password=admin-secret\n"
        f"ssl.ca.location={trust}\n"
    )
    with broker:
        found = {name: checked(f"{HOST}:{port}", "--ca", str(trust)) for name, port in ports.items()}
        tried = checked(f"{HOST}:{ports['LOGIN']}", "--ca", str(trust), "--try-passwords")
        inside = checked(f"{HOST}:{ports['LOGIN']}", "--client-config", str(login))
    asked_for = {name: answer["tls"]["client_auth"] for name, (_, answer) in found.items()}
    assert asked_for == {"NOCERT": "none", "ASKED": "requested", "NEEDED": "required", "LOGIN": "none"}
    assert found["LOGIN"][1]["sasl_mechanisms"] == ["PLAIN", "SCRAM-SHA-512"]
    assert found["NEEDED"][0] == found["LOGIN"][0] == 0
    assert names(found["NEEDED"][1]) == names(found["LOGIN"][1]) == set()
    by_anybody = {
        "no-authentication",
        "metadata-for-anybody",
        "settings-for-anybody",
        "users-for-anybody",
        "broker-requests-for-anybody",
        "administration-for-anybody",
        "topics-made-by-asking",
        "plaintext-beside-tls",
    }
    assert names(found["NOCERT"][1]) == names(found["ASKED"][1]) == by_anybody
    assert (tried[0], names(tried[1])) == (1, {"well-known-passwords"})
    assert "admin (PLAIN)" in tried[1]["findings"][0]["what"]
    assert (inside[0], names(inside[1])) == (1, {"plaintext-beside-tls"})
    assert set(found["LOGIN"][1]["tls"]["suites"]) == {"TLSv1.2", "TLSv1.3"}
