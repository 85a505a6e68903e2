"""Rows of clusters: what is measured of three brokers. A group is one life of a cluster on a fresh directory.

It must not know which candidates there are. Every time that ends with an acknowledgement is one that a client sees:
librdkafka's, with its default back-offs.
"""

from __future__ import annotations

import contextlib
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]  # exported in fact
from tests.apache_kafka import run_tool
from tests.kit.broker_client import BrokerClient, Closed, batch
from tests.kit.kavka_process import CpuSeconds

from benchmarks import load_generator
from benchmarks.cluster_candidates import BROKERS, ClusterCandidate, cpu_of, memory_of
from benchmarks.rows import (
    BYTES_OF_A_RECORD_BESIDE_ITS_VALUE,
    CLIENT_BYTES,
    ONE_AT_A_TIME,
    PRODUCE,
    Measurement,
    touch_page_cache,
)
from benchmarks.share_load import ShareLoad
from kavka.protocol.messages import MetadataRequest
from kavka.protocol.messages.metadata_request import MetadataRequestTopic

IDLE_S = 5.0
PARTITIONS_UNDER_FAULT = 6
FAULT_TIMEOUT_S = 60.0
HELD = 10
MANY, VERY_MANY, TOPICS_OF_VERY_MANY = 1000, 10_000, 10
VERY_MANY_TIMEOUT_S = 400.0


