"""Options: what each text means, what contradicts itself, and which name was probably meant."""

from __future__ import annotations

import pickle
import ssl
from pathlib import Path

import pytest

from kavka.client.security import SaslMechanism
from kavka.errors import ConfigError
from kavka.model import TopicPartition
from kavka_spark.options import connection_options
from kavka_spark.source_options import (
    Assign,
    AtOffsets,
    AtTimestamps,
    Edge,
    SourceOptions,
    Subscribe,
    SubscribePattern,
    source_options,
)
from tests.kit.certificates import Authority

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


def batch(**options: str) -> SourceOptions:
    return source_options(
        {**BASE, **{name.replace("__", "."): text for name, text in options.items()}}, streaming=False
    )


def stream(**options: str) -> SourceOptions:
    return source_options({**BASE, **{name.replace("__", "."): text for name, text in options.items()}}, streaming=True)


def test_a_batch_reads_all_and_a_stream_what_comes() -> None:
    assert (batch().starting, batch().ending) == (Edge.EARLIEST, Edge.LATEST)
    assert stream().starting is Edge.LATEST
    assert batch().fail_on_data_loss
    assert not batch().read_committed


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("subscibe", "subscribe"),
        ("startingOffset", "startingOffsets"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("kavka.groupid", "kavka.group.id"),
        ("kafka.isolation.levle", "kafka.isolation.level"),
    ],
)
def test_an_unknown_option_is_refused_with_the_name_that_was_probably_meant(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match=f"no option '{name.lower()}'; did you mean '{near}'"):
        source_options({**BASE, name: "x"}, streaming=True)


def test_names_count_in_any_case_because_spark_gives_them_in_lower_case() -> None:
    options = source_options({**BASE, "FAILONDATALOSS": "false", "maxoffsetspertrigger": "7"}, streaming=True)
    assert not options.fail_on_data_loss
    assert options.max_offsets == 7


def test_settings_of_the_java_client_that_change_nothing_here_are_taken() -> None:
    assert batch(kafka__max__poll__records="500", groupIdPrefix="x", kafka__group__id="g").topics == Subscribe(
        ("orders",)
    )
    assert batch(kafka__group__protocol="consumer", kafka__metadata__recovery__strategy="none").topics == Subscribe(
        ("orders",)
    )


@pytest.mark.parametrize("name", ["kafka.auto.offset.reset", "kafka.enable.auto.commit", "kafka.value.deserializer"])
def test_what_sparks_own_source_refuses_is_refused_with_what_to_do_instead(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*: "):
        source_options({**BASE, name: "x"}, streaming=False)


def test_topics_are_named_matched_or_assigned_and_only_one_of_them() -> None:
    servers = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
    assert source_options({**servers, "subscribe": "a, b,a"}, streaming=False).topics == Subscribe(("a", "b"))
    assert source_options({**servers, "subscribePattern": "a.*"}, streaming=False).topics == SubscribePattern("a.*")
    assigned = source_options({**servers, "assign": '{"a":[0,2],"b":[1]}'}, streaming=False).topics
    assert assigned == Assign((TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)))
    assert source_options({**servers, "subscribePattern": " a.* "}, streaming=False).topics == SubscribePattern("a.*")
    for wrong in ({}, {"subscribe": "a", "assign": '{"a":[0]}'}):
        with pytest.raises(ConfigError, match="expected one of the options"):
            source_options({**servers, **wrong}, streaming=False)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("subscribe", " , ", "names no topic"),
        ("subscribePattern", "a(", "not a regular expression"),
        ("subscribePattern", " ", "is empty"),
        ("assign", '{"a":["0"]}', "expected JSON"),
        ("assign", "[]", "expected JSON"),
        ("startingOffsets", "newest", "or earliest or latest"),
        ("startingOffsets", '{"a":{"0":-3}}', "expected JSON"),
        ("startingOffsets", '{"a":{"x":1}}', "expected JSON"),
        ("startingOffsets", "{}", "names no partition"),
        ("startingOffsets", '{"a":{"²":1}}', "expected JSON"),
        ("startingOffsets", '{"a":{"0":9223372036854775808}}', "expected JSON"),
        ("startingOffsets", "[" * 100_000, "expected JSON"),
        ("startingTimestamp", "9223372036854775808", "milliseconds"),
        ("startingTimestamp", "²", "milliseconds"),
        ("endingTimestamp", "9" * 5_000, "milliseconds"),
        ("startingTimestamp", "yesterday", "milliseconds"),
        ("endingOffsets", "earliest", "would read nothing"),
        ("startingOffsets", "latest", "would read nothing"),
        ("minPartitions", "0", "1 or more"),
        ("minPartitions", "many", "1 or more"),
        ("failOnDataLoss", "maybe", "true or false"),
        ("kafka.isolation.level", "serializable", "read_uncommitted or read_committed"),
        ("kafka.bootstrap.servers", "nowhere:port", "is not host:port"),
        ("maxBytesPerTrigger", "5", "has no meaning here"),
        ("kafka.security.providers", "x", "Java classes"),
        ("kavka.group.id", "g", "has no meaning here"),
    ],
)
def test_a_text_that_means_nothing_is_refused_by_the_name_of_its_option(name: str, text: str, why: str) -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
    if name not in ("assign", "subscribePattern"):
        given["subscribe"] = "orders"
    with pytest.raises(ConfigError, match=f"(?i){name}.*{why}"):
        source_options({**given, name: text}, streaming=False)


