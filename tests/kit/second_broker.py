"""A broker of kavka that joins the ZooKeeper of a running Apache Kafka as broker 2: a cluster of both brands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.kit.kavka_process import answers_metadata


@contextmanager
def second_broker(directory: Path, port: int, settings: Mapping[str, str]) -> Iterator[None]:
    """While this lasts it runs, and both brokers know each other. port: of its listener in clear on the loopback."""
    file = directory / "kavka.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in {"broker.id": "2", **settings}.items()))
    with (directory / "kavka.log").open("w") as log:
        command = [str(Path(sys.executable).parent / "kavka"), "server", str(file)]
        broker = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for_two(port, broker)
            yield
        finally:
            broker.terminate()
            broker.wait(30)


def _wait_for_two(port: int, broker: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        if answers_metadata(port, brokers=2, timeout_s=1):
            return
        assert broker.poll() is None
        try:
            broker.wait(0.1)
        except subprocess.TimeoutExpired:
            pass
    raise AssertionError("kavka does not know both brokers")
