"""What the console knows of a live cluster, and how soon: a broker that dies, a cluster that goes away and comes back.

Against kavka, and in `make conformance` against Apache Kafka 3.9 and 4: the same questions have the same answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic

from kavka.console.clusters import Clusters, ClusterWatch
from kavka.console.history import Series
from kavka.console.settings import ConsoleSettings
from kavka.model import TopicPartition
from kavka.observe.cluster_settings import ClusterSettings
from kavka.observe.snapshot import ClusterSnapshot, ClusterState, Part
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.kit.command_line import run_alone
from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port
from tests.kit.process_cluster import ProcessCluster, eventually
from tests.kit.topic_everywhere import wait_everywhere

pytest.importorskip("starlette")

from tests.kit.console_process import ConsoleProcess

SOON_S = 60.0
SETTINGS = {"replica.lag.time.max.ms": "10000", "offsets.topic.num.partitions": "1", "min.insync.replicas": "2"}
HEAP = "-Xmx256M -Xms128M"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("watch") / "cluster", settings=SETTINGS) as running:
        running.start()
        fill(running.bootstrap, replicas=3)
        yield running


def fill(bootstrap: str, *, replicas: int, topic: str = "orders") -> None:
    """A topic of two partitions with a hundred records, of which the group `readers` has read the first ten."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(topic, 2, replicas)]).values():
        made.result(30)
    wait_everywhere(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce(topic, f"value {number}".encode(), partition=0)
    assert producer.flush(60) == 0
    read = ConsumerGroupTopicPartitions("readers", [Position(topic, 0, 10)])

    def commit() -> bool:
        (done,) = admin.alter_consumer_group_offsets([read]).values()
        return all(each.error is None for each in done.result(30).topic_partitions)

    # A coordinator that has just been made answers NOT_COORDINATOR for a moment, which librdkafka hands on.
    assert eventually("offsets are committed", commit, timeout_s=60)


@contextlib.asynccontextmanager
async def watched(bootstrap: str, directory: Path, **settings: str) -> AsyncIterator[ClusterWatch]:
    """The cluster, as the console watches it."""
    one = ClusterSettings("test", bootstrap, **settings)  # type: ignore[arg-type]  # texts by name
    clusters = Clusters(ConsoleSettings(data_directory=str(directory), poll_ms=500, clusters=(one,)))
    await clusters.start()
    try:
        (watch,) = clusters
        yield watch
    finally:
        await clusters.stop()


async def seen(
    watch: ClusterWatch, what: str, is_so: Callable[[ClusterSnapshot], bool], *, within_s: float = SOON_S
) -> ClusterSnapshot:
    """The first snapshot of which it is so."""
    try:
        async with asyncio.timeout(within_s):
            while not is_so(watch.snapshot):
                await watch.changes.after(watch.changes.number)
    except TimeoutError:
        raise AssertionError(f"not seen within {within_s} s: {what}; readings: {watch.snapshot.readings}") from None
    return watch.snapshot


def is_complete(snapshot: ClusterSnapshot) -> bool:
    """Everything was read that every cluster can tell."""
    parts = (
        Part.OFFSETS,
        Part.REPLICA_ENDS,
        Part.LOG_DIRECTORIES,
        Part.TOPIC_CONFIGS,
        Part.BROKER_CONFIGS,
        Part.GROUPS,
    )
    group = snapshot.groups.get("readers")
    return all(snapshot.reading(part).is_known for part in parts) and group is not None and bool(group.offsets)


def check_complete(snapshot: ClusterSnapshot, *, brokers: int) -> None:
    assert len(snapshot.alive_brokers) == brokers
    assert snapshot.controller is not None
    topic = snapshot.topics["orders"]
    first = topic.partitions[0]
    assert (first.log_start_offset, first.high_watermark, first.record_count) == (0, 100, 100)
    assert first.log_ends == dict.fromkeys(first.replicas, 100)
    assert sorted(first.sizes) == sorted(first.replicas)
    assert (topic.partition_count, topic.replication_factor, topic.under_replicated) == (2, brokers, 0)
    (offset,) = snapshot.groups["readers"].offsets
    assert (offset.committed, offset.end, offset.lag) == (10, 100, 90)
    assert snapshot.groups["readers"].state == "Empty"
    for broker in snapshot.alive_brokers:
        assert broker.size_bytes is not None
        assert broker.size_bytes > 0
        assert broker.configs_reading.is_current
        assert broker.log_directories[0].total_bytes


def test_every_part_of_a_live_cluster_is_read(cluster: ProcessCluster, tmp_path: Path) -> None:
    async def run() -> None:
        async with watched(cluster.bootstrap, tmp_path) as watch:
            snapshot = await seen(watch, "every part", is_complete)
            check_complete(snapshot, brokers=3)
            assert snapshot.kind == "kavka"
            assert snapshot.topics["orders"].partitions[0].min_insync_replicas == 2
            await seen(watch, "decisions", lambda _: bool(watch.decisions.recent(topic="orders")))
            report = watch.health
            assert report.score is not None
            assert not report.is_critical, [str(each.evidence) for each in report.failed]

    asyncio.run(run())


def test_a_group_that_reads_and_commits_nothing_has_lag_in_what_it_was_assigned(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "silent", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])

    def is_assigned() -> bool:
        consumer.poll(0.1)
        return len(consumer.assignment()) == 2

    async def run() -> None:
        async with watched(cluster.bootstrap, tmp_path) as watch:
            snapshot = await seen(watch, "its lag", lambda s: "silent" in s.groups and bool(s.groups["silent"].lag))
            group = snapshot.groups["silent"]
            assert [(each.committed, each.lag) for each in group.offsets] == [(None, 100), (None, 0)]
            assert {each.member_id for each in group.offsets} == {group.members[0].member_id}

    try:
        eventually("the consumer has its partitions", is_assigned, timeout_s=60)
        asyncio.run(run())
    finally:
        consumer.close()