def test_a_batch_query_passes_over_limits_of_micro_batches_as_sparks_source_does() -> None:
    assert batch(maxOffsetsPerTrigger="5", maxTriggerDelay="1m").topics == Subscribe(("orders",))


def test_a_time_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ConfigError, match="'endingTimestamp' is 5, before 'startingTimestamp', 6"):
        batch(startingTimestamp="6", endingTimestamp="5")
    assert batch(startingTimestamp="6", endingTimestamp="6").starting == AtTimestamps({}, 6)


def test_a_time_range_that_ends_before_it_begins_in_one_partition_is_refused() -> None:
    since = '{"orders":{"0":5,"1":6}}'
    with pytest.raises(ConfigError, match=r"'endingOffsetsByTimestamp' is 5 for orders-1, before .*, 6"):
        batch(startingOffsetsByTimestamp=since, endingOffsetsByTimestamp='{"orders":{"0":5,"1":5}}')
    assert batch(startingOffsetsByTimestamp=since, endingOffsetsByTimestamp=since).min_partitions is None


def test_a_pattern_is_looked_for_anywhere_in_a_name_as_sparks_source_does() -> None:
    assert SubscribePattern("orders").matches("my-orders-2")
    assert not SubscribePattern("^orders$").matches("orders-2")


def test_how_often_ends_are_asked_for_is_sparks_option() -> None:
    assert (stream().end_attempts, stream().end_retry_ms) == (3, 1_000)
    given = stream(fetchOffset__numRetries="1", fetchOffset__retryIntervalMs="20")
    assert (given.end_attempts, given.end_retry_ms) == (1, 20)


def test_cipher_suites_by_javas_names_are_the_only_ones_used() -> None:
    tls = batch(
        kafka__security__protocol="SSL", kafka__ssl__cipher__suites="TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
    ).connection.tls
    assert tls is not None
    context = tls.context()
    assert [c["name"] for c in context.get_ciphers() if c["protocol"] == "TLSv1.2"] == ["ECDHE-RSA-AES256-GCM-SHA384"]
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2


def test_a_cipher_suite_that_nobody_has_is_named() -> None:
    tls = batch(kafka__security__protocol="SSL", kafka__ssl__cipher__suites="TLS_NONE_WITH_SUCH").connection.tls
    assert tls is not None
    with pytest.raises(ConfigError, match=r"ssl\.cipher\.suites: OpenSSL"):
        tls.context()


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match="'endingOffsets' has no meaning here: a stream has no end"):
        stream(endingOffsets="latest")


def test_offsets_come_before_nothing_timestamps_before_offsets_and_one_for_all_before_one_for_each() -> None:
    offsets = {"startingOffsets": '{"orders":{"0":5,"1":-2}}'}
    by_time = {**offsets, "startingOffsetsByTimestamp": '{"orders":{"0":1000}}'}
    assert batch(**offsets).starting == AtOffsets({TopicPartition("orders", 0): 5, TopicPartition("orders", 1): -2})
    assert batch(**by_time).starting == AtTimestamps({TopicPartition("orders", 0): 1000})
    assert batch(**by_time, startingTimestamp="2000").starting == AtTimestamps({}, 2000)


def test_limits_of_a_micro_batch() -> None:
    options = stream(
        minOffsetsPerTrigger="10", maxOffsetsPerTrigger="20", maxTriggerDelay="90s", maxBytesPerTrigger="9"
    )
    assert (options.min_offsets, options.max_offsets, options.max_trigger_delay_ms, options.max_bytes) == (
        10,
        20,
        90_000,
        9,
    )
    assert stream(maxTriggerDelay="15m").max_trigger_delay_ms == 900_000
    assert stream(maxTriggerDelay="250").max_trigger_delay_ms == 250
    with pytest.raises(ConfigError, match="duration"):
        stream(maxTriggerDelay="soon")
    with pytest.raises(ConfigError, match="more than maxOffsetsPerTrigger"):
        stream(minOffsetsPerTrigger="21", maxOffsetsPerTrigger="20")


