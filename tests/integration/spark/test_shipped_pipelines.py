"""The pipelines that come with kavka, each on a live cluster where something went wrong: what they say is true."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import Message, Producer, TopicPartition
from crc32c import crc32c

from kavka.records.batch import CRC_START, LENGTH_PREFIX_SIZE, read_header
from kavka.testing import Cluster
from kavka_spark.pipelines.skew_plan import TOLERANCE
from tests.kit.pipeline_project import PipelineProject, last_figures
from tests.kit.topic_contents import contents

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

PARTS = {"yaml": "pipeline.yml", "python": "transformations/orders.py", "sql": "transformations/daily.sql"}


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
    # Records that only a leader has are lost when it dies and another is allowed to lead: that is real here.
    cluster.create_topic(
        "audited", assignment={0: [1, 2], 1: [2, 3]}, settings={"unclean.leader.election.enable": True}
    )
    cluster.create_topic("audit-receipts", partitions=1, replicas=3)
    receipts: list[dict[str, object]] = []

    def acknowledged(identity: str, error: object, message: Message) -> None:
        assert error is None
        receipts.append(_receipt("acknowledged", message.partition(), message.offset(), identity))

    def produce(producer: Producer, partition: int, identity: str) -> None:
        headers = [("audit-id", identity.encode())]
        told = partial(acknowledged, identity)
        producer.produce("audited", b"x", partition=partition, headers=headers, on_delivery=told)

    all_of_them = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    for number in range(60):
        produce(all_of_them, number % 2, f"a-{number if number != 59 else 58}")  # Its application sends one twice.
    assert all_of_them.flush(60) == 0

    hasty = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1, "log_level": 2})
    cluster.cut(1, 2)
    stranded = 0
    while 2 in cluster.isr("audited", 0):
        produce(hasty, 0, f"stranded-{stranded}")
        assert hasty.flush(30) == 0
        stranded += 1
        time.sleep(0.05)
    cluster.kill(1)
    cluster.heal()
    cluster.wait_until(lambda: cluster.leader("audited", 0) == 2)
    for number in range(5):
        produce(all_of_them, 0, f"later-{number}")
    assert all_of_them.flush(60) == 0
    cluster.restore()

    reader = RdConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "a", "log_level": 2})
    ends = [TopicPartition("audited", partition, cluster.high_watermark("audited", partition)) for partition in (0, 1)]
    reader.assign([TopicPartition("audited", 0, 0), TopicPartition("audited", 1, 0)])
    records = _read(reader, sum(end.offset for end in ends))
    stored = [dict(record.headers() or [])["audit-id"].decode() for record in records]
    lost = {f"stranded-{number}" for number in range(stranded)} - set(stored)
    assert lost, "what the dead leader alone had is gone"
    read = [record for record in records if (record.partition(), record.offset()) != (1, 5)]
    receipts += [_receipt("consumed", record.partition(), record.offset(), "") for record in [*read, read[0]]]
    for receipt in receipts:
        all_of_them.produce("audit-receipts", json.dumps(receipt))
    assert all_of_them.flush(60) == 0

    project = PipelineProject.of_example("audit", tmp_path / "audit", cluster.bootstrap_servers)
    project.run("--set", "audit.topics=audited")

    rows = project.rows("audit")
    sums = {name: sum(row[name] for row in rows) for name in rows[0] if isinstance(rows[0][name], int)}
    assert (sums["acknowledged"], sums["stored"], sums["consumed"]) == (65 + stranded, len(stored), len(read))
    assert (sums["lost"], sums["unread"], sums["stored_again"], sums["read_again"]) == (len(lost), 1, 1, 1)
    suspects = project.rows("suspects")
    assert {row["id"] for row in suspects if row["is_lost"]} == lost
    assert [row["id"] for row in suspects if row["is_stored_again"]] == ["a-58"]
    assert len([row for row in suspects if row["times_read_again"]]) == 1


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
        if number == 200:
            cluster.kill(2)
    producer.produce("skewed", b"x" * 1_000, b"cold", partition=3)
    assert producer.flush(60) == 0
    cluster.restore()

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
    plan = {move["partition"]: move["replicas"] for move in json.loads(file.read_text())["partitions"]}
    before = {partition: cluster.partition("skewed", partition).replicas for partition in plan}
    assert all(len(set(plan[partition])) == len(before[partition]) for partition in plan)

    kavka = [sys.executable, "-m", "kavka.cli.main", "reassign", "execute", str(file), "-b", cluster.bootstrap_servers]
    subprocess.run(kavka, check=True, timeout=200)
    cluster.wait_until(lambda: all(list(cluster.partition("skewed", each).replicas) == plan[each] for each in plan))
    predicted = {row["broker"]: (row["bytes_after"], row["led_bytes_after"]) for row in project.rows("prediction")}
    project.run("--set", "skew.topics=skewed")
    found = {row["broker"]: (row["bytes_before"], row["led_bytes_before"]) for row in project.rows("prediction")}
    assert found == predicted, "what was said before the moves is what is there after them"


def test_the_sweep_gives_what_the_simulator_gives(tmp_path: Path) -> None:
    from kavka.studies.lag_outcome import Choice
    from kavka.studies.lag_policy import run_workload
    from kavka.studies.lag_workload import workloads

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

    def tell(topic: str, clock: str, user: str, ad: str, day: int = 1) -> None:
        producer.produce(topic, json.dumps({"at": f"2026-01-{day:02}T{clock}Z", "user": user, "ad": ad}))

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

    # The same definitions as one long session, from the state that the run left.
    tell("shown", "08:00:00", "dan", "d", day=2)
    for clock in ("08:10:00", "08:20:00"):
        tell("clicked", clock, "dan", "d", day=2)
    for topic in ("shown", "clicked"):
        tell(topic, "20:00:00", "eve", topic, day=3)
    cluster.kill(cluster.leader("clicked"))
    assert producer.flush(60) == 0
    project.run("--set", "spark.sql.session.timeZone=UTC", "--continuous", "--for", "45s")
    cluster.restore()

    clicked = [(row["user"], row["ad"], row["clicked_at"]) for row in project.rows("shown_and_clicked")]
    assert sorted(at.minute for user, _, at in clicked if user == "dan") == [10, 20]
    assert ("zoe", "z", None) in clicked
    assert len(clicked) == 3 + 2 + 1
    assert {row["user"]: row["clicks"] for row in project.rows("sessions")} == {**sessions, "zoe": 1, "dan": 2}
    assert len(project.rows("sessions")) == 4


def _orders(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2, replicas=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    for number in range(100):
        order = {"id": number, "customer": f"c-{number % 7}", "amount": number / 4}
        producer.produce(topic, json.dumps(order), partition=number % 2)
    assert producer.flush(60) == 0


def test_the_pipeline_to_begin_with_runs_as_it_is_laid(cluster: Cluster, tmp_path: Path) -> None:
    _orders(cluster, "orders")
    project = PipelineProject(tmp_path / "orders", cluster.bootstrap_servers)
    project.command("init", str(project.directory))
    project.run()
    assert sorted(row["id"] for row in project.rows("orders")) == list(range(100))
    assert sum(row["orders"] for row in project.rows("orders_per_minute")) == 100
    assert sum(row["amount"] for row in project.rows("orders_per_minute")) == sum(range(100)) / 4


def test_the_documented_pipeline_runs_as_it_stands(cluster: Cluster, tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "pipelines.md").read_text()
    blocks = {kind: re.findall(rf"^```{kind}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0] for kind in PARTS}
    _orders(cluster, "documented")
    files = {PARTS[kind]: text for kind, text in blocks.items()}
    project = PipelineProject.of_files(tmp_path / "documented", cluster.bootstrap_servers, files)
    project.run("--set", "orders.topic=documented")
    assert project.rows("totals") == [{"orders": 100, "amount": sum(range(100)) / 4}]


def test_fsck_finds_what_disks_and_power_cuts_did(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("checked", partitions=2, replicas=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    for number in range(100):
        producer.produce("checked", b"%d" % number * 100, partition=number % 2)
        if number == 50:
            cluster.kill(3)
        if number % 10 == 9:
            assert producer.flush(60) == 0
    cluster.restore()
    cluster.stop(*cluster.running)
    originals = {
        int(dict(line.split("=") for line in path.read_text().splitlines() if "=" in line)["broker.id"]): path.parent
        for path in cluster.directory.rglob("meta.properties")
    }
    copies = {broker: shutil.copytree(path, tmp_path / f"broker-{broker}") for broker, path in originals.items()}
    cluster.restore()
    rotten, torn, other = (_segment(copies[broker], partition) for broker, partition in ((1, 0), (2, 0), (3, 1)))
    data = bytearray(rotten.read_bytes())
    data[100] ^= 1
    rotten.write_bytes(data)
    torn.write_bytes(torn.read_bytes()[:-7])
    other.write_bytes(_with_another_value(other.read_bytes()))

    project = PipelineProject.of_example("fsck", tmp_path / "fsck", "127.0.0.1:1")
    directories = ",".join(str(copies[broker]) for broker in sorted(copies))
    project.run("--set", f"fsck.directories={directories}", "--set", "fsck.topics=checked")

    found = {(row["severity"], row["kind"], row["partition"], row["broker"]): row for row in project.rows("findings")}
    assert found["error", "crc", 0, "1"]["file"] == str(rotten)
    assert found["warning", "torn tail", 0, "2"]["file"] == str(torn)
    assert found["error", "divergence", 1, "3"]["file"] == str(other)
    assert {key[:2] for key in found if key[0] == "error"} <= {
        ("error", kind) for kind in ("crc", "divergence", "short")
    }
    assert sum(row["findings"] for row in project.rows("per_partition")) == len(project.rows("findings"))


def _segment(directory: Path, partition: int) -> Path:
    [path] = directory.glob(f"checked-{partition}/*.log")
    return path


def _with_another_value(segment: bytes) -> bytes:
    """The first batch says something else, and its CRC is right: what a bug leaves, and no disk."""
    data = bytearray(segment)
    end = LENGTH_PREFIX_SIZE + read_header(segment).batch_length
    data[end - 2] ^= 1
    data[CRC_START - 4 : CRC_START] = crc32c(bytes(data[CRC_START:end])).to_bytes(4, "big")
    return bytes(data)
