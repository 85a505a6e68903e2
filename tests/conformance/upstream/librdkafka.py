"""librdkafka's own tests, in quick mode, with one of its two group protocols at a time, on three brokers.

Left out are those that need no broker (they speak with a mock of librdkafka's) and those that preload a library between
it and its sockets.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.conformance.upstream.suite import Outcome, crate
from tests.kit.process_cluster import ProcessCluster

VERSION: Final = "2.12.1"
TIMEOUT_S: Final = 2_400.0
STATES: Final = {"PASSED": "passed", "SKIPPED": "skipped"}
SETTINGS: Final = {
    "num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
LOCAL_OR_SLOW: Final = ("-Q", "-E", "-L", "-p4")
"""Quick mode, no preloaded sockets, no local tests, so many at a time."""

_sources = crate(
    "rdkafka-sys",
    f"4.10.0+{VERSION}",
    folder="librdkafka",
)


def lay_librdkafka(directory: Path) -> None:
    """The sources that the Rust package rdkafka-sys carries, tests and all, compiled."""
    _sources(directory)
    for program in (directory / "configure", directory / "lds-gen.py"):
        program.chmod(0o755)
    for command in (
        ["./configure", "--disable-gssapi"],
        ["make", "-j2", "libs"],
        ["make", "-j2", "-C", "tests", "build"],
    ):
        subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


def librdkafka(group_protocol: str) -> Callable[[Path, str], list[Outcome]]:
    """group_protocol: "classic" or "consumer"."""

    def run(directory: Path, against: str) -> list[Outcome]:
        with tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place:
            zookeeper = "apache" if against == "kafka" else "kavka"
            cluster = ProcessCluster(
                Path(place) / "cluster", kind=against, zookeeper=zookeeper, defaults={}, settings=SETTINGS
            )
            with cluster:
                cluster.start()
                return _run_tests(directory / "tests", Path(place), cluster.bootstrap, group_protocol)

    return run


def _run_tests(tests: Path, place: Path, bootstrap: str, group_protocol: str) -> list[Outcome]:
    configuration, report = place / "test.conf", place / "report.json"
    configuration.write_text(f"metadata.broker.list={bootstrap}\ntest.timeout.multiplier=2\n")
    libraries = os.pathsep.join(str(tests.parent / each) for each in ("src", "src-cpp"))
    environment = {
        "RDKAFKA_TEST_CONF": str(configuration),
        "TEST_REPORT": str(report),
        "TEST_KAFKA_VERSION": "3.9.0",
        "TEST_CONSUMER_GROUP_PROTOCOL": group_protocol,
        "LD_LIBRARY_PATH": libraries,
    }
    with (place / "output.log").open("wb") as output:
        subprocess.run(
            ["./test-runner", *LOCAL_OR_SLOW],
            cwd=tests,
            env={**os.environ, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
    if not report.exists():
        return []
    found = json.loads(report.read_text())["tests"]
    return [Outcome(name, STATES.get(test["state"], "failed"), test["state"]) for name, test in found.items()]
