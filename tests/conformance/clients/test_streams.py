"""Kafka Streams with exactly_once_v2: counts are exact, whatever dies in between; runs where Java is there."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.conformance.clients.check_program import set_up
from tests.conformance.clients.waiting import TIMEOUT_S

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]

VERSIONS = ("4.3.1", "3.9.2")
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256M")
PARTITIONS = 3
WORDS = [f"word-{number}" for number in range(7)]
PER_WORD = 400
TOTAL = PER_WORD * len(WORDS)
KILLED_AT = TOTAL // 2
CHUNK = 100
# A start of the JVM, a rebalance behind a killed member, a restored store, on a loaded machine.
PROGRESS_TIMEOUT_S = 90.0


class Reader:
    """What a reader of committed records has seen of a topic so far, in the order of each partition."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
        self._consumer = Consumer(config)
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        self.counts: dict[str, list[int]] = defaultdict(list)

    @property
    def total(self) -> int:
        return sum(map(len, self.counts.values()))

    def read_until(self, total: int, *, application: subprocess.Popen[bytes], log: Path) -> None:
        """Reads until there are so many records. Fails where the application ends or nothing comes for long."""
        deadline = time.monotonic() + PROGRESS_TIMEOUT_S
        while self.total < total:
            self._take(self._consumer.poll(0.2))
            assert application.poll() is None, f"the application ended: {log.read_text()}"
            assert time.monotonic() < deadline, f"{self.total} of {total} counts: {log.read_text()}"

    def read_to_the_end(self) -> None:
        """Reads all that there is now, by a reader that has read nothing yet (an end is told once)."""
        ends: set[int] = set()
        while len(ends) < PARTITIONS:
            message = self._consumer.poll(TIMEOUT_S)
            assert message is not None, "the reader hangs"
            if self._take(message):
                ends.discard(message.partition())
            else:
                ends.add(message.partition())

    def _take(self, message: Message | None) -> bool:
        if message is None:
            return False
        if error := message.error():
            if error.code() == KafkaError._PARTITION_EOF:
                return False
            raise KafkaException(error)
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        self.counts[key.decode()].append(int.from_bytes(value, "big"))
        return True

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="module", params=VERSIONS, ids=lambda version: f"kafka-streams-{version}")
def program(request: pytest.FixtureRequest) -> list[str]:
    """The command that starts the application, but for its arguments."""
    return [*JAVA, "-cp", set_up("setup_java_clients.sh", request.param, "streams"), "Counts"]


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The application, ended with -9 where it has not ended before."""
    with log.open("ab") as printed, subprocess.Popen(command, stdout=printed, stderr=printed) as process:
        try:
            yield process
        finally:
            process.kill()


def test_counts_are_exact_though_the_application_is_killed(
    program: list[str],
    bootstrap: str,
    replication_factor: int,
    admin: AdminClient,
    make_topic: Callable[..., str],
    fresh: Callable[[str], str],
    tmp_path: Path,
) -> None:
    topic, output, application_id = make_topic(PARTITIONS), make_topic(PARTITIONS), fresh("counts")
    log = tmp_path / "streams.log"
    command = [*program, bootstrap, application_id, str(tmp_path / "state"), topic, output, str(replication_factor)]
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def produce(numbers: range) -> None:
        for number in numbers:
            producer.produce(topic, WORDS[number % len(WORDS)], partition=number % PARTITIONS)
        assert producer.flush(TIMEOUT_S) == 0

    with closing(Reader(bootstrap, output)) as reader:
        with running(command, log) as application:
            for start in range(0, KILLED_AT, CHUNK):  # bit by bit, so that it dies amid a transaction
                produce(range(start, start + CHUNK))
                reader.read_until(start - CHUNK, application=application, log=log)
            application.kill()
            application.wait()
        produce(range(KILLED_AT, TOTAL))
        with running(command, log) as application:
            reader.read_until(TOTAL, application=application, log=log)
            application.terminate()
            application.wait(TIMEOUT_S)

    counts = all_counts(bootstrap, output)
    wrong = {word: Counter(found) for word, found in counts.items() if found != [*range(1, PER_WORD + 1)]}
    assert not wrong, "each count comes out once, in order"
    assert sorted(counts) == WORDS
    changelog = f"{application_id}-counts-changelog"
    stored = all_counts(bootstrap, changelog)
    assert {word: found[-1] for word, found in stored.items()} == dict.fromkeys(WORDS, PER_WORD)
    assert policy(admin, changelog) == "compact"
    assert policy(admin, f"{application_id}-by-value-repartition") == "delete"


def all_counts(bootstrap: str, topic: str) -> dict[str, list[int]]:
    """What one who reads the topic from its beginning finds."""
    with closing(Reader(bootstrap, topic)) as reader:
        reader.read_to_the_end()
        return reader.counts


def policy(admin: AdminClient, topic: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (described,) = admin.describe_configs([resource]).values()
    return described.result(TIMEOUT_S)["cleanup.policy"].value
