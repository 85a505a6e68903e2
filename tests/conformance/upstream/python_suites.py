"""The integration tests of kafka-python and aiokafka."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.upstream.suite import Outcome
from tests.kit.kavka_process import KavkaProcess

HERE: Final = Path(__file__).resolve().parent
TIMEOUT_S: Final = 1_500.0


def kafka_python(directory: Path, _against: str) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place:
        settings = {  # those that the suite gives a broker which it starts itself
            "broker.id": "0",
            "num.partitions": "4",
            "group.min.session.timeout.ms": "1000",
            "group.initial.rebalance.delay.ms": "0",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
        with KavkaProcess(Path(place) / "data", settings=settings) as broker:
            environment = {
                "PYTHONPATH": str(directory),
                "KAFKA_URI": f"kafka://{broker.bootstrap}",
                "KAFKA_VERSION": "4.3.0",
                "KAFKA_ROOT": place,  # nothing is run from there: the broker is an external one
            }
            files = [f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")]
            return pytest_suite(directory, [*files, "--timeout=120"], environment)


def aiokafka(directory: Path, _against: str) -> list[Outcome]:
    (directory / "tests" / "ssl_cert").mkdir(exist_ok=True)  # where it is there, no certificates are made
    environment = {
        "PYTHONPATH": os.pathsep.join([str(directory), str(HERE)]),
        "PATH": os.pathsep.join([str(HERE / "bin"), os.environ["PATH"]]),
        "AIOKAFKA_NO_EXTENSIONS": "1",
    }
    functional = ("admin", "client", "conn", "consumer", "coordinator", "fetcher", "producer", "sender", "pep492")
    transactional = ("transactional_consumer", "transactional_producer")
    files = [f"tests/test_{name}.py" for name in (*functional, *transactional)]
    return pytest_suite(
        directory,
        [*files, "-c", str(HERE / "aiokafka.ini"), "--docker-image=kavka:2.13_3.9.0", "--no-pull", "--timeout=120"],
        environment,
    )


def pytest_suite(directory: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> list[Outcome]:
    """Runs pytest in a checkout and reads its report."""
    with tempfile.TemporaryDirectory() as place:
        results = Path(place) / "results.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            f"--junitxml={results}",
        ]
        subprocess.run(
            [*command, *arguments],
            cwd=directory,
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
        if not results.exists():
            return []
        return [outcome_of(case) for case in ElementTree.parse(results).iter("testcase")]


def outcome_of(case: ElementTree.Element) -> Outcome:
    """A test of a report as pytest writes it."""
    name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name', '')}"
    for kind in ("failure", "error"):
        if (problem := case.find(kind)) is not None:
            return Outcome(name, "failed", (problem.get("message") or "").split("\n", 1)[0][:200])
    return Outcome(name, "skipped" if case.find("skipped") is not None else "passed")
