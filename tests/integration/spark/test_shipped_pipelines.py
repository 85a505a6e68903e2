"""The pipelines that come with kavka, each on a live cluster where something went wrong: what they say is true."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import Message, Producer, TopicPartition

from kavka.testing import Cluster
from kavka_spark.pipelines.skew_plan import TOLERANCE
from pipeline_project import PipelineProject, last_figures
from topic_contents import contents

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as cluster:
        yield cluster


def test_isr_churn_tells_who_left_who_came_and_why(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("churned", partitions=3, replicas=3)
    cluster.create_topic("isr-churn", partitions=1, replicas=3)
    led = [partition for partition in range(3) if cluster.leader("churned", partition) == 2]
    cluster.kill(2)
    cluster.wait_until(lambda: all(2 not in cluster.isr("churned", each) for each in range(3)))
    cluster.start(2)
    cluster.wait_in_sync("churned")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1, "log_level": 2})
    follower = next(broker for broker in cluster.isr("churned", 0) if broker != cluster.leader("churned", 0))
    stays = cluster.leader("churned", 0)
    cluster.cut(follower, stays)
    while follower in cluster.isr("churned", 0):
        producer.produce("churned", b"x", partition=0)
        producer.flush(0.1)
        time.sleep(0.05)
    cluster.heal()
    cluster.wait_in_sync("churned")
    producer.flush(30)

    project = PipelineProject.of_example("isr-churn", tmp_path / "churn", cluster.bootstrap_servers)
    events = project.run("--set", "churn.window=1 second", "--set", "churn.lateness=1 second")

    changes = [row for row in project.rows("changes") if row["topic"] == "churned"]
    left = {(row["partition"], row["cause"]) for row in changes if row["change"] == "shrink" and row["broker"] == 2}
    assert {partition for partition, cause in left if cause == "offline election"} >= set(led)
    assert any(
        row["broker"] == follower and row["cause"].startswith("lag") for row in changes if row["change"] == "shrink"
    )
    elected = [row for row in changes if row["change"] == "election" and row["cause"] == "offline election"]
    assert {row["partition"] for row in elected} == set(led)
    assert {row["broker"] for row in changes if row["change"] == "expansion"} >= {2, follower}
    churn = [row for row in project.rows("churn") if row["topic"] == "churned"]
    for kind in ("shrink", "expansion", "election"):
        assert sum(row[f"{kind}s"] for row in churn) == sum(row["change"] == kind for row in changes)
    told = [json.loads(record.value or b"") for record in contents(cluster.bootstrap_servers, "isr-churn")]
    assert 0 < len(told) <= len(project.rows("churn"))
    assert last_figures(events, "finished_windows")["rows_out"] == len(told)


def test_the_audit_finds_what_is_lost_doubled_and_read_twice(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("audited", partitions=2, replicas=3)
    cluster.create_topic("audit-receipts", partitions=1, replicas=3)
    receipts: list[dict[str, object]] = []

    def acknowledged(error: object, message: Message) -> None:
        assert error is None
        [(_, identity)] = message.headers() or []
        receipts.append(_receipt("acknowledged", message.partition(), message.offset(), bytes(identity).decode()))

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    for number in range(60):
        identity = b"a-%d" % (number if number != 59 else 58)  # The last one is sent twice by its application.
        producer.produce(
            "audited", b"x", partition=number % 2, headers=[("audit-id", identity)], on_delivery=acknowledged
        )
        if number == 30:
            producer.flush(30)
            cluster.kill(cluster.leader("audited", 0))
    assert producer.flush(60) == 0
    # What an unclean election takes away looks just like this: a receipt, and nothing at its place.
    receipts.append(_receipt("acknowledged", 0, 1_000, "a-lost"))
    reader = RdConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "a", "log_level": 2})
    reader.assign([TopicPartition("audited", 0, 0), TopicPartition("audited", 1, 0)])
    read = [record for record in _read(reader, 60) if (record.partition(), record.offset()) != (1, 5)]
    receipts += [_receipt("consumed", record.partition(), record.offset(), "") for record in [*read, read[0]]]
    for receipt in receipts:
        producer.produce("audit-receipts", json.dumps(receipt))
    assert producer.flush(60) == 0
    cluster.restore()

    project = PipelineProject.of_example("audit", tmp_path / "audit", cluster.bootstrap_servers)
    project.run("--set", "audit.topics=audited")

    rows = project.rows("audit")
    sums = {name: sum(row[name] for row in rows) for name in rows[0] if isinstance(rows[0][name], int)}
    assert (sums["acknowledged"], sums["stored"], sums["consumed"]) == (61, 60, 59)
    assert (sums["lost"], sums["unread"], sums["stored_again"], sums["read_again"]) == (1, 1, 1, 1)
    suspects = {(row["id"], row["is_lost"], row["is_stored_again"]) for row in project.rows("suspects")}
    assert ("a-lost", True, False) in suspects
    assert any(identity == "a-58" and again for identity, _, again in suspects)


def _receipt(kind: str, partition: int | None, offset: int | None, identity: str) -> dict[str, object]:
    at_ms = time.time_ns() // 1_000_000
    place = {"topic": "audited", "partition": partition, "offset": offset}
    return {"kind": kind, **place, "id": identity, "at_ms": at_ms}


def _read(consumer: RdConsumer, count: int) -> list[Message]:
    found: list[Message] = []
    deadline = time.monotonic() + 60
    while len(found) < count:
        found += [record for record in consumer.consume(100, 0.5) if record.error() is None]
        assert time.monotonic() < deadline, f"{len(found)} of {count} were read"
    consumer.close()
    return found


def test_the_plan_for_a_skewed_topic_evens_the_brokers_out_once_it_is_executed(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("skewed", assignment={0: [1, 2], 1: [1, 2], 2: [1, 2], 3: [3, 1]})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    for number in range(400):
        producer.produce("skewed", b"x" * 1_000, b"hot" if number % 2 else b"k%d" % number, partition=number % 3)
    producer.produce("skewed", b"x" * 1_000, b"cold", partition=3)
    assert producer.flush(60) == 0

    project = PipelineProject.of_example("skew", tmp_path / "skew", cluster.bootstrap_servers)
    project.run("--set", "skew.topics=skewed")

    sizes = {row["partition"]: row["bytes"] for row in project.rows("partitions")}
    assert sum(row["records"] for row in project.rows("partitions")) == 401
    assert sizes[0] > 100 * 1_000 > sizes[3]
    assert project.rows("hot_keys")[0]["key"] == "hot"
    effects = {row["broker"]: row for row in project.rows("prediction")}
    held = [effects[broker]["bytes_after"] for broker in (1, 2, 3)]
    assert max(held) - min(held) < max(sizes.values()) + TOLERANCE * sum(held)
    assert effects[1]["bytes_before"] > 3 * effects[3]["bytes_before"]
    [file] = (project.directory / "storage" / "warehouse" / "reassignment").glob("part-*")
    for move in json.loads(file.read_text())["partitions"]:
        before = cluster.partition("skewed", move["partition"])
        assert len(set(move["replicas"])) == len(before.replicas)


def test_the_sweep_gives_what_the_simulator_gives(tmp_path: Path) -> None:
    from kavka.simulator.lag_outcome import Choice
    from kavka.simulator.lag_policy import run_workload
    from kavka.simulator.lag_workload import workloads

    project = PipelineProject.of_example("lag-policy", tmp_path / "sweep", "127.0.0.1:1")
    small = ["sweep.workloads=bursts,stuck-follower", "sweep.minutes=2", "sweep.seeds=2", "sweep.tasks=4"]
    few = ["sweep.times_ms=3000,10000", "sweep.messages=4000,40000"]
    project.run(*(word for text in (*small, *few) for word in ("--set", text)))

    rows = project.rows("outcomes")
    assert len(rows) == 2 * 4 * 2
    bursts = next(workload for workload in workloads(2) if workload.name == "bursts")
    expected = run_workload(bursts, Choice("messages", 10_000, 4_000), minutes=2, seed=1)
    [row] = [each for each in rows if (each["workload"], each["max_messages"], each["seed"]) == ("bursts", 4_000, 1)]
    assert (row["false_alarms"], row["shrinks"]) == (expected.false_alarms, expected.shrinks)
    assert expected.false_alarms > 0, "bursts make healthy followers flap under messages"
    assert project.rows("verdicts")[0]["policy"] == "time"


def test_streams_are_joined_and_sessions_end_when_nobody_clicks(cluster: Cluster, tmp_path: Path) -> None:
    for topic in ("shown", "clicked"):
        cluster.create_topic(topic, partitions=1, replicas=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})

    def tell(topic: str, clock: str, user: str, ad: str) -> None:
        producer.produce(topic, json.dumps({"at": f"2026-01-01T{clock}Z", "user": user, "ad": ad}))

    for clock, user, ad in (("10:00:00", "ann", "a"), ("10:01:00", "bob", "a"), ("10:02:00", "ann", "b")):
        tell("shown", clock, user, ad)
    for clock, user, ad in (("10:05:00", "ann", "a"), ("10:25:00", "ann", "c"), ("11:30:00", "bob", "a")):
        tell("clicked", clock, user, ad)
    # Far later: what came before is over.
    tell("shown", "20:00:00", "zoe", "z")
    tell("clicked", "20:00:00", "zoe", "y")
    assert producer.flush(60) == 0

    project = PipelineProject.of_example("clicks", tmp_path / "clicks", cluster.bootstrap_servers)
    project.run("--set", "spark.sql.session.timeZone=UTC")

    joined = {(row["user"], row["ad"]): row["clicked_at"] for row in project.rows("shown_and_clicked")}
    assert joined["ann", "a"].hour == 10
    assert joined["ann", "b"] is None
    assert joined["bob", "a"] is None, "an hour and a half later is too late"
    sessions = {row["user"]: row["clicks"] for row in project.rows("sessions")}
    assert sessions == {"ann": 2, "bob": 1}


def test_fsck_finds_the_batch_that_a_disk_changed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("checked", partitions=1, replicas=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    for number in range(50):
        producer.produce("checked", b"%d" % number * 100)
    assert producer.flush(60) == 0
    cluster.wait_in_sync("checked")
    originals = sorted(path.parent for path in cluster.directory.rglob("meta.properties"))
    copies = [shutil.copytree(path, tmp_path / f"copy-{number}") for number, path in enumerate(originals)]
    segment = next(copies[1].glob("checked-0/*.log"))
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)

    project = PipelineProject.of_example("fsck", tmp_path / "fsck", "127.0.0.1:1")
    directories = ",".join(map(str, copies))
    project.run("--set", f"fsck.directories={directories}", "--set", "fsck.topics=checked")

    errors = [row for row in project.rows("findings") if row["severity"] == "error"]
    assert {(row["topic"], row["partition"], row["kind"]) for row in errors} >= {("checked", 0, "crc")}
    assert {row["file"] for row in errors if row["kind"] == "crc"} == {str(segment)}
    assert sum(row["findings"] for row in project.rows("per_partition")) == len(project.rows("findings"))
