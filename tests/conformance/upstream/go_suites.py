"""The tests of Go's clients: franz-go, kafka-go and sarama.

kafka-go wants a broker at localhost:9092. sarama wants five behind a proxy, Toxiproxy, which it tells to cut
connections: the proxies listen on 29091 to 29095, and it runs in a network of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from kavka.security.scram_credentials import ScramMechanism
from tests.conformance.upstream.suite import Outcome, one_broker
from tests.kit.kavka_process import HOST, KavkaProcess, answers_metadata
from tests.kit.process_cluster import ProcessCluster
from tests.kit.sasl_script import add_user, wait_for_user

HERE: Final = Path(__file__).resolve().parent
TIMEOUT_S: Final = 1_500.0
STATUSES: Final = {"pass": "passed", "fail": "failed", "skip": "skipped"}
"""Actions of go test's events, and what they mean."""
OFFLINE: Final = {"GOFLAGS": "-mod=mod", "GOPROXY": "off"}
"""For what was compiled when its sources were laid."""

KAFKA_GO_GROUPS: Final = "TestReaderConsumerGroup"
KAFKA_GO_CRASHES: Final = tuple(
    f"{KAFKA_GO_GROUPS}/{name}"
    for name in (
        "verify_offset_committed",
        "verify_offset_committed_when_using_interval_committer",
        "consumer_group_commits_on_close",
    )
)
"""What ends the whole process with Go's panic on every broker. Each runs alone, so that all others run to their end."""

LOGIN_MODULES: Final = "org.apache.kafka.common.security"
TOXIPROXY: Final = "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0"
TOXIPROXY_PORT: Final = 8474
FIRST_PROXY_PORT, FIRST_BROKER_PORT, FIRST_INTERNAL_PORT = 29091, 39091, 19091
SARAMA_BROKERS: Final = 5


