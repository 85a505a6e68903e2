"""Kafka's own administration tools, of 3.9 and 4.3, print the same against kavka as against Apache Kafka 3.9.

Each test runs a command against both and compares what they print, without ids, addresses and directories. What differs
on purpose is named here:

* `kafka-features` shows features; a broker of 3.9 on ZooKeeper has none.
* `kafka-client-metrics` works; a broker of 3.9 on ZooKeeper has no client metrics.
* `kafka-broker-api-versions` lists versions of 4.x too, and none below those that 4.0 dropped.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Consumer

from tests.apache_kafka import ApacheKafka, PeerMissing, run_tool
from tests.kit.kavka_process import KavkaProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

RELEASES: Final = ("zk", "kraft")
"""The tools of 3.9 and those of 4.3."""
PATIENT: Final = ("--timeout", "60000")
"""This one gives itself five seconds for its start, too, which a machine with much to do takes longer for."""


class Place(NamedTuple):
    """One broker, with the id 1 and two log directories."""

    bootstrap: str
    directories: tuple[str, str]


class Both(NamedTuple):
    """The same broker twice: kavka's, and Apache Kafka's."""

    kavka: Place
    apache: Place
    scratch: Path

    def run(self, release: str, tool: str, *words: str) -> str:
        """What the tool prints, the same against both."""
        ours, theirs = (self.alone(place, release, tool, *words) for place in (self.kavka, self.apache))
        assert ours == theirs
        return ours

    def alone(self, place: Place, release: str, tool: str, *words: str) -> str:
        """What the tool prints against one of them, without what must differ. FIRST and SECOND in a word, or in the
        file that it names, stand for the log directories."""
        first, second = place.directories
        given = []
        for word in words:
            path = self.scratch / word
            if word.endswith(".json"):
                text = path.read_text().replace("FIRST", first).replace("SECOND", second)
                path = self.scratch / f"given-{word}"
                path.write_text(text)
                given.append(str(path))
            else:
                given.append(word)
        try:
            printed = run_tool(release, tool, "--bootstrap-server", place.bootstrap, *given)
        except subprocess.CalledProcessError as failed:
            printed = f"status {failed.returncode}: {failed.stdout}"
        printed = printed.replace(first, "FIRST").replace(second, "SECOND").replace(place.bootstrap, "HOST:PORT")
        printed = re.sub(r"TopicId: \S+", "TopicId: ID", printed)
        # Told by DescribeTopicPartitions, which a broker of 3.9 on ZooKeeper does not serve.
        printed = re.sub(r"(Elr|LastKnownElr): (N/A)?", r"\1:", printed)
        printed = re.sub(r"\[[0-9-]+ [0-9:,]+\] (WARN|ERROR|INFO)[^\n]*\n", "", printed)
        return re.sub(r"\n\tat [^\n]*", "", printed)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    path = tmp_path_factory.mktemp("tools")

    def directories(name: str) -> tuple[str, str]:
        return (str(path / name / "first"), str(path / name / "second"))

    ours, theirs = directories("kavka"), directories("apache")
    try:
        kafka = ApacheKafka(path / "zk", settings={"log.dirs": ",".join(theirs)}, heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    # A stopped member of the newer protocol, which the broker gives its session time-out, outlives a tool's slow start.
    patient = dict.fromkeys(("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"), "300000")
    with kafka, KavkaProcess(path / "data", settings={"log.dirs": ",".join(ours)} | patient) as broker:
        yield Both(Place(broker.bootstrap, ours), Place(kafka.bootstrap, theirs), path)


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def fill(both: Both, topic: str, count: int) -> None:
    """Records, by Kafka's verifiable producer; its last line tells how many were acknowledged."""
    for place in (both.kavka, both.apache):
        printed = run_tool(
            "zk", "verifiable-producer", "--bootstrap-server", place.bootstrap, "--topic", topic, "--max-messages",
            str(count), "--acks", "-1",
        )  # fmt: skip
        summary = json.loads(printed.splitlines()[-1])
        assert (summary["name"], summary["acked"]) == ("tool_data", count)


