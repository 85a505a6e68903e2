"""What is a finding, and what is not: sightings in, findings out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kavka.observe.exposure.findings import DAY_MS, judge
from kavka.observe.exposure.sightings import (
    Authorizer,
    BrokerSighting,
    ClientAuth,
    Door,
    MetricsSighting,
    SeenCertificate,
    Sightings,
    TlsSighting,
    ZooKeeperSighting,
)
from kavka.security.acls import Binding, Entry, Operation, Permission
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType

NOW_MS = 1_800_000_000_000
GOOD_SUITES = {"TLSv1.2": ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",), "TLSv1.3": ("TLS_AES_256_GCM_SHA384",)}
LEAF = SeenCertificate("CN=broker", "CN=ca", NOW_MS - DAY_MS, NOW_MS + 90 * DAY_MS, ("DNS:broker",))
TLS = TlsSighting(GOOD_SUITES, (LEAF,), "", ClientAuth.NONE)
SECURED = Sightings("broker:9093", NOW_MS, is_tls=True, tls=TLS, mechanisms=("SCRAM-SHA-512",), is_kraft=False)
INSIDE = BrokerSighting(
    ("broker:9093",),
    5,
    frozenset(Operation),
    Authorizer.ON,
    (),
    {
        "allow.everyone.if.no.acl.found": "false",
        "auto.create.topics.enable": "true",
        "advertised.listeners": "CLIENTS://broker:9093,BROKERS://broker:9094",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SSL",
        "inter.broker.listener.name": "BROKERS",
    },
    3,
)


def names(seen: Sightings) -> list[str]:
    return [each.name for each in judge(seen)]


def with_tls(**changes: object) -> Sightings:
    return replace(SECURED, tls=replace(TLS, **changes))  # type: ignore[arg-type]


def acl(
    kind: ResourceType,
    name: str,
    operation: Operation,
    principal: str = "User:*",
    *,
    host: str = "*",
    allow: bool = True,
) -> Binding:
    permission = Permission.ALLOW if allow else Permission.DENY
    return Binding(Pattern(kind, name, PatternType.LITERAL), Entry(principal, host, operation, permission))


def settings(**changes: str) -> BrokerSighting:
    named: Mapping[str, str] = {name.replace("_", "."): text for name, text in changes.items()}
    return replace(INSIDE, settings={**(INSIDE.settings or {}), **named})


def test_nothing_is_found_where_clients_log_in_over_tls_and_lists_are_kept() -> None:
    assert names(SECURED) == []
    assert names(replace(SECURED, known=INSIDE)) == []
    certificates = replace(SECURED, mechanisms=(), tls=replace(TLS, client_auth=ClientAuth.REQUIRED))
    assert names(certificates) == []


def test_nothing_is_found_where_nothing_was_seen() -> None:
    assert names(Sightings("broker:9092", NOW_MS)) == []


def test_a_default_broker_gives_a_finding_for_each_thing_that_is_open() -> None:
    anybody = BrokerSighting(
        ("broker:9092",),
        7,
        frozenset(Operation),
        Authorizer.OFF,
        None,
        {"auto.create.topics.enable": "true", "security.inter.broker.protocol": "PLAINTEXT"},
        0,
    )
    door = ZooKeeperSighting("zk:2181", Door.OPEN, ("/config/users",), ("/brokers",), ("PLAINTEXT://broker:9092",))
    found = judge(Sightings("broker:9092", NOW_MS, mechanisms=(), anonymous=anybody, zookeeper=(door,), is_kraft=False))
    assert [each.name for each in found] == [
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
        "zookeeper-open",
        "zookeeper-writable",
        "zookeeper-secrets-readable",
    ]
    assert all(each.what and each.why and each.mend for each in found)
    assert len({each.name for each in found}) == len(found)


@pytest.mark.parametrize(
    ("seen", "name"),
    [
        (replace(SECURED, is_tls=False, tls=None), "no-encryption"),
        (replace(SECURED, answers_before_login=True), "answers-before-login"),
        (replace(SECURED, passwords=("admin (PLAIN)",)), "well-known-passwords"),
        (with_tls(suites={"TLSv1.1": ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",), **GOOD_SUITES}), "old-tls"),
        (with_tls(suites={"TLSv1.2": ("TLS_RSA_WITH_RC4_128_SHA",)}), "weak-suites"),
        (with_tls(suites={"TLSv1.2": ("TLS_DH_anon_WITH_AES_128_CBC_SHA",)}), "weak-suites"),
        (with_tls(suites={"TLSv1.2": ("TLS_RSA_WITH_AES_128_GCM_SHA256",)}), "no-forward-secrecy"),
        (with_tls(distrust="self-signed certificate"), "certificate-not-believed"),
        (with_tls(chain=(replace(LEAF, not_after_ms=NOW_MS + 29 * DAY_MS),)), "certificate-ends"),
        (with_tls(chain=(LEAF, replace(LEAF, not_after_ms=NOW_MS - DAY_MS))), "certificate-ends"),
        (with_tls(chain=(replace(LEAF, key="RSA", key_bits=1024),)), "short-key"),
        (with_tls(chain=(replace(LEAF, hash_name="SHA-1"),)), "weak-signature"),
        (replace(SECURED, known=replace(INSIDE, authorizer=Authorizer.OFF)), "no-authorizer"),
        (replace(SECURED, known=settings(allow_everyone_if_no_acl_found="true")), "everyone-where-no-acl-is"),
        (replace(SECURED, known=settings(inter_broker_listener_name="PLAINTEXT")), "brokers-in-clear"),
        (replace(SECURED, known=settings(advertised_listeners="A://h:1,PLAINTEXT://h:2")), "plaintext-beside-tls"),
        (replace(SECURED, metrics=(MetricsSighting("http://10.0.0.1:7071/", is_local=False),)), "metrics-for-anybody"),
    ],
)  # fmt: skip
def test_each_weakness_alone_is_one_finding(seen: Sightings, name: str) -> None:
    assert names(seen) == [name]


def test_plain_in_clear_shows_passwords_and_scram_does_not() -> None:
    clear = replace(SECURED, is_tls=False, tls=None, mechanisms=("PLAIN",))
    assert names(clear) == ["no-encryption", "secrets-in-clear"]
    assert names(replace(clear, mechanisms=("SCRAM-SHA-256",))) == ["no-encryption"]
    assert names(replace(SECURED, mechanisms=("PLAIN",))) == []


def test_metrics_that_only_this_machine_reaches_are_no_finding() -> None:
    assert names(replace(SECURED, metrics=(MetricsSighting("http://127.0.0.1:7071/metrics", is_local=True),))) == []


def test_a_root_that_signs_itself_with_sha1_is_no_finding() -> None:
    root = replace(LEAF, subject="CN=ca", hash_name="SHA-1")
    assert names(with_tls(chain=(LEAF, root))) == []


@pytest.mark.parametrize(
    ("binding", "is_wide"),
    [
        (acl(ResourceType.TOPIC, "*", Operation.READ), True),
        (acl(ResourceType.GROUP, "*", Operation.ALL), True),
        (acl(ResourceType.CLUSTER, "kafka-cluster", Operation.CLUSTER_ACTION), True),
        (acl(ResourceType.CLUSTER, "kafka-cluster", Operation.ALL), True),
        (acl(ResourceType.CLUSTER, "kafka-cluster", Operation.DESCRIBE), False),
        (acl(ResourceType.TOPIC, "news", Operation.READ), False),
        (acl(ResourceType.TOPIC, "*", Operation.READ, "User:alice"), False),
        (acl(ResourceType.TOPIC, "*", Operation.READ, host="10.0.0.1"), False),
        (acl(ResourceType.TOPIC, "*", Operation.READ, allow=False), False),
    ],
)
def test_a_list_for_everybody_on_everything_is_a_finding(binding: Binding, is_wide: bool) -> None:
    assert names(replace(SECURED, known=replace(INSIDE, acls=(binding,)))) == ["acl-for-everybody"] * is_wide


def test_rights_of_an_anonymous_client_count_one_by_one() -> None:
    nobody = BrokerSighting(("b:9093",), 0, None, Authorizer.ON)
    always = ["no-authentication", "metadata-for-anybody"]
    seen = replace(SECURED, mechanisms=(), anonymous=nobody)
    assert names(seen) == always

    def may(*operations: Operation) -> Sightings:
        return replace(seen, anonymous=replace(nobody, may=frozenset(operations)))

    assert names(may(Operation.CLUSTER_ACTION)) == [*always, "broker-requests-for-anybody"]
    assert names(may(Operation.ALTER)) == [*always, "administration-for-anybody"]
    assert names(may(Operation.DESCRIBE)) == always


def test_the_authorizer_that_mends_it_is_that_of_the_cluster() -> None:
    seen = replace(SECURED, known=replace(INSIDE, authorizer=Authorizer.OFF))
    assert "AclAuthorizer" in judge(seen)[0].mend
    assert "StandardAuthorizer" in judge(replace(seen, is_kraft=True))[0].mend


def test_a_door_of_zookeeper_that_is_closed_is_no_finding() -> None:
    assert names(replace(SECURED, zookeeper=(ZooKeeperSighting("zk:2181", Door.CLOSED),))) == []
