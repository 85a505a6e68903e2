"""Kafka's `kafka-share-groups` of 4.3, unmodified: the same story on kavka and on Apache Kafka prints the same.
docs/groups.md shows the commands.

Left out is the epoch of a member: kavka gives it a partition one heartbeat sooner.
"""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.records.builder import BatchBuilder
from tests.apache_kafka import ApacheKafka, PeerMissing, run_tool
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.share_member import ACCEPT, ShareMember

pytestmark = [pytest.mark.kafka, pytest.mark.thorough, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KavkaProcess, ApacheKafka]]:
    path = tmp_path_factory.mktemp("share-groups")
    try:
        kafka = ApacheKafka(path / "kraft", mode="kraft", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with kafka, KavkaProcess(path / "data", settings={"offsets.topic.num.partitions": "3"}) as broker:
        yield broker, kafka


def tool(bootstrap: str, *words: str) -> str:
    """What the tool prints, without what must differ."""
    try:
        printed = run_tool("kraft", "share-groups", "--bootstrap-server", bootstrap, *words)
    except subprocess.CalledProcessError as failed:
        printed = f"status {failed.returncode}: {failed.stdout}"
    printed = printed.replace(bootstrap, "HOST:PORT").replace(bootstrap.split(":")[1], "PORT")
    printed = re.sub(r"\n\tat [^\n]*", "", printed)
    printed = re.sub(r"HOST:PORT *\(\d+\)", "HOST:PORT (ID)", printed)
    printed = re.sub(r"\[[0-9-]+ [0-9:,]+\] (WARN|ERROR|INFO)[^\n]*\n", "", printed)
    printed = re.sub(r" +", " ", printed)
    return re.sub(r"(?m)^(workers \S+ \S+ \S+ 1) \d+ ", r"\1 EPOCH ", printed)


def story(bootstrap: str, port: int) -> dict[str, str]:
    """What the tool says of a group in each state of its life."""
    topic, group = "orders", "workers"
    first = datetime.now(UTC) - timedelta(minutes=20)
    fourth = (first + timedelta(minutes=3, seconds=30)).strftime("%Y-%m-%dT%H:%M:%S.000")
    told: dict[str, str] = {}

    def say(step: str, *words: str, member: ShareMember | None = None) -> None:
        told[step] = tool(bootstrap, *words)
        if member is not None:
            assert member.beat().error_code == 0  # The tool takes seconds, and there is a session to keep.

    with BrokerClient(port) as client:
        client.create_topic(topic)
        builder = BatchBuilder()
        for number in range(10):
            builder.append(int(first.timestamp() * 1000) + number * 60_000, None, str(number).encode())
        batch = builder.build()  # A broker in KRaft mode is told a moment after the topic is made that it leads.
        eventually("its leader is there", lambda: client.produce(topic, batch).error_code == 0)
        change = configs.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = configs.AlterConfigsResource(resource_type=32, resource_name=group, configs=[change])
        client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        topic_id = client.topic_id(topic)
    say("nothing", "--list")
    say("unknown", "--describe", "--group", "nowhere")
    with ShareMember(port, group, str(uuid.UUID(int=7))) as member:
        member.join_assigned(topic)
        assert eventually("records come", lambda: member.fetch(topic_id)) == [(0, 9, 1)]
        assert member.acknowledge(topic_id, (0, 3, [ACCEPT])) == 0
        say("listed", "--list", member=member)
        say("listed with states", "--list", "--state", member=member)
        say("listed in one state", "--list", "--state", "Empty", member=member)
        say("members", "--describe", "--group", group, "--members", member=member)
        say("members, more", "--describe", "--group", group, "--members", "--verbose", member=member)
        say("state", "--describe", "--group", group, "--state", member=member)
        say(
            "with members",
            "--reset-offsets",
            "--group",
            group,
            "--topic",
            topic,
            "--to-earliest",
            "--execute",
            member=member,
        )
        say("no deletion either", "--delete", "--group", group, member=member)
        say("nor of offsets", "--delete-offsets", "--group", group, "--topic", topic, member=member)
        member.leave()
    reset = ("--reset-offsets", "--group", group)
    say("dry run", *reset, "--all-topics", "--to-latest", "--dry-run")
    say("to the end", *reset, "--all-topics", "--to-latest", "--execute")
    say("at the end", "--describe", "--group", group, "--offsets")
    say("to the start", *reset, "--topic", topic, "--to-earliest", "--execute")
    say("at the start", "--describe", "--group", group, "--offsets")
    say("to a time", *reset, "--topic", f"{topic}:0", "--to-datetime", fourth, "--execute")
    say("at that time", "--describe", "--group", group)
    say("all groups", "--describe", "--all-groups")
    say("a new group", "--reset-offsets", "--group", "new", "--topic", topic, "--to-earliest", "--execute")
    say("offsets deleted", "--delete-offsets", "--group", group, "--topic", topic)
    say("nothing left", "--describe", "--group", group)
    say("deleted", "--delete", "--group", group, "--group", "new")
    say("deleted again", "--delete", "--group", group)
    say("nothing again", "--list")
    return told


def test_a_groups_life_prints_the_same(brokers: tuple[KavkaProcess, ApacheKafka]) -> None:
    kavka, kafka = brokers
    theirs = story(kafka.bootstrap, kafka.port)
    ours = story(kavka.bootstrap, kavka.port)
    problems = [
        f"{step}: kavka {text!r}, Kafka {theirs[step]!r}" for step, text in ours.items() if text != theirs[step]
    ]
    assert problems == [], "\n".join(problems)
    assert ours["listed"] == "workers\n"
    assert "workers Stable" in ours["listed with states"]
    assert "workers orders 0 10 0" in ours["at the end"]
    assert "workers orders 0 4 6" in ours["at that time"]