def test_topics_from_their_creation_to_their_end(both: Both, release: str) -> None:
    topic = f"life-{release}"
    created = both.run(
        release, "topics", "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=3600000"
    )
    assert "Created topic" in created
    assert "already exists" in both.run(release, "topics", "--create", "--topic", topic)
    assert "Partition: 1" in both.run(release, "topics", "--describe", "--topic", topic)
    both.run(release, "topics", "--alter", "--topic", topic, "--partitions", "3")
    assert "PartitionCount: 3" in both.run(release, "topics", "--describe", "--topic", topic)
    assert "status 1" in both.run(release, "topics", "--alter", "--topic", topic, "--partitions", "1")
    both.run(release, "topics", "--delete", "--topic", topic)
    assert topic not in both.run(release, "topics", "--list").split()


def test_topics_are_described_by_their_ids(both: Both, release: str) -> None:
    """Java's admin client asks Metadata for the id with the empty name beside it."""
    topic = f"by-id-{release}"
    both.run(release, "topics", "--create", "--topic", topic, "--partitions", "2")
    printed = []
    for place in (both.kavka, both.apache):
        named = run_tool(release, "topics", "--bootstrap-server", place.bootstrap, "--describe", "--topic", topic)
        topic_id = re.findall(r"TopicId: (\S+)", named)[0]
        printed.append(both.alone(place, release, "topics", "--describe", "--topic-id", topic_id))
    assert printed[0] == printed[1]
    assert f"Topic: {topic}\tTopicId: ID\tPartitionCount: 2" in printed[0]
    unknown = both.run(release, "topics", "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ")
    assert unknown.startswith("status 1"), unknown


def test_configurations_are_shown_and_changed(both: Both, release: str) -> None:
    topic = f"configs-{release}"
    both.run(release, "topics", "--create", "--topic", topic)
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    both.run(release, "configs", "--alter", *of_topic, "--add-config", "cleanup.policy=compact,segment.bytes=1048576")
    assert "cleanup.policy=compact" in both.run(release, "configs", "--describe", *of_topic)
    both.run(release, "configs", "--alter", *of_topic, "--delete-config", "segment.bytes")
    assert "segment.bytes" not in both.run(release, "configs", "--describe", *of_topic)
    assert "status 1" in both.run(release, "configs", "--alter", *of_topic, "--add-config", "retention.ms=soon")
    of_all = ("--entity-type", "brokers", "--entity-default")
    both.run(release, "configs", "--alter", *of_all, "--add-config", "log.cleaner.backoff.ms=9000")
    assert "9000" in both.run(release, "configs", "--describe", *of_all)
    of_one = ("--entity-type", "brokers", "--entity-name", "1")
    both.run(release, "configs", "--alter", *of_one, "--add-config", "log.cleaner.backoff.ms=8000")
    assert "8000" in both.run(release, "configs", "--describe", *of_one)
    both.run(release, "configs", "--alter", *of_one, "--delete-config", "log.cleaner.backoff.ms")
    both.run(release, "configs", "--alter", *of_all, "--delete-config", "log.cleaner.backoff.ms")


