"""The integration tests of kafka-python, aiokafka and franz-go, as their authors wrote them, against kavka.

    make upstream                            all of them
    make upstream SUITES=aiokafka            one of them

A suite's sources are cloned into .cache/upstream, or are those in $KAVKA_UPSTREAM/NAME where that is set. Decides which
tests are run and which failures are explained; any other failure, and an explained one that passes, ends this with
status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Final, NamedTuple

from kavka_process import KavkaProcess

HERE: Final = Path(__file__).resolve().parent
PROJECT: Final = HERE.parents[2]
TIMEOUT_S: Final = 1_500.0

NO_ACL: Final = "ACLs are not built yet: kavka does not advertise their APIs"
NO_TLS: Final = "TLS is not built yet"


class Outcome(NamedTuple):
    """One test. `status` is passed, failed or skipped."""

    name: str
    status: str
    detail: str = ""


class Suite(NamedTuple):
    """`explained` has patterns of names of tests that fail, each with the reason."""

    repository: str
    run: Callable[[Path], list[Outcome]]
    explained: Mapping[str, str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="conformance.upstream.run", description=__doc__.split("\n", 1)[0])
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE", help=f"of {', '.join(SUITES)}")
    names = parser.parse_args().suites or list(SUITES)
    return max([report(name, SUITES[name]) for name in names])


def report(name: str, suite: Suite) -> int:
    """Runs one suite and prints what came of it; 1 if something is not explained."""
    outcomes = suite.run(sources(name, suite))
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    passed = sum(outcome.status == "passed" for outcome in outcomes)
    unexplained = [outcome for outcome in failed if reason(suite, outcome) is None]
    print(f"{name}: {passed} passed, {len(failed)} failed, {len(outcomes) - passed - len(failed)} skipped", flush=True)
    for outcome in failed:
        print(f"  failed  {outcome.name}: {reason(suite, outcome) or 'NOT EXPLAINED: ' + outcome.detail}")
    stale = [pattern for pattern in suite.explained if not any(fnmatch(outcome.name, pattern) for outcome in failed)]
    for pattern in stale:
        print(f"  {pattern} does not fail any more: its explanation is to be removed")
    if not passed:
        print("  nothing passed: the suite did not run")
    return int(bool(unexplained or stale or not passed))


def reason(suite: Suite, outcome: Outcome) -> str | None:
    return next((why for pattern, why in suite.explained.items() if fnmatch(outcome.name, pattern)), None)


def sources(name: str, suite: Suite) -> Path:
    """Where the suite's sources are; they are cloned if they are nowhere."""
    if (elsewhere := os.environ.get("KAVKA_UPSTREAM")) is not None:
        return Path(elsewhere) / name
    directory = PROJECT / ".cache" / "upstream" / name
    if not directory.exists():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", suite.repository, directory], check=True)
    return directory


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


def kafka_python(directory: Path) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place:
        settings = {  # those that the suite gives a broker which it starts itself
            "broker.id": "0",
            "num.partitions": "4",
            "group.min.session.timeout.ms": "1000",
            "group.initial.rebalance.delay.ms": "0",
        }
        with KavkaProcess(Path(place) / "data", settings=settings) as broker:
            environment = {
                "PYTHONPATH": str(directory),
                "KAFKA_URI": f"kafka://{broker.bootstrap}",
                "KAFKA_VERSION": "4.2.0",
                "KAFKA_ROOT": place,  # nothing is run from there: the broker is an external one
            }
            files = [f"test/integration/test_{name}_integration.py" for name in ("admin", "consumer", "producer")]
            return pytest_suite(directory, [*files, "--timeout=120"], environment)


def aiokafka(directory: Path) -> list[Outcome]:
    (directory / "tests" / "ssl_cert").mkdir(exist_ok=True)  # where it is there, no certificates are made
    environment = {
        "PYTHONPATH": os.pathsep.join([str(directory), str(HERE), str(PROJECT / "tests")]),
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


def franz_go(directory: Path) -> list[Outcome]:
    """kgo's tests, with fewer records than the million of its authors' machines."""
    with tempfile.TemporaryDirectory(prefix="kavka-upstream-") as place, KavkaProcess(Path(place) / "data") as broker:
        environment = {"KGO_SEEDS": broker.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"}
        result = subprocess.run(
            ["go", "test", "-json", "-timeout", "20m", "./pkg/kgo"],
            cwd=directory,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    outcomes: dict[str, Outcome] = {}
    said: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        name = event.get("Test")
        if name is None:
            continue
        if event["Action"] == "output":
            said.setdefault(name, []).append(event["Output"].strip())
        elif event["Action"] in ("pass", "fail", "skip"):
            status = {"pass": "passed", "fail": "failed", "skip": "skipped"}[event["Action"]]
            outcomes[name] = Outcome(name, status, " | ".join(said.get(name, [])[-6:])[:400])
    return list(outcomes.values())


SUITES: Final[dict[str, Suite]] = {
    "kafka-python": Suite(
        "https://github.com/dpkp/kafka-python",
        kafka_python,
        {
            "*::test_create_describe_delete_acls": NO_ACL,
            "*::test_describe_metadata_quorum": "a cluster on ZooKeeper has no quorum of controllers",
            "*::test_describe_configs_broker_resource_returns_configs": (
                "advertised.listeners is fixed at the start in KRaft mode; in ZooKeeper mode, as here, it is a default"
            ),
        },
    ),
    "aiokafka": Suite(
        "https://github.com/aio-libs/aiokafka",
        aiokafka,
        {
            "*::test_ssl_consume": NO_TLS,
            "*::test_producer_ssl": NO_TLS,
        },
    ),
    "franz-go": Suite(
        "https://github.com/twmb/franz-go",
        franz_go,
        {},
    ),
}


if __name__ == "__main__":
    raise SystemExit(main())