def test_a_jaas_line_of_kafkas_java_client_gives_name_and_password(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(Authority().certificate)
    options = connection_options(
        {
            **BASE,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="alice" password="a \\"b\\"; c";',
            "kafka.ssl.ca.location": str(tmp_path / "ca.pem"),
        }
    )
    assert options.client.sasl is not None
    assert options.client.sasl.mechanism is SaslMechanism.SCRAM_SHA_512
    assert (options.client.sasl.username, options.client.sasl.password) == ("alice", 'a "b"; c')
    assert options.tls is not None
    assert options.tls.authorities is not None, "the file's content travels: tasks need no file"
    assert options.tls.authorities.startswith("-----BEGIN CERTIFICATE-----")
    assert options.tls.check_hostname
    assert "a \\" not in repr(options)


def test_tokens_come_from_where_the_settings_of_kafkas_java_client_say() -> None:
    options = connection_options(
        {
            **BASE,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
            "kafka.sasl.login.read.timeout.ms": "700",
            "kafka.sasl.jaas.config": 'OAuthBearerLoginModule required clientId="me" clientSecret="canary";',
        }
    )
    sasl = pickle.loads(pickle.dumps(options)).client.sasl
    assert (sasl.username, sasl.tokens.origin.read_timeout_ms) == ("me", 700)
    assert sasl.tokens.origin.client_secret == "canary"
    assert "canary" not in repr(options)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"kafka.security.protocol": "TLS"}, "expected one of PLAINTEXT, SSL"),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.username": "a", "kafka.sasl.password": "b"},
            "GSSAPI is Kafka's default: set sasl.mechanism",
        ),
        ({"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"}, "needs a user name"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/none.jks"},
            "Failed to load SSL keystore",
        ),
        ({"kafka.security.protocol": "SSL", "kafka.ssl.enabled.protocols": "TLSv1.1"}, "names TLSv1.1"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": "ldaps"},
            "expected https, or empty",
        ),
        (
            {
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": 'PlainLoginModule required username="a" password="b" serviceName="c";',
            },
            "has no meaning for PLAIN",
        ),
    ],
)
def test_security_that_cannot_be_had_is_refused_with_what_can(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        connection_options({**BASE, **given})


def test_a_delegation_token_is_taken_for_one() -> None:
    options = connection_options(
        {
            **BASE,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": 'ScramLoginModule required username="id" password="hmac" tokenauth="true";',
        }
    )
    assert options.client.sasl is not None
    assert options.client.sasl.is_by_token


def test_only_the_versions_of_tls_that_are_named_are_spoken() -> None:
    tls = batch(kafka__security__protocol="SSL", kafka__ssl__enabled__protocols="TLSv1.3").connection.tls
    assert tls is not None
    assert tls.context().minimum_version is ssl.TLSVersion.TLSv1_3
    tls = batch(kafka__security__protocol="SSL", kafka__ssl__enabled__protocols="TLSv1.2").connection.tls
    assert tls is not None
    assert tls.context().maximum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    "name",
    ["ssl.provider", "sasl.client.callback.handler.class", "sasl.login.class", "ssl.engine.factory.class", "ssl.crl"],
)
def test_an_option_about_security_that_would_not_be_honoured_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="has no option"):
        stream(**{f"kafka.{name}": "x"})


def test_ways_to_a_cluster_are_cached_by_value_and_travel_to_tasks() -> None:
    assert hash(connection_options(BASE)) == hash(connection_options(dict(BASE)))
    assert connection_options(BASE) != connection_options({**BASE, "kafka.request.timeout.ms": "1000"})
    options = stream(startingOffsets='{"orders":{"0":5}}')
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_key_store_is_opened_again_only_once_it_has_changed(tmp_path: Path) -> None:
    store, authority = tmp_path / "own.pem", tmp_path / "authority.pem"
    first, second = Authority(), Authority("another")
    given = {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": str(authority),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": str(store),
    }
    authority.write_text(first.certificate)
    first.sign("alice").write(store)
    opened = connection_options(given)
    assert connection_options(given).tls is opened.tls
    authority.write_text(second.certificate)
    renewed = connection_options(given)
    assert renewed.tls != opened.tls
    second.sign("alice").write(store)
    assert connection_options(given).tls not in (renewed.tls, opened.tls)
    store.unlink()
    with pytest.raises(ConfigError, match="names a file that cannot be read"):
        connection_options(given)