def test_levels_of_loggers_are_shown_changed_and_restored(both: Both, release: str) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")

    def level(place: Place, name: str) -> str:
        """As the tool shows it, among those of all loggers."""
        printed = both.alone(place, release, "configs", "--describe", *loggers)
        assert printed.startswith("Dynamic configs for broker-logger 1 are:"), printed
        return dict(re.findall(r"^  (\S+)=(\w+) sensitive=false synonyms=\{\}$", printed, re.MULTILINE))[name]

    before = [level(place, "root") for place in (both.kavka, both.apache)]
    altered = both.run(release, "configs", "--alter", *loggers, "--add-config", "root=ERROR")
    assert altered.strip() == "Completed updating config for broker-logger 1."
    for place, one in ((both.kavka, "kavka.broker.membership.registrar"), (both.apache, "kafka.server.ReplicaManager")):
        assert level(place, one) == "ERROR"
        both.alone(place, release, "configs", "--alter", *loggers, "--add-config", f"{one}=TRACE")
        assert (level(place, one), level(place, "root")) == ("TRACE", "ERROR")
        both.alone(place, release, "configs", "--alter", *loggers, "--delete-config", one)
        assert level(place, one) == "ERROR"
    for wrong in ("no.such.logger=INFO", "root=LOUD"):
        assert "status 1" in both.run(release, "configs", "--alter", *loggers, "--add-config", wrong)
    assert "status 1" in both.run(release, "configs", "--alter", *loggers, "--delete-config", "root")
    for place, level_before in zip((both.kavka, both.apache), before, strict=True):
        both.alone(place, release, "configs", "--alter", *loggers, "--add-config", f"root={level_before}")


def test_records_are_deleted_and_offsets_told(both: Both, release: str) -> None:
    topic = f"records-{release}"
    both.run(release, "topics", "--create", "--topic", topic)
    fill(both, topic, 100)
    assert both.run(release, "get-offsets", "--topic", topic).strip() == f"{topic}:0:100"
    (both.scratch / "delete.json").write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 40}], "version": 1})
    )
    assert "low_watermark: 40" in both.run(release, "delete-records", "--offset-json-file", "delete.json")
    assert both.run(release, "get-offsets", "--topic", topic, "--time", "earliest").strip() == f"{topic}:0:40"
    for place in (both.kavka, both.apache):
        latest = both.alone(place, release, "get-offsets", "--topic", topic, "--time", "max-timestamp")
        assert 40 <= int(latest.removeprefix(f"{topic}:0:")) < 100
    (both.scratch / "delete.json").write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 400}], "version": 1})
    )
    assert "OffsetOutOfRange" in both.run(release, "delete-records", "--offset-json-file", "delete.json")


