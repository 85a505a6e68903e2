"""Many partitions: `python -m benchmarks.partitions [TEST ...] [--divisor N]`, or `make bench-partitions`.

Five brokers, each a process, and one ZooKeeper server, with default settings. The first two tests are those that
Apache Kafka's makers published for 1.1 with ZooKeeper (28 to 14 s for the failover, 6.5 min to 3 s for the shutdown);
the third is a cluster of the size that they then recommended as the largest.

    shutdown   25,000 topics of 1 partition with 2 replicas: 50,000 replicas. How fast topics are made, the first tenth
               beside the last. Then one broker, not the controller, is stopped in order, while a producer with
               acks=all writes all the time: how long the shutdown takes, how long the producer waited at most, and
               whether it saw an error
    failover   2,000 topics of 50 partitions with 1 replica: 100,000. The controller's broker is killed with -9: until
               another one is the controller, until it has taken note of every partition without a leader, and, started
               again, until that broker leads all of its partitions
    many       4,000 topics of 50 partitions with 1 replica: 200,000. Memory and descriptors of a broker, the time of a
               Metadata answer about all, and of `kavka health`; then all brokers are killed, and started again

Leaders are looked at in a sample of SAMPLE topics, so that looking costs the brokers little; when the sample is done,
all partitions are looked at once, and the time counts only when they are right, too. --divisor 10 makes everything a
tenth of the size. One JSON line for each figure, with the machine's load beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kit.broker_client import BrokerClient, Closed
from tests.kit.command_server import PROGRAM
from tests.kit.kavka_process import resident_bytes
from tests.kit.process_cluster import ProcessCluster, eventually

from kavka.protocol.messages import MetadataRequest
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.protocol.messages.metadata_response import MetadataResponse

BROKERS: Final = 5
TOPICS_AT_ONCE: Final = 100
SAMPLE: Final = 40
LOOK_S: Final = 0.1
PATIENCE_S: Final = 1_200.0
METADATA_VERSION: Final = 9
NO_LEADER: Final = -1


class Failed(Exception):
    """What should have come did not, in PATIENCE_S."""


class Stage:
    """A cluster with its topics, and how figures of it are shown."""

    def __init__(self, cluster: ProcessCluster, test: str, topics: int, partitions: int, replicas: int) -> None:
        self.cluster = cluster
        self._test = test
        self._partitions = partitions
        self._replicas = replicas
        self.names = [f"t-{number:05d}" for number in range(topics)]
        self._wanted = frozenset(self.names)
        self.sample = self.names[:: max(topics // SAMPLE, 1)]

    def show(self, figure: str, value: float, **more: object) -> None:
        load = round(os.getloadavg()[0], 1)
        print(
            json.dumps({"test": self._test, "figure": figure, "value": round(value, 3), "load": load, **more}),
            flush=True,
        )

    def make_topics(self) -> None:
        """All of them, TOPICS_AT_ONCE in a request; shows how fast, and waits until every partition has its leader."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        began, rates = time.perf_counter(), []
        for first in range(0, len(self.names), TOPICS_AT_ONCE):
            some = self.names[first : first + TOPICS_AT_ONCE]
            before = time.perf_counter()
            topics = [NewTopic(name, self._partitions, self._replicas) for name in some]
            for made in admin.create_topics(topics, request_timeout=300, operation_timeout=300).values():
                made.result()
            rates.append(len(some) / (time.perf_counter() - before))
        self.wait("all have a leader", lambda leaders: NO_LEADER not in leaders)
        tenth = max(len(rates) // 10, 1)
        self.show("topics_made_s", time.perf_counter() - began, topics=len(self.names), partitions=self._partitions)
        self.show("topics_a_second_first_tenth", sum(rates[:tenth]) / tenth)
        self.show("topics_a_second_last_tenth", sum(rates[-tenth:]) / tenth)

    def wait(self, what: str, are_right: Callable[[Sequence[int]], bool], *, at: int | None = None) -> None:
        """Until the leaders of all partitions are right, as broker `at`, or any, tells clients. Raises Failed."""
        deadline = time.monotonic() + PATIENCE_S
        for topics in (self.sample, None):
            while not ((leaders := self._leaders(topics, at)) is not None and are_right(leaders)):
                if time.monotonic() > deadline:
                    raise Failed(f"{what}: not in {PATIENCE_S:.0f} s")
                time.sleep(LOOK_S)

    def _leaders(self, topics: Sequence[str] | None, at: int | None) -> list[int] | None:
        answer = self.metadata(topics, at)
        if answer is None:
            return None
        ours = (topic for topic in answer.topics if topic.name in self._wanted)
        found = [each.leader_id for topic in ours for each in topic.partitions]
        return found if len(found) == len(self.names if topics is None else topics) * self._partitions else None

    def metadata(self, topics: Sequence[str] | None, at: int | None = None) -> MetadataResponse | None:
        """What a broker that runs tells of these topics, or of all; None where it does not answer."""
        running = [number for number, server in self.cluster.brokers.items() if server.is_running]
        number = running[0] if at is None else at
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        try:
            with BrokerClient(self.cluster.address(number)[1], timeout_s=60) as client:
                answer: MetadataResponse = client.ask(MetadataRequest(topics=asked), METADATA_VERSION)
        except (OSError, Closed):
            return None
        return answer

    def controller(self) -> int:
        answer = self.metadata(self.sample[:1])
        return NO_LEADER if answer is None else answer.controller_id

    def led_by(self, broker: int) -> int:
        answer = self.metadata(None)
        assert answer is not None, "the cluster serves"
        return sum(each.leader_id == broker for topic in answer.topics for each in topic.partitions)


class Writer(threading.Thread):
    """A record at a time to each topic of the sample, acks=all; keeps the longest wait, and each error."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(daemon=True)
        self.longest_s, self.written = 0.0, 0
        self.errors: list[str] = []
        self.ends = threading.Event()
        settings = {"bootstrap.servers": stage.cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0}
        self._producer = Producer(settings)
        self._topics = stage.sample

    def run(self) -> None:
        while not self.ends.is_set():
            for topic in self._topics:
                began = time.perf_counter()
                self._producer.produce(topic, b"value", on_delivery=self._on_delivery)
                self._producer.flush(120)
                self.longest_s = max(self.longest_s, time.perf_counter() - began)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        self.written += 1
        if error is not None:
            self.errors.append(str(error))


def shutdown(place: Path, divisor: int) -> None:
    with running("shutdown", place, 25_000 // divisor, 1, 2) as stage:
        stage.make_topics()
        controller = stage.controller()
        victim = next(number for number in stage.cluster.brokers if number != controller)
        led = stage.led_by(victim)
        writer = Writer(stage)
        writer.start()
        eventually("the writer writes", lambda: writer.written > len(stage.sample), timeout_s=120)
        began = time.perf_counter()
        stage.cluster.brokers[victim].stop(timeout_s=PATIENCE_S)
        stage.show("controlled_shutdown_s", time.perf_counter() - began, led=led)
        writer.ends.set()
        writer.join(150)
        stage.show("longest_wait_of_a_writer_s", writer.longest_s, written=writer.written, errors=writer.errors[:3])
        began = time.perf_counter()
        stage.cluster.start_broker(victim, timeout_s=PATIENCE_S)
        stage.show("serves_again_s", time.perf_counter() - began)


def failover(place: Path, divisor: int) -> None:
    with running("failover", place, 2_000 // divisor, 50, 1) as stage:
        stage.make_topics()
        victim = stage.controller()
        led = stage.led_by(victim)
        stage.cluster.kill(victim)
        began = time.perf_counter()
        eventually("another controller", lambda: stage.controller() not in (victim, NO_LEADER), timeout_s=PATIENCE_S)
        stage.show("another_controller_s", time.perf_counter() - began)
        stage.wait("those of the dead broker have no leader", lambda leaders: victim not in leaders)
        stage.show("every_partition_noted_s", time.perf_counter() - began, led=led)
        began = time.perf_counter()
        stage.cluster.brokers[victim].start()
        stage.wait("all lead again", lambda leaders: NO_LEADER not in leaders)
        stage.show("leads_again_s", time.perf_counter() - began)


def many(place: Path, divisor: int) -> None:
    with running("many", place, 4_000 // divisor, 50, 1) as stage:
        before = [resident_bytes(server.pid) for server in stage.cluster.brokers.values()]
        stage.make_topics()
        after = [resident_bytes(server.pid) for server in stage.cluster.brokers.values()]
        partitions = len(stage.names) * 50
        stage.show("memory_of_a_broker_mb", max(after) / 2**20)
        stage.show("memory_of_a_replica_bytes", (sum(after) - sum(before)) / partitions)
        stage.show("descriptors_of_a_broker", max(descriptors(each.pid) for each in stage.cluster.brokers.values()))
        began = time.perf_counter()
        assert stage.metadata(None) is not None
        stage.show("metadata_of_all_s", time.perf_counter() - began)
        began = time.perf_counter()
        words = [PROGRAM, "health", "--fail-on", "never", "-b", stage.cluster.bootstrap]
        subprocess.run(words, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
        stage.show("kavka_health_s", time.perf_counter() - began)
        stage.cluster.kill(*stage.cluster.brokers)
        began = time.perf_counter()
        for server in stage.cluster.brokers.values():
            server.start()
        for number in stage.cluster.brokers:
            stage.wait("all lead again", lambda leaders: NO_LEADER not in leaders, at=number)
        stage.show("all_lead_after_kill_s", time.perf_counter() - began)


TESTS: Final = {"shutdown": shutdown, "failover": failover, "many": many}


@contextlib.contextmanager
def running(test: str, place: Path, topics: int, partitions: int, replicas: int) -> Iterator[Stage]:
    """Five brokers on a fresh directory."""
    with ProcessCluster(place / test, brokers=BROKERS, defaults={"auto.create.topics.enable": "false"}) as cluster:
        cluster.start()
        yield Stage(cluster, test, topics, partitions, replicas)


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", metavar="TEST", help=f"of {', '.join(TESTS)}; all when none is named")
    parser.add_argument("--divisor", type=int, default=1, help="everything so many times smaller")
    parser.add_argument("--data", type=Path, help="where the brokers keep their data (the temporary directory)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.tests if name not in TESTS]
    if unknown:
        parser.error(f"{unknown[0]}: no such test; choose from {', '.join(TESTS)}")
    for name in arguments.tests or TESTS:
        with tempfile.TemporaryDirectory(prefix="kavka-partitions-", dir=arguments.data) as place:
            TESTS[name](Path(place), arguments.divisor)


if __name__ == "__main__":
    main()
