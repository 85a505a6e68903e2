"""ConnectWorkers: Kafka Connect in distributed mode, unmodified, as processes of their own beside brokers under test.

It decides how workers start, end and are asked over REST; what a connector has to do is the tests' affair. A worker's
configuration is Kafka's default but for what is written in _settings.

I1  A worker is ended by the pid that was started here (Servers), never by its name.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.apache_kafka import Release
from tests.apache_kafka.servers import Servers
from tests.kit.kavka_process import HOST
from tests.kit.ports import free_port

WORKER_JVM: Final = ("-Xmx384M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
MAIN_CLASS: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
START_TIMEOUT_S: Final = 120.0
REQUEST_TIMEOUT_S: Final = 20.0
REBALANCING: Final = (404, 409, 500, 503)
"""What a worker answers while its group agrees on who runs what."""


class ConnectWorkers:
    """The workers of one Connect cluster, worker-1, worker-2, ... on loopback ports."""

    def __init__(
        self, directory: Path, bootstrap: str, *, release: Release, group: str, workers: int = 1, replicas: int = 1
    ) -> None:
        """directory: gets configuration, logs and pid files. group: a name that no other Connect cluster of these
        brokers has. replicas: of Connect's own topics. Raises PeerMissing."""
        release.installed()
        self._servers = Servers(directory.resolve())
        self._ports = {f"worker-{number}": free_port() for number in range(1, workers + 1)}
        directory.mkdir(parents=True, exist_ok=True)
        for name, port in self._ports.items():
            file = self._servers.directory / f"{name}.properties"
            settings = _settings(bootstrap, group, port, replicas)
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            command = release.server_command(MAIN_CLASS, str(file), options=WORKER_JVM)
            self._servers.define(name, command)

    def start(self) -> None:
        """Start all and wait until each answers and knows the group's leader. Raises AssertionError."""
        for name in self._ports:
            self._servers.start(name)
        for name in self._ports:
            self._wait_for(name)

    def start_again(self, name: str) -> None:
        """A worker that was killed, with its configuration as it was."""
        self._servers.start(name)
        self._wait_for(name)

    def kill(self, name: str) -> None:
        """kill -9."""
        self._servers.stop(name, at_once=True)

    def stop_in_order(self, name: str) -> None:
        """SIGTERM: its connectors write down how far they are."""
        self._servers.stop(name, timeout_s=30.0)

    def address(self, name: str) -> str:
        """Where the worker is asked."""
        return f"http://{HOST}:{self._ports[name]}"

    def put(self, connector: str, config: Mapping[str, str]) -> None:
        """Make a connector, or give it another configuration, and wait until it and one task of it run."""
        self.begin(connector, config)
        self.wait_until_running(connector)

    def begin(self, connector: str, config: Mapping[str, str]) -> None:
        """The same without a wait: what it makes of it is seen later."""
        self._ask("PUT", f"/connectors/{connector}/config", {"name": connector, **config})

    def wait_until_running(self, connector: str, *, timeout_s: float = 90.0) -> None:
        """Raises AssertionError with what the connector says of itself."""
        deadline = time.monotonic() + timeout_s
        status: Any = None
        while time.monotonic() < deadline:
            status = self._ask("GET", f"/connectors/{connector}/status")
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            if len(states) > 1 and set(states) == {"RUNNING"}:
                return
            time.sleep(0.1)
        raise AssertionError(f"{connector} does not run in {timeout_s} s: {status}\n{self._servers.log_tails()}")

    def worker_of(self, connector: str) -> str:
        """The name of the worker that runs the connector's first task, as the cluster tells it."""
        status = self._ask("GET", f"/connectors/{connector}/status")
        address = status["tasks"][0]["worker_id"]
        return next(name for name, port in self._ports.items() if address == f"{HOST}:{port}")

    def wait_until_taken_over(self, connector: str, killed: str, *, timeout_s: float = 90.0) -> None:
        """Until the connector's first task runs on another worker than the killed one. Raises AssertionError."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.worker_of(connector) != killed:
                self.wait_until_running(connector)
                return
            time.sleep(0.1)
        raise AssertionError(f"nobody took over from {killed} in {timeout_s} s\n{self._servers.log_tails()}")

    def stop(self) -> None:
        """kill -9 of all that run."""
        self._servers.stop(at_once=True)

    def _wait_for(self, name: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self._servers.runs(name), f"{name} ended\n{self._servers.log_tails()}"
            try:
                _request("GET", self._ports[name], "/connectors", None)
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"{name} does not answer in {START_TIMEOUT_S} s\n{self._servers.log_tails()}")

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """The answer of any worker that runs; asks again while the group rebalances."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            name = next(name for name in self._ports if self._servers.runs(name))
            try:
                return _request(method, self._ports[name], path, body)
            except urllib.error.HTTPError as error:
                said = error.read().decode(errors="replace")
                if error.code not in REBALANCING or time.monotonic() > deadline:
                    raise AssertionError(f"{method} {path}: {error.code} {said}") from error
            except OSError as error:
                if time.monotonic() > deadline:
                    raise AssertionError(f"{method} {path}: {error}\n{self._servers.log_tails()}") from error
            time.sleep(0.2)

    def __enter__(self) -> ConnectWorkers:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def file_source(file: Path, topic: str) -> dict[str, str]:
    """Kafka's connector that writes the lines of a growing file to a topic, each once. With lines left over from a
    batch it waits for the file to grow: `batch.size` is best left as it is."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "exactly.once.support": "required",
        "file": str(file),
        "topic": topic,
    }


def file_sink(file: Path, topic: str) -> dict[str, str]:
    """Kafka's connector that appends the committed records of a topic to a file, each at least once."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "file": str(file),
        "topics": topic,
        "consumer.override.isolation.level": "read_committed",
    }


def _settings(bootstrap: str, group: str, port: int, replicas: int) -> dict[str, object]:
    converter = "org.apache.kafka.connect.storage.StringConverter"
    topics = {
        f"{kind}.storage.{name}": value
        for kind in ("config", "offset", "status")
        for name, value in (("topic", f"{group}-{kind}s"), ("replication.factor", replicas))
    }
    return {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "listeners": f"http://{HOST}:{port}",
        **topics,
        "key.converter": converter,
        "value.converter": converter,
        "exactly.once.source.support": "enabled",
        # Connectors are found by their service files: seconds less than a search of all classes.
        "plugin.discovery": "service_load",
        "offset.flush.interval.ms": 1000,
        # A dead worker's tasks: by default they wait five minutes for it to come back.
        "scheduled.rebalance.max.delay.ms": 1000,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
    }


def _request(method: str, port: int, path: str, body: Mapping[str, str] | None) -> Any:
    """Raises OSError, of which HTTPError is a kind."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{HOST}:{port}{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as answer:
        text = answer.read()
    return json.loads(text) if text else None
