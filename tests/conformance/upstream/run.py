"""The tests of clients as their authors wrote them, against kavka: kafka-python, aiokafka, franz-go, kafka-go,
sarama, librdkafka.

    make upstream                            kafka-python, aiokafka and franz-go
    make upstream SUITES=aiokafka            one of them
    make ecosystem                           the others, against kavka and against Apache Kafka 3.9

A suite's sources are brought into .cache/upstream, or are those in $KAVKA_UPSTREAM/NAME where that is set. Decides
which suites there are and which failures are explained; any other failure, and an explained one that passes, ends this
with status 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from tests.conformance.upstream.go_suites import (
    KAFKA_GO_CRASHES,
    KAFKA_GO_GROUPS,
    franz_go,
    kafka_go,
    lay_toxiproxy,
    sarama,
)
from tests.conformance.upstream.librdkafka import lay_librdkafka, librdkafka
from tests.conformance.upstream.python_suites import aiokafka, kafka_python
from tests.conformance.upstream.suite import BOTH, PROJECT, Outcome, Suite, cloned, go_module

IN_OWN_NETWORK: Final = "KAVKA_IN_OWN_NETWORK"

NO_TLS: Final = "the broker has no listener with TLS here"


def main() -> int:
    parser = argparse.ArgumentParser(prog="conformance.upstream.run", description=__doc__.split("\n", 1)[0])
    parser.add_argument("suites", nargs="*", choices=[*SUITES, []], metavar="SUITE", help=f"of {', '.join(SUITES)}")
    parser.add_argument("--against", choices=BOTH, default="kavka", help="kafka: Apache Kafka 3.9 with ZooKeeper")
    chosen = parser.parse_args()
    names = chosen.suites or [name for name, suite in SUITES.items() if chosen.against in suite.against]
    for name in names:
        if chosen.against not in SUITES[name].against:
            print(f"{name} is not run against {chosen.against}")
    return max([run(name, chosen.against) for name in names if chosen.against in SUITES[name].against], default=0)


def run(name: str, against: str) -> int:
    """Brings the sources, runs the suite and prints what came of it; 1 if something is not explained."""
    suite = SUITES[name]
    directory = sources(name, suite)
    if suite.own_network and IN_OWN_NETWORK not in os.environ:
        alone = ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        command = [*alone, sys.executable, "-m", __spec__.name, "--against", against, name]
        return subprocess.run(command, env={**os.environ, IN_OWN_NETWORK: "1"}, check=False).returncode
    return report(name, suite, suite.run(directory, against), against)


def report(name: str, suite: Suite, outcomes: list[Outcome], against: str) -> int:
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    passed = sum(outcome.status == "passed" for outcome in outcomes)
    reasons = suite.reasons(against)
    skipped = len(outcomes) - passed - len(failed)
    print(f"{name} against {against}: {passed} passed, {len(failed)} failed, {skipped} skipped", flush=True)
    unexplained = []
    for outcome in failed:
        why = next((why for pattern, why in reasons.items() if fnmatch(outcome.name, pattern)), None)
        print(f"  failed  {outcome.name}: {why or 'NOT EXPLAINED: ' + outcome.detail}")
        if why is None:
            unexplained.append(outcome)
    stale = [
        pattern
        for pattern in reasons
        if pattern not in suite.now_and_then and not any(fnmatch(outcome.name, pattern) for outcome in failed)
    ]
    for pattern in stale:
        print(f"  {pattern} does not fail any more: its explanation is to be removed")
    if not passed:
        print("  nothing passed: the suite did not run")
    return int(bool(unexplained or stale or not passed))


def sources(name: str, suite: Suite) -> Path:
    """Where the suite's sources are; they are brought if they are nowhere."""
    if (elsewhere := os.environ.get("KAVKA_UPSTREAM")) is not None:
        return Path(elsewhere) / (suite.sources or name)
    directory = PROJECT / ".cache" / "upstream" / (suite.sources or name)
    if not directory.exists():
        suite.lay(directory)
    return directory


SUITES: Final[dict[str, Suite]] = {
    "kafka-python": Suite(
        cloned("https://github.com/dpkp/kafka-python"),
        kafka_python,
        {
            "*::test_describe_metadata_quorum": "a cluster on ZooKeeper has no quorum of controllers",
            "*::test_describe_configs_broker_resource_returns_configs": (
                "advertised.listeners is fixed at the start in KRaft mode; in ZooKeeper mode, as here, it is a default"
            ),
        },
    ),
    "aiokafka": Suite(
        cloned("https://github.com/aio-libs/aiokafka"),
        aiokafka,
        {
            "*::test_ssl_consume": NO_TLS,
            "*::test_producer_ssl": NO_TLS,
        },
    ),
    "franz-go": Suite(cloned("https://github.com/twmb/franz-go"), franz_go, {}),
    "kafka-go": Suite(
        go_module("github.com/segmentio/kafka-go", "v0.4.51", "./..."),
        kafka_go,
        {},
        everywhere={
            **dict.fromkeys(
                KAFKA_GO_CRASHES,
                "getOffsets in reader_test.go makes a ConsumerGroup without its function `connect`, and calls it: nil",
            ),
            f"{KAFKA_GO_GROUPS}/consumer_group_rebalance": (
                "24 records lie in three partitions, and each of two readers is to read 12: the one with a single "
                "partition finds 8, unless it had read others before the second reader joined"
            ),
            KAFKA_GO_GROUPS: "the test above is a part of this one",
        },
        now_and_then=(f"{KAFKA_GO_GROUPS}/consumer_group_rebalance", KAFKA_GO_GROUPS),
        against=BOTH,
        own_network=True,
    ),
    "sarama": Suite(
        go_module("github.com/IBM/sarama", "v1.61.1", "-tags", "functional", ".", finish=lay_toxiproxy),
        sarama,
        {
            "TestFuncAdminUpdateFeatures": (
                "made for KRaft, which refuses the whole request; on ZooKeeper, as here, each feature has its answer "
                "(it skips itself for a broker of 3.9)"
            ),
        },
        against=BOTH,
        own_network=True,
    ),
    "librdkafka-classic": Suite(lay_librdkafka, librdkafka("classic"), {}, against=BOTH, sources="librdkafka"),
    # Apache Kafka 3.9 has this protocol in KRaft mode only.
    "librdkafka-consumer": Suite(lay_librdkafka, librdkafka("consumer"), {}, sources="librdkafka"),
}


if __name__ == "__main__":
    raise SystemExit(main())