class ClusterSizes(NamedTuple):
    """How many operations each row does."""

    records_1k: int = 200_000
    java_records: int = 100_000
    latencies: int = 4_000

    def divided(self, divisor: int) -> ClusterSizes:
        return ClusterSizes(*(count // divisor for count in self))


class ClusterLife(NamedTuple):
    """A cluster that runs in a directory, with what its start cost."""

    cluster: ClusterCandidate
    directory: Path
    all_answer_s: float
    sizes: ClusterSizes

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap


ClusterGroup = Callable[[ClusterLife], Iterator[Measurement]]


def live(cluster: ClusterCandidate, directory: Path, group: ClusterGroup, sizes: ClusterSizes) -> Iterator[Measurement]:
    """Start the cluster on a fresh directory, measure a group, end it."""
    try:
        all_answer_s = cluster.start(directory)
        yield from group(ClusterLife(cluster, directory, all_answer_s, sizes))
    finally:
        cluster.stop()


# ---------------------------------------------------------------------------------------------------------- steady


def startup(life: ClusterLife) -> Iterator[Measurement]:
    """Launch of three brokers until all answer with all three; then what they cost that have nothing to do."""
    yield Measurement(
        "cluster_startup", {"all_answer_s": life.all_answer_s, "brokers_cpu_s": sum(cpu_of(life.cluster))}
    )
    time.sleep(IDLE_S)
    before = sum(cpu_of(life.cluster))
    time.sleep(IDLE_S)
    percent = (sum(cpu_of(life.cluster)) - before) / IDLE_S * 100
    resident_mb = memory_of(life.cluster) / 2**20
    yield Measurement("cluster_idle", {"resident_mb": resident_mb, "cpu_percent": percent})
    yield Measurement(
        "cluster_in_one_process",
        life.cluster.in_one_process() or {"all_answer_s": life.all_answer_s, "resident_mb": resident_mb},
    )


def throughput(life: ClusterLife) -> Iterator[Measurement]:
    """Replication factor 3, acks=all, 1 KiB: librdkafka's default batches, and Java's of 16 KiB."""
    records = life.sizes.records_1k
    settings = {**PRODUCE, "acks": "all"}
    load_generator.run("produce", life.bootstrap, _new_topic(life, "warm"), records // 3, size=1024, settings=settings)
    topic = _new_topic(life, "produce")
    touch_page_cache(life.directory, BROKERS * records * (1024 + BYTES_OF_A_RECORD_BESIDE_ITS_VALUE) + CLIENT_BYTES)
    before = cpu_of(life.cluster)
    load = load_generator.run("produce", life.bootstrap, topic, records, size=1024, settings=settings)
    figures = {"megabytes_per_s": load.bytes / load.seconds / 2**20}
    yield Measurement("cluster_produce_1k", {**figures, **_cpu(life, before, records)})

    records = life.sizes.java_records
    topic = _new_topic(life, "java")
    _java_produce(life, topic, records // 2)
    before = cpu_of(life.cluster)
    figures = {"megabytes_per_s": _java_produce(life, topic, records)}
    yield Measurement("cluster_produce_1k_java", {**figures, **_cpu(life, before, records)})
    yield Measurement("cluster_after_load", {"resident_mb": memory_of(life.cluster) / 2**20})


def latency(life: ClusterLife) -> Iterator[Measurement]:
    """One record at a time, replication factor 3, acks=all."""
    settings, operations = {**ONE_AT_A_TIME, "acks": "all"}, life.sizes.latencies
    topic = _new_topic(life, "latency")
    load_generator.run("latency", life.bootstrap, topic, operations // 2, settings=settings)
    before = cpu_of(life.cluster)
    load = load_generator.run("latency", life.bootstrap, topic, operations, settings=settings)
    assert load.p50_us is not None
    assert load.p99_us is not None
    figures = {"p50_ms": load.p50_us / 1000, "p99_ms": load.p99_us / 1000}
    yield Measurement("cluster_latency", {**figures, **_cpu(life, before, operations)})


def _cpu(life: ClusterLife, before: CpuSeconds, operations: int) -> dict[str, float]:
    used = cpu_of(life.cluster) - before
    return {
        "brokers_cpu_s_per_million": sum(used) / operations * 1e6,
        "brokers_user_s_per_million": used.user / operations * 1e6,
        "brokers_system_s_per_million": used.system / operations * 1e6,
    }


def _java_produce(life: ClusterLife, topic: str, records: int) -> float:
    configuration = [f"bootstrap.servers={life.bootstrap}", "acks=all", "linger.ms=5", "batch.size=16384"]
    arguments = ["--topic", topic, "--num-records", str(records), "--record-size", "1024", "--throughput", "-1"]
    printed = run_tool("kraft", "producer-perf-test", *arguments, "--producer-props", *configuration)
    found = re.findall(r"(\d+) records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\)", printed)
    if not found or int(found[-1][0]) != records:
        raise load_generator.LoadFailed(f"ProducerPerformance did not send {records} records: {printed[-500:]}")
    return float(found[-1][1])


# ---------------------------------------------------------------------------------------------------------- faults


def failover(life: ClusterLife) -> Iterator[Measurement]:
    """kill -9 of a broker that is not the controller, then of the controller's; and their way back into the ISR."""
    for row, is_controller in (("cluster_failover", False), ("cluster_failover_controller", True)):
        topic = _new_topic(life, row.replace("_", "-"), partitions=PARTITIONS_UNDER_FAULT)
        _wait_for_full_isr(life, topic)
        controller = life.cluster.controller()
        victim = controller if is_controller else next(one for one in _broker_ids(life) if one != controller)
        with _Load(life, topic) as load:
            time.sleep(2)
            led = _led_by(life, topic, victim)
            ports = [port for broker_id, port in _ports(life).items() if broker_id != victim]
            killed_at = life.cluster.kill(victim)
            taken_s = _taken_by_new_leaders(topic, led, victim, ports, killed_at)
            times = load.first_acknowledgements_after(killed_at)
            time.sleep(1)
            restarted_at = time.perf_counter()
            life.cluster.start_broker(victim)
            _wait_for_full_isr(life, topic)
            in_sync_s = time.perf_counter() - restarted_at
        others = [seconds for partition, seconds in times.items() if partition not in led]
        figures = {
            "all_acknowledge_s": max(times.values()),
            "median_partition_s": statistics.median(times.values()),
            "new_leaders_take_records_s": taken_s,
            "led_by_it_s": max(times[partition] for partition in led),
            "not_led_by_it_s": max(others),
            "full_isr_after_restart_s": in_sync_s,
            "errors": float(load.errors),
        }
        yield Measurement(row, figures)


def _taken_by_new_leaders(topic: str, led: set[int], victim: int, ports: list[int], killed_at: float) -> float:
    """Seconds until every partition that the victim led acknowledges acks=all to a client without back-offs of its own,
    which asks the living for the leader every few milliseconds."""
    waiting = set(led)
    while waiting:
        if time.perf_counter() > killed_at + FAULT_TIMEOUT_S:
            raise load_generator.LoadFailed(f"partitions {sorted(waiting)} have no new leader in {FAULT_TIMEOUT_S} s")
        with contextlib.suppress(OSError, Closed, KeyError), BrokerClient(ports[0], timeout_s=5) as client:
            answer = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
            port_of = {one.node_id: one.port for one in answer.brokers}
            for one in answer.topics[0].partitions:
                if one.partition_index in waiting and one.leader_id not in (victim, -1):
                    with BrokerClient(port_of[one.leader_id], timeout_s=5) as leader:
                        produced = leader.produce(topic, bytes(batch(b"x")), partition=one.partition_index)
                    if produced.error_code == 0:
                        waiting.discard(one.partition_index)
        time.sleep(0.005)
    return time.perf_counter() - killed_at


class _Load:
    """A record to every partition about 100 times a second, acks=all; every acknowledgement's time is kept."""

    def __init__(self, life: ClusterLife, topic: str) -> None:
        settings = {"bootstrap.servers": life.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        self._producer = Producer({**settings, "socket.nagle.disable": True, "log_level": 0})
        self._topic = topic
        self._stopping = threading.Event()
        self._acknowledged: list[tuple[int, float, float]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors = 0

    def _run(self) -> None:
        while not self._stopping.is_set():
            sent_at = time.perf_counter()

            def on_delivery(error: KafkaError | None, message: Message, sent_at: float = sent_at) -> None:
                partition = message.partition()
                if error is None and partition is not None:
                    self._acknowledged.append((partition, sent_at, time.perf_counter()))
                else:
                    self.errors += 1

            for partition in range(PARTITIONS_UNDER_FAULT):
                self._producer.produce(self._topic, b"x" * 100, partition=partition, on_delivery=on_delivery)
            until = sent_at + 0.01
            while (left := until - time.perf_counter()) > 0:
                self._producer.poll(left)
        self._producer.flush(FAULT_TIMEOUT_S)

    def first_acknowledgements_after(self, moment: float) -> dict[int, float]:
        """By partition: the seconds from the moment to the first acknowledgement of a record that was sent after it."""
        first: dict[int, float] = {}
        seen = 0
        while len(first) < PARTITIONS_UNDER_FAULT:
            if time.perf_counter() > moment + FAULT_TIMEOUT_S:
                raise load_generator.LoadFailed(f"only partitions {sorted(first)} took records in {FAULT_TIMEOUT_S} s")
            time.sleep(0.02)
            new = self._acknowledged[seen:]
            seen += len(new)
            for partition, sent_at, acknowledged_at in new:
                if sent_at > moment:
                    first.setdefault(partition, acknowledged_at - moment)
        return first

    def __enter__(self) -> _Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def share_failover(life: ClusterLife) -> Iterator[Measurement]:
    """kill -9 of the leader of a partition whose records a member of a share group has; another member waits."""
    if life.cluster.name == "zk":  # It has share groups in KRaft mode only.
        return
    controller = life.cluster.controller()
    with ShareLoad(life.bootstrap) as load:
        topic, victim = _led_by_another(life, controller)
        load_generator.run("produce", life.bootstrap, topic, HELD, settings={**PRODUCE, "acks": "all"})
        load.ask("hold", topic, "held")
        killed_at = time.time()
        life.cluster.kill(victim)
        yield Measurement("cluster_share_failover", {"first_redelivery_s": load.ask("redelivered")["at_s"] - killed_at})


def _led_by_another(life: ClusterLife, controller: int) -> tuple[str, int]:
    """A topic of one partition that the controller does not lead, and who does."""
    for number in range(20):
        topic = _new_topic(life, f"held-{number}")
        (leader,) = (one.leader for one in _admin(life).list_topics(topic, 10).topics[topic].partitions.values())
        if leader != controller:
            return topic, leader
    raise load_generator.LoadFailed("the controller leads every partition")


# ------------------------------------------------------------------------------------------------ many partitions


def partitions(life: ClusterLife) -> Iterator[Measurement]:
    """A topic of 1,000 partitions, replication factor 3."""
    memory, cpu = memory_of(life.cluster), cpu_of(life.cluster)
    answered_s, usable_s = _create_many(life, ["many"], MANY)
    time.sleep(2)
    used = cpu_of(life.cluster) - cpu
    figures = {
        "answered_s": answered_s,
        "every_log_answers_s": usable_s,
        "kb_per_replica": (memory_of(life.cluster) - memory) / 1024 / MANY / BROKERS,
        "brokers_user_s": used.user,
        "brokers_system_s": used.system,
    }
    yield Measurement("cluster_partitions_1000", figures)


def very_many(life: ClusterLife) -> Iterator[Measurement]:
    """10,000 partitions, replication factor 3, in ten topics; then kill -9 of the controller's broker."""
    memory = memory_of(life.cluster)
    topics = [f"many-{number}" for number in range(TOPICS_OF_VERY_MANY)]
    answered_s, usable_s = _create_many(life, topics, VERY_MANY // TOPICS_OF_VERY_MANY)
    time.sleep(5)
    figures = {
        "answered_s": answered_s,
        "every_log_answers_s": usable_s,
        "resident_mb": memory_of(life.cluster) / 2**20,
        "kb_per_replica": (memory_of(life.cluster) - memory) / 1024 / VERY_MANY / BROKERS,
    }
    controller = life.cluster.controller()
    killed_at = life.cluster.kill(controller)
    _wait_for_leaders(life, topics, without=controller)
    figures["controller_failover_s"] = time.perf_counter() - killed_at
    yield Measurement("cluster_partitions_10000", figures)


def _create_many(life: ClusterLife, topics: list[str], count: int) -> tuple[float, float]:
    """Seconds until the last CreateTopics is answered, and until every log answers ListOffsets."""
    admin = _admin(life)
    admin.describe_cluster(request_timeout=10).result()  # connected, before the clock starts
    time.sleep(2)
    started_at = time.perf_counter()
    for topic in topics:
        new = NewTopic(topic, count, BROKERS)
        try:
            admin.create_topics([new], operation_timeout=120, request_timeout=130)[topic].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.REQUEST_TIMED_OUT:  # it is being made all the same
                raise
    answered_s = time.perf_counter() - started_at
    for topic in topics:
        missing = list(range(count))
        while missing := _not_answering(admin, topic, missing):
            if time.perf_counter() - started_at > VERY_MANY_TIMEOUT_S:
                raise load_generator.LoadFailed(f"{len(missing)} logs of {topic} do not answer ListOffsets")
            time.sleep(0.02)
    return answered_s, time.perf_counter() - started_at


def _not_answering(admin: AdminClient, topic: str, wanted: list[int]) -> list[int]:
    specification = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the package has no types here
    latest = {TopicPartition(topic, partition): specification for partition in wanted}
    answers = admin.list_offsets(latest, request_timeout=30)
    return [one.partition for one, future in answers.items() if future.exception() is not None]


def _wait_for_leaders(life: ClusterLife, topics: list[str], *, without: int) -> None:
    """Until Metadata of every partition names a leader that is not the dead broker."""
    admin, deadline = _admin(life), time.perf_counter() + VERY_MANY_TIMEOUT_S
    for topic in topics:
        while True:
            try:
                found = admin.list_topics(topic, 10).topics[topic].partitions.values()
                if found and all(one.leader not in (without, -1) for one in found):
                    break
            except KafkaException:
                pass  # the client asked the dead one
            if time.perf_counter() > deadline:
                raise load_generator.LoadFailed(f"not all of {topic} has a live leader")
            time.sleep(0.02)


# ---------------------------------------------------------------------------------------------------------- topics


def _admin(life: ClusterLife) -> AdminClient:
    return AdminClient({"bootstrap.servers": life.bootstrap, "log_level": 0})


def _new_topic(life: ClusterLife, name: str, *, partitions: int = 1) -> str:
    admin = _admin(life)
    new = NewTopic(name, partitions, BROKERS, config={"min.insync.replicas": "2"})
    admin.create_topics([new], operation_timeout=30)[name].result()
    _wait_for_full_isr(life, name)
    return name


def _wait_for_full_isr(life: ClusterLife, topic: str) -> None:
    admin, deadline = _admin(life), time.perf_counter() + FAULT_TIMEOUT_S
    while time.perf_counter() < deadline:
        try:
            found = admin.list_topics(topic, 5).topics[topic].partitions.values()
            if found and all(len(one.isrs) == BROKERS and one.leader >= 0 for one in found):
                return
        except KafkaException:
            pass  # the client asked the dead one
        time.sleep(0.02)
    raise load_generator.LoadFailed(f"{topic}: not all replicas in sync in {FAULT_TIMEOUT_S} s")


def _led_by(life: ClusterLife, topic: str, broker_id: int) -> set[int]:
    found = _admin(life).list_topics(topic, 10).topics[topic].partitions
    return {partition for partition, one in found.items() if one.leader == broker_id}


def _ports(life: ClusterLife) -> dict[int, int]:
    return {one.id: one.port for one in _admin(life).list_topics(timeout=10).brokers.values()}


def _broker_ids(life: ClusterLife) -> list[int]:
    return sorted(_admin(life).list_topics(timeout=10).brokers)


CLUSTER_GROUPS: dict[str, ClusterGroup] = {
    "startup": startup,
    "throughput": throughput,
    "latency": latency,
    "failover": failover,
    "share": share_failover,
    "partitions": partitions,
    "very_many": very_many,
}
LONG = ("very_many",)
"""Groups that take minutes: who does not complete one is not asked again in the next round."""
