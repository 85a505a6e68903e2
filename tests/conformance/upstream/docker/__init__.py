"""What aiokafka's own test suite imports as `docker`: its "containers" are kavka brokers.

The suite asks Docker for a container with Kafka on a port that it names in the environment, and runs Kafka's scripts in
it. Here a container is a `kavka up` on that port, without scripts: tests that need them (ACLs, SASL, TLS) fail there.
This is imported beside a package `tests` of aiokafka's own, and so it uses nothing of ours.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace


class Container:
    """A broker that runs, for as long as the suite's session lasts."""

    def __init__(self, broker: subprocess.Popen[bytes] | None) -> None:
        self._broker = broker
        atexit.register(self.stop)

    def exec_run(self, command: object, **_options: object) -> tuple[int, bytes]:
        return 127, f"there is no {command} here".encode()

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.kill()
            self._broker.wait()


class _Containers:
    def run(self, *, environment: Mapping[str, object] | None = None, **_options: object) -> Container:
        if environment is None:
            return Container(None)  # the one that makes certificates
        data = Path(tempfile.mkdtemp(prefix="kavka-upstream-"))
        command = [Path(sys.executable).with_name("kavka"), "up", "--port", str(environment["ADVERTISED_PORT"])]
        settings = ["--set", "broker.id=0", "--set", f"num.partitions={environment['NUM_PARTITIONS']}"]
        with (data / "broker.log").open("wb") as log:
            broker = subprocess.Popen([*command, "--data", data / "data", *settings], stdout=log, stderr=log)
        return Container(broker)


class DockerClient:
    def __init__(self) -> None:
        self.containers = _Containers()

    def close(self) -> None:
        """Nothing is held."""


def from_env() -> DockerClient:
    return DockerClient()


# The suite's annotations name docker.models.containers.Container.
models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