def leave_behind(place: Place, group: str, topic: str, instance: str, protocol: str) -> None:
    """A static member that has stopped: it keeps its place until its session ends."""
    settings = {
        "bootstrap.servers": place.bootstrap,
        "group.id": group,
        "group.instance.id": instance,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        settings["session.timeout.ms"] = "300000"
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    ends_at = time.monotonic() + 60
    while not consumer.assignment():
        consumer.poll(0.2)
        assert time.monotonic() < ends_at, f"{instance} was assigned nothing"
    consumer.close()


def test_members_that_have_stopped_are_taken_out(both: Both, release: str) -> None:
    """kafka-streams-application-reset --force is the one of Kafka's tools that takes members out, by their ids or
    instance ids. Of programs that name a single instance: members removed, of the Java clients' checks."""
    topic, group = f"left-{release}", f"stopped-{release}"
    both.run(release, "topics", "--create", "--topic", topic)
    fill(both, topic, 10)
    words = ("--application-id", group, "--input-topics", topic)
    for place in (both.kavka, both.apache):
        leave_behind(place, group, topic, "i", "classic")
        refused = both.alone(place, release, "streams-application-reset", *words)
        assert "is still active and has following members" in refused, refused
        assert "groupInstanceId=i" in refused, refused
    printed = both.run(release, "streams-application-reset", *words, "--force")
    assert f"Force deleting all active members in the group: {group}" in printed
    described = both.run(release, "consumer-groups", *PATIENT, "--describe", "--group", group)
    assert "has no active members" in described
    assert re.search(rf"{group}\s+{topic}\s+0\s+0\s+10\s+10\s+-", described), described


def test_members_of_the_newer_protocol_that_have_stopped_are_taken_out(both: Both, release: str) -> None:
    """Of kavka alone: a broker of 3.9 on ZooKeeper has no such groups."""
    topic, group = f"left-newer-{release}", f"stopped-newer-{release}"
    both.run(release, "topics", "--create", "--topic", topic)
    leave_behind(both.kavka, group, topic, "i", "consumer")
    words = ("--application-id", group, "--input-topics", topic, "--force")
    printed = both.alone(both.kavka, release, "streams-application-reset", *words)
    assert f"Force deleting all active members in the group: {group}" in printed
    assert "status" not in printed, printed
    assert "has no active members" in both.alone(
        both.kavka, release, "consumer-groups", *PATIENT, "--describe", "--group", group
    )


def test_replicas_move_between_log_directories(both: Both, release: str) -> None:
    topic = f"moves-{release}"
    both.run(release, "topics", "--create", "--topic", topic)
    fill(both, topic, 200)
    for directory in ("SECOND", "FIRST"):
        plan = {
            "version": 1,
            "partitions": [{"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [directory]}],
        }
        (both.scratch / "plan.json").write_text(json.dumps(plan))
        words = ("--reassignment-json-file", "plan.json")
        throttles = ("--throttle", "50000000", "--replica-alter-log-dirs-throttle", "100000000")
        executed = both.run(release, "reassign-partitions", *words, "--execute", *throttles)
        assert "Successfully started" in executed
        for place in (both.kavka, both.apache):
            while "still in progress" in (
                told := both.alone(place, release, "reassign-partitions", *words, "--verify")
            ):
                pass
            assert "is complete" in told, told
        for place in (both.kavka, both.apache):
            told = both.alone(place, release, "log-dirs", "--describe", "--topic-list", topic)
            (broker,) = json.loads(told.splitlines()[-1])["brokers"]
            holders = [each["logDir"] for each in broker["logDirs"] if each["partitions"]]
            assert holders == [directory]
    assert both.run(release, "get-offsets", "--topic", topic).strip() == f"{topic}:0:200"


def test_elections_that_nobody_needs(both: Both, release: str) -> None:
    topic = f"elections-{release}"
    both.run(release, "topics", "--create", "--topic", topic)
    words = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert "Valid replica already elected" in both.run(release, "leader-election", *words)
    assert both.run(release, "leader-election", "--election-type", "unclean", "--all-topic-partitions") == ""


def test_what_kafka_on_zookeeper_does_not_have(both: Both, release: str) -> None:
    for tool, words in (("metadata-quorum", ("describe", "--status")), ("acls", ("--list",))):
        ours = both.alone(both.kavka, release, tool, *words)
        assert ours.startswith("status 1"), ours
    features = both.alone(both.kavka, release, "features", "describe")
    assert re.search(
        r"transaction.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 2\s+Finalized\S+ 2", features
    )
    assert "transaction.version" not in both.alone(both.apache, release, "features", "describe")
    words = ("--name", f"s-{release}", "--metrics", "org.apache.kafka.", "--interval", "60000")
    assert "Altered" in both.alone(both.kavka, release, "client-metrics", "--alter", *words)
    assert "interval.ms=60000" in both.alone(both.kavka, release, "client-metrics", "--describe")
    assert f"s-{release}" in both.alone(both.kavka, release, "client-metrics", "--list")
    both.alone(both.kavka, release, "client-metrics", "--delete", "--name", f"s-{release}")
    assert f"s-{release}" not in both.alone(both.kavka, release, "client-metrics", "--list")


def test_every_version_that_kafka_tells_and_4_0_did_not_drop_is_served(both: Both) -> None:
    def versions(place: Place) -> dict[str, tuple[int, int]]:
        printed = both.alone(place, "zk", "broker-api-versions")
        return {
            name: (int(low), int(high))
            for name, low, high in re.findall(
                r"(\w+)\(\d+\): (\d+)(?: to (\d+))? \[usable", printed.replace(" [", " [")
            )
            if high
        }

    ours, theirs = versions(both.kavka), versions(both.apache)
    missing = {name for name in theirs if name not in ours} - {"Envelope"}  # Brokers forward nothing to the controller.
    assert not missing
    assert not {name: (theirs[name], ours[name]) for name in ours if name in theirs and ours[name][1] < theirs[name][1]}
