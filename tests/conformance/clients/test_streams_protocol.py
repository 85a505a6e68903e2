"""Kafka Streams 4.3 with group.protocol=streams (KIP-1071), unmodified: the broker divides the tasks, and counts are as
exact as with the classic protocol, whatever dies in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from tests.apache_kafka import ApacheKafka
from tests.conformance.clients.check_program import set_up
from tests.conformance.clients.test_streams import (
    CHUNK,
    JAVA,
    PARTITIONS,
    PER_WORD,
    TOTAL,
    WORDS,
    Reader,
    all_counts,
    policy,
    running,
)
from tests.conformance.clients.waiting import TIMEOUT_S
from tests.kit.broker_client import BrokerClient
from tests.kit.command_line import run_alone
from tests.kit.process_cluster import ProcessCluster, eventually

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(500)]

QUICK = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "1000",
}
"""How long a member that is killed is missed, as with the classic protocol in test_streams."""
APPLICATION = "counts"
INPUT = "words"
THIRD = TOTAL // 3 // CHUNK * CHUNK


@pytest.fixture
def program() -> list[str]:
    return [*JAVA, "-cp", set_up("setup_java_clients.sh", "4.3.1", "streams"), "Counts"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path / "kavka", defaults=QUICK) as cluster:
        cluster.start()
        yield cluster


def make_topics(bootstrap: str, *names: str) -> None:
    replicas = bootstrap.count(",") + 1
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, replicas) for name in names]).values():
        future.result(TIMEOUT_S)


def producing(bootstrap: str) -> Callable[[range], None]:
    """What writes words with these numbers, and returns when they are there."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def produce(numbers: range) -> None:
        for number in numbers:
            producer.produce(INPUT, WORDS[number % len(WORDS)], partition=number % PARTITIONS)
        assert producer.flush(TIMEOUT_S) == 0

    return produce


class Application:
    """Instances of the program, each with a directory of its own for its states."""

    def __init__(self, program: list[str], bootstrap: str, directory: Path) -> None:
        self._program = program
        self._bootstrap = bootstrap
        self._directory = directory

    def command(self, instance: str, output: str, *protocol: str, name: str = APPLICATION) -> list[str]:
        state, replicas = str(self._directory / f"state-{name}-{instance}"), str(self._bootstrap.count(",") + 1)
        return [*self._program, self._bootstrap, name, state, INPUT, output, replicas, *protocol]

    def log(self, instance: str) -> Path:
        return self._directory / f"streams-{instance}.log"


def described(host: str, port: int) -> Mapping[str, tuple[str, int]]:
    """Each member's process, and how many active tasks it has."""
    with BrokerClient(port, host=host) as client:
        group = client.ask(StreamsGroupDescribeRequest(group_ids=[APPLICATION]), 0).groups[0]
    return {
        member.member_id: (
            member.process_id,
            sum(len(part.partitions) for part in member.assignment.active_tasks),
        )
        for member in group.members
    }


def coordinator(cluster: ProcessCluster) -> int:
    host, port = cluster.address(1)
    with BrokerClient(port, host=host) as client:
        found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[APPLICATION]), 4)
    return int(found.coordinators[0].node_id)


def assert_exact(counts: Mapping[str, list[int]]) -> None:
    assert sorted(counts) == WORDS
    wrong = {word: found for word, found in counts.items() if found != [*range(1, PER_WORD + 1)]}
    assert not wrong, "each count comes out once, in order"


def test_the_output_is_that_of_the_classic_protocol_though_an_instance_and_a_broker_are_killed(
    program: list[str], cluster: ProcessCluster, tmp_path: Path
) -> None:
    bootstrap = cluster.bootstrap
    make_topics(bootstrap, INPUT, "out", "out-classic")
    produce, app = producing(bootstrap), Application(program, bootstrap, tmp_path)
    with closing(Reader(bootstrap, "out")) as reader, ExitStack() as ends:
        one = ends.enter_context(running(app.command("one", "out", "streams"), app.log("one")))
        two = ends.enter_context(running(app.command("two", "out", "streams"), app.log("two")))
        for start in range(0, THIRD, CHUNK):
            produce(range(start, start + CHUNK))
            reader.read_until(start - CHUNK, application=two, log=app.log("two"))
        led_by = coordinator(cluster)
        address = cluster.address(led_by)

        def both_work() -> bool:
            found = list(described(*address).values())
            return len({process for process, tasks in found if tasks}) == 2 and sum(tasks for _, tasks in found) == 6

        eventually("both instances have tasks", both_work, timeout_s=60)
        one.kill()
        one.wait()
        for start in range(THIRD, 2 * THIRD, CHUNK):
            produce(range(start, start + CHUNK))
        reader.read_until(2 * THIRD, application=two, log=app.log("two"))
        assert {tasks for _process, tasks in described(*address).values()} == {3}, "two threads have three tasks each"
        cluster.kill(led_by)
        for start in range(2 * THIRD, TOTAL, CHUNK):
            produce(range(start, min(start + CHUNK, TOTAL)))
        reader.read_until(TOTAL, application=two, log=app.log("two"))
        cluster.start_broker(led_by)
        two.terminate()
        two.wait(TIMEOUT_S)
    counts = all_counts(bootstrap, "out")
    assert_exact(counts)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    assert policy(admin, f"{APPLICATION}-counts-changelog") == "compact"
    assert policy(admin, f"{APPLICATION}-by-value-repartition") == "delete"
    stored = all_counts(bootstrap, f"{APPLICATION}-counts-changelog")
    assert {word: found[-1] for word, found in stored.items()} == dict.fromkeys(WORDS, PER_WORD)
    classic = app.command("classic", "out-classic", name="classic-counts")
    with closing(Reader(bootstrap, "out-classic")) as reader, running(classic, app.log("classic")) as application:
        reader.read_until(TOTAL, application=application, log=app.log("classic"))
    assert all_counts(bootstrap, "out-classic") == counts


def change_of_protocol(program: list[str], bootstrap: str, directory: Path) -> None:
    """An application runs with the classic protocol, is stopped, and goes on with the new one where it was."""
    make_topics(bootstrap, INPUT, "out")
    produce, app = producing(bootstrap), Application(program, bootstrap, directory)
    produce(range(TOTAL // 2))
    with closing(Reader(bootstrap, "out")) as reader:
        with running(app.command("one", "out"), app.log("one")) as application:
            reader.read_until(TOTAL // 2, application=application, log=app.log("one"))
            application.terminate()
            application.wait(TIMEOUT_S)

        def is_empty() -> bool:
            listed = run_alone("groups", "list", "--state", "Empty", "-b", bootstrap)
            return APPLICATION.encode() in listed.stdout

        eventually("the broker finds its members gone", is_empty, timeout_s=60)
        produce(range(TOTAL // 2, TOTAL))
        with running(app.command("one", "out", "streams"), app.log("one")) as application:
            reader.read_until(TOTAL, application=application, log=app.log("one"))
            application.terminate()
            application.wait(TIMEOUT_S)
    assert_exact(all_counts(bootstrap, "out"))


def test_an_application_changes_its_protocol(program: list[str], cluster: ProcessCluster, tmp_path: Path) -> None:
    change_of_protocol(program, cluster.bootstrap, tmp_path)


@pytest.mark.kafka
def test_an_application_changes_its_protocol_on_apache_kafka(program: list[str], tmp_path: Path) -> None:
    with ApacheKafka(tmp_path / "kafka", mode="kraft", settings=QUICK) as broker:
        change_of_protocol(program, broker.bootstrap, tmp_path)