def franz_go(directory: Path, _against: str) -> list[Outcome]:
    """kgo's tests, with fewer records than the million of its authors' machines."""
    with tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place, KavkaProcess(Path(place) / "data") as broker:
        environment = {"KGO_SEEDS": broker.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"}
        return go_test(directory, ["-timeout", "20m", "./pkg/kgo"], environment)


def kafka_go(directory: Path, against: str) -> list[Outcome]:
    """With the environment of its authors' own runs against Kafka 3.7."""
    environment = {**OFFLINE, "KAFKA_SKIP_NETTEST": "1", "KAFKA_VERSION": "3.7.0"}
    listeners = "PLAINTEXT://localhost:9092,SASL_PLAINTEXT://localhost:9093"
    logins = {
        "plain": f'{LOGIN_MODULES}.plain.PlainLoginModule required user_adminplain="admin-secret";',
        "scram-sha-256": f"{LOGIN_MODULES}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{LOGIN_MODULES}.scram.ScramLoginModule required;",
    }
    settings = {
        "message.max.bytes": "200000000",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        **{f"listener.name.sasl_plaintext.{each}.sasl.jaas.config": login for each, login in logins.items()},
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with (
        tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place,
        one_broker(against, Path(place), port=9092, settings=settings),
    ):
        add_user(9092, "adminscram", "admin-secret-256", mechanisms=[ScramMechanism.SHA_256])
        add_user(9092, "adminscram", "admin-secret-512", mechanisms=[ScramMechanism.SHA_512])
        wait_for_user(9093, "adminscram", "admin-secret-512")
        crashing = "|".join(each.partition("/")[2] for each in KAFKA_GO_CRASHES)
        rest = ["-timeout", "20m", "-skip", f"^{KAFKA_GO_GROUPS}$/^({crashing})$", "./..."]
        outcomes = go_test(directory, rest, environment)
        return outcomes + [_alone(directory, name, environment) for name in KAFKA_GO_CRASHES]


def _alone(directory: Path, name: str, environment: Mapping[str, str]) -> Outcome:
    """One subtest in a process of its own, which it may end."""
    exactly = "/".join(f"^{part}$" for part in name.split("/"))
    outcomes = go_test(directory, ["-timeout", "5m", "-run", exactly, "."], environment)
    return next((each for each in outcomes if each.name == name), Outcome(name, "failed", "did not run"))


def sarama(directory: Path, against: str) -> list[Outcome]:
    """Its functional tests, with the settings of its authors' five brokers."""
    # Of the release follows how old the versions of requests are that the tests use: kavka has those of 4.0.
    version = "3.9.1" if against == "kafka" else "4.0.0"
    environment = {**OFFLINE, "TOXIPROXY_ADDR": f"http://{HOST}:{TOXIPROXY_PORT}", "KAFKA_VERSION": version}
    settings = {
        "default.replication.factor": "2",
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.replication.factor": "2",
        # By default two, so that no transaction is begun while one of two brokers is stopped: some tests do both.
        "transaction.state.log.min.isr": "1",
        "zookeeper.session.timeout.ms": "6000",
        "zookeeper.connection.timeout.ms": "6000",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "delete.topic.enable": "true",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,LOCAL:PLAINTEXT",
    }
    own_settings = {index: _of_broker(index) for index in range(SARAMA_BROKERS)}
    with tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place, _toxiproxy(directory):
        cluster = ProcessCluster(
            Path(place), brokers=SARAMA_BROKERS, kind=against, zookeeper="apache" if against == "kafka" else "kavka",
            defaults={}, settings=settings, own_settings=own_settings,
        )  # fmt: skip
        with cluster:
            cluster.start_zookeeper()
            for server in cluster.brokers.values():
                server.start()
            for index in range(SARAMA_BROKERS):
                _wait_for_all(FIRST_BROKER_PORT + index)
            with _compose(cluster, Path(place) / "compose") as compose:
                return go_test(directory, [*_functional_tests(directory), "."], {**environment, **compose})


@contextlib.contextmanager
def _compose(cluster: ProcessCluster, requests: Path) -> Iterator[dict[str, str]]:
    """Stops and starts brokers when the suite calls compose/docker; the environment for that."""
    requests.mkdir()
    ended = threading.Event()

    def serve() -> None:
        while not ended.wait(0.05):
            for request in requests.iterdir():
                what, _, number = request.name.partition("-kafka-")
                server = cluster.brokers[int(number) - 1]
                if what == "stop":
                    server.stop()
                elif not server.is_running:
                    server.start()
                request.unlink()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        path = os.pathsep.join([str(HERE / "compose"), os.environ["PATH"]])
        yield {"KAVKA_COMPOSE": str(requests), "PATH": path}
    finally:
        ended.set()
        thread.join()


def _functional_tests(directory: Path) -> list[str]:
    """Those that want brokers; the others of the package speak with a mock."""
    sources = [file.read_text() for file in directory.glob("*_test.go")]
    wanted = [source for source in sources if source.startswith("//go:build functional")]
    names = [name for source in wanted for name in re.findall(r"^func (Test\w+)\(t ", source, re.MULTILINE)]
    return ["-timeout", "15m", "-tags", "functional", "-run", f"^({'|'.join(names)})$"]


def _of_broker(index: int) -> dict[str, str]:
    internal, local = f"INTERNAL://{HOST}:{FIRST_INTERNAL_PORT + index}", f"LOCAL://{HOST}:{FIRST_BROKER_PORT + index}"
    return {
        "broker.id": str(index + 1),
        "broker.rack": str(index + 1),
        "listeners": f"{internal},{local}",
        "advertised.listeners": f"{internal},LOCAL://localhost:{FIRST_PROXY_PORT + index}",
    }


def _wait_for_all(port: int, *, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not answers_metadata(port, brokers=SARAMA_BROKERS):
        if time.monotonic() > deadline:
            raise TimeoutError(f"port {port} does not tell of {SARAMA_BROKERS} brokers in {timeout_s} s")
        time.sleep(0.1)


@contextlib.contextmanager
def _toxiproxy(directory: Path) -> Iterator[None]:
    """Toxiproxy with a proxy for each of sarama's brokers."""
    command = [directory / "toxiproxy" / "server", "-host", HOST, "-port", str(TOXIPROXY_PORT)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for index in range(SARAMA_BROKERS):
                _make_proxy(f"kafka{index + 1}", FIRST_PROXY_PORT + index, FIRST_BROKER_PORT + index)
            yield
        finally:
            process.kill()


def _make_proxy(name: str, port: int, upstream: int, *, timeout_s: float = 20.0) -> None:
    proxy = {"name": name, "listen": f"{HOST}:{port}", "upstream": f"{HOST}:{upstream}", "enabled": True}
    deadline = time.monotonic() + timeout_s
    while True:
        request = urllib.request.Request(f"http://{HOST}:{TOXIPROXY_PORT}/proxies", json.dumps(proxy).encode())
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def lay_toxiproxy(directory: Path) -> None:
    """Compiles the proxy beside sarama's sources."""
    environment = {**os.environ, "GOBIN": str(directory / "toxiproxy"), "GOFLAGS": "-mod=mod"}
    subprocess.run(["go", "install", TOXIPROXY], env=environment, check=True)


def go_test(directory: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> list[Outcome]:
    """Runs `go test` in a checkout and reads its events."""
    result = subprocess.run(
        ["go", "test", "-json", "-count=1", *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return outcomes_of(result.stdout.splitlines())


def outcomes_of(lines: Sequence[str]) -> list[Outcome]:
    """Of the events that `go test -json` writes. Two more failures count: of a package that Go's panic ended, so that
    tests never ran, and of one that failed though no test of it did, as one that does not compile."""
    outcomes: dict[str, Outcome] = {}
    said: dict[str, list[str]] = {}
    folder_of: dict[str, str] = {}
    failed_folders: set[str] = set()
    for line in lines:
        event = json.loads(line) if line.startswith("{") else {}
        if "Package" not in event:
            continue
        folder, output, action = (
            "/".join(event["Package"].split("/")[3:]) or ".",
            event.get("Output", ""),
            event["Action"],
        )
        if output.startswith("panic: "):
            name = f"{folder}: ended early"
            outcomes[name], folder_of[name] = Outcome(name, "failed", output.strip()), folder
        if (test := event.get("Test")) is None:
            if action == "fail":
                failed_folders.add(folder)
            continue
        name = test if folder == "." else f"{folder}.{test}"
        folder_of[name] = folder
        of_test = said.setdefault(name, [])
        if action == "output":
            of_test.append(output.strip())
        elif action in STATUSES:
            outcomes[name] = Outcome(name, STATUSES[action], " | ".join(of_test[-6:])[:400])
    for name in said:
        outcomes.setdefault(name, Outcome(name, "failed", "began and did not end"))
    accounted = {folder_of[each.name] for each in outcomes.values() if each.status == "failed"}
    missing = [Outcome(f"{folder}: failed without a test", "failed") for folder in failed_folders - accounted]
    return [*outcomes.values(), *missing]
