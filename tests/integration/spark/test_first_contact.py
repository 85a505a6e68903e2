"""A query that finds no broker: after how long it says so, and in which words; Spark itself takes no part."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from kavka.errors import KavkaError, RequestError
from kavka.testing import Cluster, SecureCluster
from kavka_spark.errors import UnreachableError
from kavka_spark.options import FIRST_CONTACT_MS, connection_options
from kavka_spark.sink_options import sink_options
from kavka_spark.sink_schema import sink_columns
from kavka_spark.source import KavkaReader
from kavka_spark.source_options import source_options
from kavka_spark.stream_source import KavkaStreamReader
from kavka_spark.writer import TaskIdentity, write_rows
from tests.kit.ports import free_port

QUICK_S = 4.0
"""Far less than FIRST_CONTACT_MS, and time for a busy machine."""


@pytest.fixture(scope="module")
def plain() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture(scope="module")
def secure() -> Iterator[SecureCluster]:
    with SecureCluster(brokers=1) as cluster:
        cluster.add_user("alice", allow=["read:orders", "describe:orders"])
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that lets everybody in and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def plan(servers: str, **more: str) -> None:
    """What Spark asks of a batch query before there are tasks."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": "orders", **more}
    KavkaReader(source_options(given, streaming=False), ("value",)).partitions()


def begin(servers: str, **more: str) -> None:
    """What Spark asks of a stream first."""
    given = {"kafka.bootstrap.servers": servers, "subscribe": "orders", **more}
    KavkaStreamReader(source_options(given, streaming=True), ("value",)).initialOffset()


def write(servers: str, **more: str) -> None:
    """A task of a batch job."""
    given = {"kafka.bootstrap.servers": servers, "topic": "orders", **more}
    options = sink_options(given, streaming=False)
    columns = sink_columns(StructType([StructField("value", StringType())]), options)
    rows = pa.RecordBatch.from_pydict({"value": ["tea"]})
    write_rows([rows], columns, options, TaskIdentity(0, lambda _: None))


def alice(secure: SecureCluster, **more: str) -> dict[str, str]:
    settings = secure.client_config("alice", mechanism="SCRAM-SHA-512", client="librdkafka")
    return {f"kafka.{name}": str(value) for name, value in settings.items()} | more


def told(ask: Callable[..., None], servers: str, **more: str) -> tuple[float, str]:
    """After how many seconds a query said what."""
    began = time.monotonic()
    with pytest.raises(KavkaError) as caught:
        ask(servers, **more)
    assert isinstance(caught.value, UnreachableError | RequestError)
    return time.monotonic() - began, str(caught.value)


@pytest.mark.parametrize("ask", [plan, begin, write])
def test_where_nobody_listens_the_users_own_limit_counts(ask: Callable[..., None]) -> None:
    servers = f"127.0.0.1:{free_port()}"
    for limit in ("kafka.default.api.timeout.ms", "kafka.request.timeout.ms"):
        seconds, said = told(ask, servers, **{limit: "700"})
        assert 0.3 < seconds < QUICK_S
        assert said == (
            f"no broker answers: {servers} refused the connection, for 0.7 s (kafka.default.api.timeout.ms). Is a "
            "broker running there, and is option kafka.bootstrap.servers right?"
        )


def test_without_a_limit_of_the_users_a_query_waits_for_a_broker_that_starts() -> None:
    given = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
    assert connection_options(given).first_contact_ms == FIRST_CONTACT_MS == 15_000
    longer = {"kafka.default.api.timeout.ms": "90000", "kafka.request.timeout.ms": "20000"}
    assert connection_options({**given, **longer}).first_contact_ms == 90_000


@pytest.mark.parametrize("ask", [plan, begin, write])
def test_a_server_that_never_answers_does_not_take_longer_than_the_limit(silent: str, ask: Callable[..., None]) -> None:
    seconds, said = told(ask, silent, **{"kafka.default.api.timeout.ms": "700"})
    assert seconds < QUICK_S
    assert re.match(f"no broker answers: (no answer from )?{silent}", said)
    assert "Is it a broker's (kafka.bootstrap.servers)?" in said


@pytest.mark.parametrize("ask", [plan, begin, write])
def test_an_unknown_name_is_told_at_once(ask: Callable[..., None]) -> None:
    # That it is none is known without asking anybody.
    seconds, said = told(ask, "broker..example:9092")
    assert seconds < QUICK_S
    assert said == (
        "no broker answers: the name broker..example cannot be resolved (no name of a host). Is option "
        "kafka.bootstrap.servers right?"
    )


@pytest.mark.parametrize("ask", [plan, begin, write])
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_at_a_listener_without_it_names_the_option(plain: Cluster, ask: Callable[..., None], protocol: str) -> None:
    given = {"kafka.security.protocol": protocol, "kafka.default.api.timeout.ms": "700"}
    if protocol == "SASL_SSL":
        given |= {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "a", "kafka.sasl.password": "b"}
    seconds, said = told(ask, plain.bootstrap_servers, **given)
    assert seconds < QUICK_S
    assert f"Does the listener there speak {protocol} (option kafka.security.protocol)?" in said


@pytest.mark.parametrize("ask", [plan, begin, write])
def test_a_listener_with_tls_that_is_spoken_to_without_names_the_option(
    secure: SecureCluster, ask: Callable[..., None]
) -> None:
    seconds, said = told(ask, secure.bootstrap_servers, **{"kafka.default.api.timeout.ms": "700"})
    assert seconds < QUICK_S
    assert f"no broker answers: {secure.bootstrap_servers} closed the connection" in said
    assert "Does the listener there speak PLAINTEXT (option kafka.security.protocol)?" in said


@pytest.mark.parametrize("ask", [plan, begin, write])
def test_a_certificate_of_an_unknown_authority_is_told_at_once(secure: SecureCluster, ask: Callable[..., None]) -> None:
    given = alice(secure)
    del given["kafka.ssl.ca.location"]
    seconds, said = told(ask, given.pop("kafka.bootstrap.servers"), **given)
    assert seconds < QUICK_S
    assert "cannot be verified" in said
    assert "kafka.ssl.truststore.location" in said


@pytest.mark.parametrize("ask", [plan, begin, write])
def test_a_wrong_password_is_told_at_once(secure: SecureCluster, ask: Callable[..., None]) -> None:
    given = alice(secure, **{"kafka.sasl.password": "wrong"})
    seconds, said = told(ask, given.pop("kafka.bootstrap.servers"), **given)
    assert seconds < QUICK_S
    assert said.startswith(f"{secure.bootstrap_servers} refused SCRAM-SHA-512 as 'alice': ")
    assert said.endswith("(options kafka.sasl...)")
