"""librdkafka's own tests, in quick mode, with one of its two group protocols at a time, on three brokers.

The brokers have an authorizer, and the tests find Apache Kafka's scripts where they look for them: these are Kafka's
command-line tools of 3.9, and the Java programs of librdkafka's tests run with its client.

Left out are those that need no broker (they speak with a mock of librdkafka's) and those that preload a library between
it and its sockets.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.apache_kafka import Release, java
from tests.conformance.upstream.suite import Outcome, crate
from tests.kit.process_cluster import ProcessCluster

VERSION: Final = "2.12.1"
TIMEOUT_S: Final = 2_400.0
STATES: Final = {"PASSED": "passed", "SKIPPED": "skipped"}
# As on its authors' brokers, but with three replicas of what a cluster keeps. A group waits for its first members, by
# Kafka's default: 0118_commit_rebalance wants both of its members in the first generation.
SETTINGS: Final = {
    "num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ADMIN: Final = "0081_admin"
APIS: Final = "do_test_apis"
"""The function that calls the others of ADMIN."""
SCRIPTS: Final = ("kafka-topics", "kafka-acls")
LOCAL_OR_SLOW: Final = ("-Q", "-E", "-L", "-p4")
"""Quick mode, no preloaded sockets, no local tests, so many at a time."""


def _compile(directory: Path) -> None:
    for program in (directory / "configure", directory / "lds-gen.py"):
        program.chmod(0o755)
    for command in (
        ["./configure", "--disable-gssapi"],
        ["make", "-j2", "libs"],
        ["make", "-j2", "-C", "tests", "build"],
    ):
        subprocess.run(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


lay_librdkafka: Final = crate("rdkafka-sys", f"4.10.0+{VERSION}", folder="librdkafka", finish=_compile)
"""The sources that the Rust package rdkafka-sys carries, tests and all, compiled."""


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
                return _run_tests(directory / "tests", Path(place), cluster, group_protocol)

    return run


def lay_scripts(home: Path) -> None:
    """A home of Kafka as tests use it: two tools, the start of any class, and the jar of the Java client."""
    release = Release.named("zk")
    jars = release.installed()
    (home / "bin").mkdir(parents=True)
    (home / "libs").symlink_to(jars)
    commands = {name: shlex.join(release.tool_command(name)) for name in SCRIPTS}
    commands["kafka-run-class"] = f'{java()} -cp "$CLASSPATH:{release.class_path}"'
    for name, command in commands.items():
        script = home / "bin" / f"{name}.sh"
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)


def _run_tests(directory: Path, place: Path, cluster: ProcessCluster, group_protocol: str) -> list[Outcome]:
    """Of the directory with the tests; place: for the files of this run."""
    configuration = place / "test.conf"
    configuration.write_text(f"metadata.broker.list={cluster.bootstrap}\ntest.timeout.multiplier=2\n")
    lay_scripts(place / "kafka")
    environment = {
        "RDKAFKA_TEST_CONF": str(configuration),
        # Decides which old requests the tests send: kavka has the versions of 4.0.
        "TEST_KAFKA_VERSION": "3.9.0" if cluster.kind == "kafka" else "4.0.0",
        "TEST_CONSUMER_GROUP_PROTOCOL": group_protocol,
        "LD_LIBRARY_PATH": os.pathsep.join(str(directory.parent / each) for each in ("src", "src-cpp")),
        "KAFKA_PATH": str(place / "kafka"),
        "BROKERS": cluster.bootstrap,
    }
    outcomes = _run(directory, place, {**environment, "TESTS_SKIP": ADMIN.partition("_")[0]})
    for part in _parts_of_admin(directory):
        only = {**environment, "TESTS": ADMIN.partition("_")[0], "SUBTESTS": part}
        found = [each for each in _run(directory, place, only) if each.name == ADMIN]
        outcomes += [each._replace(name=f"{ADMIN}/{part}") for each in found]
    return outcomes


def _parts_of_admin(directory: Path) -> list[str]:
    """The functions of the test of the admin client, in their order. It ends with the first that fails: each runs by
    itself, so that what kavka answers otherwise does not hide what comes after."""
    source = (directory / "0081-admin.c").read_text()
    return re.findall(r"^static void\s+(do_test_\w+)\(", source.replace(APIS, ""), re.MULTILINE)


def _run(directory: Path, place: Path, environment: Mapping[str, str]) -> list[Outcome]:
    report = place / "report.json"
    report.unlink(missing_ok=True)
    with (place / "output.log").open("ab") as output:
        subprocess.run(
            ["./test-runner", *LOCAL_OR_SLOW],
            cwd=directory,
            env={**os.environ, **environment, "TEST_REPORT": str(report)},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
    if not report.exists():
        return []
    found = json.loads(report.read_text())["tests"]
    return [Outcome(name, STATES.get(test["state"], "failed"), test["state"]) for name, test in found.items()]