@pytest.mark.thorough
def test_a_broker_that_is_killed_is_seen_within_seconds_with_its_partitions_and_so_is_its_return(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    async def run() -> None:
        async with watched(cluster.bootstrap, tmp_path) as watch:
            await seen(watch, "three brokers", lambda s: is_complete(s) and len(s.alive_brokers) == 3)
            await asyncio.to_thread(cluster.kill, 2)
            killed = time.monotonic()
            snapshot = await seen(
                watch,
                "a broker gone",
                lambda s: 2 in s.brokers and not s.brokers[2].is_alive and s.counts.under_replicated > 0,
            )
            took_s = time.monotonic() - killed
            assert took_s < 10, f"seen after {took_s:.1f} s"
            assert all(2 in each.out_of_sync for each in snapshot.topics["orders"].partitions)
            failed = {result.check.name: result for result in watch.health.failed}
            assert "2" in {finding.name for finding in failed["brokers-alive"].findings}
            # On this thread: a process of the cluster ends with the thread that started it.
            cluster.start_broker(2)
            await seen(watch, "its return", lambda s: s.brokers[2].is_alive and not s.counts.under_replicated)
            now_ms = time.time_ns() // 1_000_000
            changes = await watch.history.isr_changes(topic="orders", since_ms=0, until_ms=now_ms)
            assert {2 in each.in_sync_before for each in changes} == {True, False}
            health = await watch.history.series(Series.HEALTH, since_ms=now_ms - 120_000, until_ms=now_ms)
            assert min(point.least for point in health) < 100

    asyncio.run(run())


@pytest.mark.thorough
def test_a_cluster_that_goes_away_is_shown_as_it_was_with_the_reason_and_comes_back(tmp_path: Path) -> None:
    async def run(broker: KavkaProcess) -> None:
        async with watched(broker.bootstrap, tmp_path / "console") as watch:
            before = await seen(watch, "every part", is_complete)
            await asyncio.to_thread(broker.kill)
            away = await seen(watch, "unreachable", lambda s: s.state is ClusterState.UNREACHABLE)
            assert "refused" in away.why or "no broker answers" in away.why
            assert away.topics["orders"].partitions[0].high_watermark == 100
            assert away.reading(Part.METADATA).read_at_ms >= before.reading(Part.METADATA).read_at_ms > 0
            assert away.reading(Part.METADATA).unknown_because
            assert watch.health.score == 0
            await asyncio.to_thread(broker.restart)
            back = await seen(watch, "its return", lambda s: s.is_reachable and s.reading(Part.OFFSETS).is_current)
            assert back.topics["orders"].partitions[0].high_watermark == 100

    with KavkaProcess(tmp_path / "broker") as broker:
        fill(broker.bootstrap, replicas=1)
        asyncio.run(run(broker))


@pytest.mark.thorough
def test_a_cluster_that_was_never_there_is_waited_for(tmp_path: Path) -> None:
    port = free_port()

    async def run() -> None:
        async with watched(f"127.0.0.1:{port}", tmp_path / "console") as watch:
            waiting = await seen(watch, "why", lambda s: bool(s.why))
            assert waiting.state is ClusterState.CONNECTING
            command = [
                sys.executable,
                "-m",
                "kavka.cli.main",
                "up",
                "--port",
                str(port),
                "--data",
                str(tmp_path / "data"),
            ]
            broker = await asyncio.to_thread(subprocess.Popen, command, stdout=subprocess.DEVNULL)
            try:
                await seen(watch, "the broker", lambda s: s.is_reachable and len(s.alive_brokers) == 1)
            finally:
                broker.kill()
                broker.wait()

    asyncio.run(run())


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON_S)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_open_pages_are_told_of_each_snapshot_and_prometheus_of_health_and_lag(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    settings = f'poll_ms = 500\n[[cluster]]\nname = "live"\nbootstrap = "{cluster.bootstrap}"\n'
    with ConsoleProcess(settings, tmp_path / "console") as console:
        deadline = time.monotonic() + SOON_S
        text = ""
        lag = 'kafka_consumergroup_lag{cluster="live",consumergroup="readers",topic="orders",partition="0"} 90'
        while lag not in text and time.monotonic() < deadline:
            _, text = get(console.port, "/metrics")
            time.sleep(0.2)
        assert lag in text
        assert 'kavka_health_check{cluster="live",check="controller",severity="critical"} 1' in text
        assert 'kafka_topic_partition_current_offset{cluster="live",topic="orders",partition="0"} 100' in text
        connection = http.client.HTTPConnection("127.0.0.1", console.port, timeout=SOON_S)
        connection.request("GET", "/c/live/live")
        stream = connection.getresponse()
        assert stream.headers["content-type"].startswith("text/event-stream")
        numbers = []
        while len(numbers) < 3:
            line = stream.readline().decode()
            if line.startswith("data: "):
                numbers.append(json.loads(line.removeprefix("data: "))["number"])
        assert numbers == sorted(numbers)
        assert numbers[-1] > numbers[0]
        connection.close()
        assert get(console.port, "/c/nobody/")[0] == 404
        assert get(console.port, "/c/nobody/live")[0] == 404


def test_health_and_top_tell_the_same_on_the_command_line(cluster: ProcessCluster) -> None:
    def run(*words: str) -> tuple[int, str]:
        done = run_alone(*words, "--bootstrap", cluster.bootstrap)
        return done.returncode, done.stdout.decode()

    status, text = run("health", "--json", "--fail-on", "critical")
    found = json.loads(text)
    assert (status, found["state"]) == (0, "reachable")
    assert {check["name"]: check["outcome"] for check in found["checks"]}["below-min-isr"] == "passed"
    status, text = run("top", "--once")
    assert status == 0
    assert "orders" in text
    assert "readers" in text
    # min.insync.replicas of the topic is 2: with 3 nobody may be restarted, which the check says and the status tells.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    for made in admin.create_topics([NewTopic("tight", 1, 3, config={"min.insync.replicas": "3"})]).values():
        made.result(30)
    wait_everywhere(cluster.bootstrap, "tight")
    status, text = run("health")
    assert status == 1
    assert "topic tight: min.insync.replicas is 3, of 3 replicas" in text
    for gone in admin.delete_topics(["tight"]).values():
        gone.result(30)


def test_health_of_a_cluster_that_is_not_there_ends_with_status_one() -> None:
    command = [sys.executable, "-m", "kavka.cli.main", "health", "--bootstrap", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1
    assert "no broker has answered" in done.stdout


def read_until(stream: object, words: str) -> str:
    for line in stream:  # type: ignore[attr-defined]  # a pipe
        if words in line:
            return str(line)
    raise AssertionError(f"no line with {words!r}")


@pytest.mark.parametrize("end", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.thorough)])
def test_kavka_up_starts_the_console_beside_its_brokers_and_it_ends_with_them(
    end: signal.Signals, tmp_path: Path
) -> None:
    metrics_port = free_port()
    words = ["up", "--port", "0", "--data", str(tmp_path / "data"), "--console-port", "0", "--json"]
    command = [sys.executable, "-m", "kavka.cli.main", *words, "--metrics-port", str(metrics_port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(read_until(process.stdout, '"event": "ready"'))
        console = json.loads(read_until(process.stdout, '"event": "console"'))
        assert ready["log_directories"]
        port = int(console["address"].rstrip("/").rpartition(":")[2])
        assert get(port, "/")[0] == 200
        status, text = get(metrics_port, "/metrics")
        assert status == 200
        assert "kafka_server_replicamanager_partitioncount" in text
        assert "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent" in text
        # The console beside a broker has the lowest priority: on a machine that is full it waits for its turn.
        deadline = time.monotonic() + 2 * SOON_S
        page = ""
        while "Metadata" not in page and time.monotonic() < deadline:
            page = get(port, "/c/local/brokers/1")[1]
            time.sleep(0.3)
        assert "Metadata" in page, "the broker's page does not show where its requests' time goes"
    finally:
        process.send_signal(end)
        process.wait(SOON_S)
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        try:
            get(port, "/")
        except OSError:
            return
        time.sleep(0.1)
    raise AssertionError("the console outlived its brokers")


@pytest.mark.thorough
@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("mode", "brokers"), [("zk", 3), ("kraft", 1)])
def test_every_part_of_apache_kafka_is_read_and_what_only_kavka_tells_says_so(
    mode: str, brokers: int, tmp_path: Path
) -> None:
    async def run(kafka: ApacheKafka) -> None:
        zookeeper = {"zookeeper": kafka.zookeeper} if mode == "zk" else {}
        async with watched(kafka.bootstrap, tmp_path / "console", **zookeeper) as watch:
            snapshot = await seen(watch, "every part", is_complete, within_s=60)
            check_complete(snapshot, brokers=brokers)
            assert snapshot.kind == "Apache Kafka"
            await seen(watch, "no decisions", lambda s: "Apache Kafka" in s.reading(Part.DECISIONS).unknown_because)
            await seen(watch, "transactions", lambda s: s.reading(Part.TRANSACTIONS).is_known)
            checks = {each.check.name: each for each in watch.health.results}
            assert checks["below-min-isr"].outcome.value == "passed"
            if mode == "zk":
                assert checks["zookeeper-leader"].outcome.value == "passed", checks["zookeeper-leader"].evidence
            assert (snapshot.quorum is not None) == (mode == "kraft"), "without ZooKeeper the quorum says who it is"
            assert checks["controller"].outcome.value == "passed", checks["controller"].evidence
            partition = snapshot.partition(TopicPartition("orders", 1))
            assert partition is not None
            assert partition.high_watermark == 0

    try:
        least = {"min.insync.replicas": str(min(brokers, 2))}
        kafka = ApacheKafka(tmp_path / mode, mode=mode, brokers=brokers, settings=least, heap=HEAP)
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka:
        fill(kafka.bootstrap, replicas=brokers)
        asyncio.run(run(kafka))
