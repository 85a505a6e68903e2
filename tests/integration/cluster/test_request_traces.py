"""Slow requests on three brokers: the stage and the broker that a fault made slow are the ones that are named."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from kavka.decisions import RING_FILES as DECISION_RINGS
from kavka.decisions import RING_MARK, DecisionKind, decode_decision
from kavka.testing import Cluster
from kavka.traces import RING_FILES, RequestTrace, Stage, decode_trace, verdict
from tests.kit.command_line import run_alone

SLOW_MS = 400


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"kavka.slow.request.ms": SLOW_MS, "kavka.request.trace.sample": 1}
    with Cluster(brokers=3, settings=settings) as running:
        yield running


def lines(cluster: Cluster, broker_id: int, names: tuple[str, str]) -> list[bytes]:
    found: list[bytes] = []
    for name in names:
        for path in (cluster.directory / f"broker-{broker_id}").rglob(name):
            found += [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return found


TIMES = 3
"""The cause of a stall is one look at the loop. Here all brokers are threads of one process: on a busy machine that
look may come when the disk is done, and the loop waits for its turn."""


def traces(cluster: Cluster, broker_id: int, topic: str) -> list[RequestTrace]:
    """Of the Produce requests that the broker has kept."""
    found = [decode_trace(line) for line in lines(cluster, broker_id, RING_FILES)]
    return [each for each in found if each.api == "Produce" and each.partitions and each.partitions[0].topic == topic]


def told(cluster: Cluster, broker_id: int) -> set[tuple[object, object, int | None]]:
    """API, stage and broker of the why-records. One stands for a minute, so it may be of an earlier request: on a busy
    machine any request may be slow."""
    kept = [line for line in lines(cluster, broker_id, DECISION_RINGS) if not line.startswith(RING_MARK)]
    found = [decode_decision(line).decision for line in kept]
    slow = [each for each in found if each.kind is DecisionKind.REQUEST_SLOW]
    return {(each.evidence.get("api"), each.evidence.get("stage"), each.about_broker) for each in slow}


def run(cluster: Cluster, *words: str) -> str:
    ended = run_alone(*words, KAVKA_BOOTSTRAP=cluster.bootstrap_servers)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


def produce(cluster: Cluster, topic: str, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "app", "acks": "all", **settings})
    producer.produce(topic, b"value")
    assert producer.flush(30) == 0


def the_trace(cluster: Cluster, topic: str) -> RequestTrace:
    leader = cluster.leader(topic)
    cluster.wait_until(lambda: traces(cluster, leader, topic))
    return traces(cluster, leader, topic)[-1]


def test_a_sampled_record_tells_when_each_replica_had_it(cluster: Cluster) -> None:
    cluster.create_topic("sampled")
    produce(cluster, "sampled")
    trace, leader = the_trace(cluster, "sampled"), cluster.leader("sampled")
    assert trace.sampled
    assert trace.broker_id == leader
    assert (trace.partitions[0].first_offset, trace.partitions[0].end_offset) == (0, 1)
    assert {step.broker_id for step in trace.followers} == {1, 2, 3} - {leader}
    last_us = max(step.fetched_us for step in trace.followers)
    assert 0 <= trace.partitions[0].appended_us <= last_us <= trace.committed_us <= trace.stages.total


def test_a_record_is_followed_from_its_producer_to_its_group(cluster: Cluster) -> None:
    cluster.create_topic("followed")
    for _ in range(3):
        produce(cluster, "followed")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["followed"])
    assert len(consumer.consume(3, 30)) == 3
    consumer.commit(asynchronous=False)
    consumer.close()
    leader = cluster.leader("followed")
    cluster.wait_until(lambda: len(traces(cluster, leader, "followed")) == 3)
    way = json.loads(run(cluster, "trace", "followed-0@1", "--json"))
    assert way["unknown"] == []
    own = [step for step in way["steps"] if step["what"] != "fetched"]
    whats = [step["what"] for step in own]
    assert whats == ["received", "appended", "replicated", "replicated", "committed", "answered", "read"]
    assert own[-1]["text"] == "group billing committed offset 3, and had read it by then"
    apart = json.loads(run(cluster, "trace", "followed-0@1", "--json", "--data", str(cluster.directory)))
    assert [step for step in apart["steps"] if step["what"] != "fetched"] == own[:-1]
    assert apart["unknown"] == ["which group read it: no cluster was asked"]


def test_a_paused_follower_is_named(cluster: Cluster) -> None:
    cluster.create_topic("paused")
    leader = cluster.leader("paused")
    follower = next(each for each in (1, 2, 3) if each != leader)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "app", "acks": "all"})
    producer.list_topics("paused")
    cluster.pause(follower)
    producer.produce("paused", b"value")
    producer.poll(2 * SLOW_MS / 1000)
    time.sleep(2 * SLOW_MS / 1000)
    cluster.resume(follower)
    assert producer.flush(30) == 0
    found = verdict(the_trace(cluster, "paused"))
    assert (found.stage, found.broker_id) == (Stage.REMOTE, follower)
    cluster.wait_until(lambda: ("Produce", "remote", follower) in told(cluster, leader))
    way = json.loads(run(cluster, "trace", "paused-0@0", "--json"))
    assert (way["dominant"]["stage"], way["dominant"]["broker"]) == ("remote", follower)
    steps = {step["what"]: step for step in way["steps"]}
    assert "client app" in steps["received"]["text"]
    assert [step["text"].split()[1] for step in way["steps"] if step["what"] == "replicated"][-1] == str(follower)
    assert steps["committed"]["at_ms"] - steps["received"]["at_ms"] > SLOW_MS


def test_a_follower_with_a_slow_disk_is_named(cluster: Cluster) -> None:
    cluster.create_topic("slow-follower")
    leader = cluster.leader("slow-follower")
    follower = next(each for each in (1, 2, 3) if each != leader)
    cluster.slow_disk(follower, 1.5 * SLOW_MS)
    try:
        produce(cluster, "slow-follower")
    finally:
        cluster.slow_disk(follower, 0)
        cluster.restore()  # Its session may have ended.
    found = verdict(the_trace(cluster, "slow-follower"))
    assert (found.stage, found.broker_id) == (Stage.REMOTE, follower)


def test_a_leader_with_a_slow_disk_is_named_and_not_the_follower_that_it_made_wait(cluster: Cluster) -> None:
    causes = (slowed_leader(cluster, f"slow-leader-{number}") for number in range(TIMES))
    assert any(cause.startswith("kavka.testing.life.use_disk") for cause in causes)


def slowed_leader(cluster: Cluster, topic: str) -> str:
    """What the stall of a leader with a slow disk is put down to."""
    cluster.create_topic(topic)
    leader = cluster.leader(topic)
    cluster.slow_disk(leader, 0.5 * SLOW_MS)  # Each write and each read for a follower; its lead survives that.
    try:
        produce(cluster, topic)
    finally:
        cluster.slow_disk(leader, 0)
        cluster.restore()
    cluster.wait_until(lambda: traces(cluster, leader, topic))
    trace = traces(cluster, leader, topic)[0]
    found = verdict(trace)
    assert found.broker_id == leader, trace
    assert "stood still" in found.why
    return trace.stall_cause


def test_a_client_over_its_quota_is_told_apart_from_a_slow_broker(cluster: Cluster) -> None:
    cluster.create_topic("throttled", replicas=1)
    leader = cluster.leader("throttled")
    run(cluster, "quotas", "set", "--client-id", "greedy", "--produce", "20000")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "greedy", "acks": "all"})

    def is_delayed() -> bool:
        producer.produce("throttled", bytes(15_000))
        assert producer.flush(30) == 0
        return any(each.stages.throttle for each in traces(cluster, leader, "throttled"))

    cluster.wait_until(is_delayed)
    delayed = next(each for each in traces(cluster, leader, "throttled") if each.stages.throttle)
    found = verdict(delayed)
    assert (found.stage, found.broker_id, delayed.client_id) == (Stage.THROTTLE, leader, "greedy")


def test_why_slow_names_stages_and_brokers_from_any_broker(cluster: Cluster) -> None:
    """After the tests above."""
    cluster.wait_until(lambda: "request slow" in run(cluster, "why", "slow"))
    told = run(cluster, "why", "slow")
    assert "in stage remote: broker" in told
    summary = told.split("which broker was waited for:")[1]
    assert re.search(r"remote, broker \d  \(.*\bProduce\b", summary), summary
