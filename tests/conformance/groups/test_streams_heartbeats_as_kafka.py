"""The same StreamsGroupHeartbeats, commits and descriptions, right and wrong, to Apache Kafka 4.3 and to kavka: the
same error codes, messages, statuses, epochs and tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages import streams_group_heartbeat_request as heartbeat
from tests.apache_kafka import ApacheKafka
from tests.conformance.groups.streams_script import (
    ONE,
    READING,
    TWO,
    StreamsScript,
    counting,
    info,
    key_value,
    part,
    topology,
)
from tests.kit.kavka_process import KavkaProcess
from tests.kit.streams_member import task_ids

SETTINGS = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


# -- scripts


def wrong_requests(script: StreamsScript) -> None:
    has = {"active_tasks": task_ids({"0": [0]})}
    for number, fields in enumerate(
        (
            {"instance_id": "static"},
            {"instance_id": ""},
            {"rack_id": " "},
            {"rebalance_timeout_ms": -1},
            {"topology": None},
            has,
            {"standby_tasks": task_ids({"0": [0]})},
            {"warmup_tasks": task_ids({"0": [0]})},
            {"active_tasks": None},
            {"task_offsets": []},
            {"task_end_offsets": []},
            {"group_id": ""},
            {"member_id": ""},
            {"topology": topology(part("0", source_topic_regex=["t.*"]))},
            {"topology": topology(part("0", "__consumer_offsets"))},
            {"topology": topology(part("0", "no/name", "four"))},
        )
    ):
        script.join(f"wrong-{number}", **fields)
    for epoch in (1, -1, -2, -3):
        script.beat("nowhere", ONE, epoch)
    script.join("wrong")
    for epoch in (0, 1, 3, -2, -3):
        script.beat("wrong", ONE, epoch, has={"0": [0]})
    script.beat("wrong", TWO, 2)
    script.beat("wrong", ONE, has={"9": [0]})
    script.beat("wrong", ONE, has={"0": [4]})
    script.beat("wrong", ONE, has={"0": [-1]})
    script.beat("wrong", ONE, active_tasks=[])
    script.beat("wrong", ONE, topology=READING)
    script.describe("wrong")


def life_of_members(script: StreamsScript) -> None:
    script.describe("life")
    script.join("life", ONE, client_tags=[key_value(key="zone", value="a")])
    script.beat("life", ONE, has={"0": [0, 1, 2, 3]})
    script.join("life", TWO)
    script.describe("life")
    script.beat("life", TWO, has={})
    script.beat("life", ONE, has={"0": [0, 1, 2, 3]})
    script.beat("life", ONE)
    script.beat("life", TWO, has={})
    script.describe("life")
    script.beat("life", ONE, has={"0": [0, 1]})
    script.beat("life", TWO, has={})
    script.beat("life", TWO, has={"0": [2, 3]})
    script.describe("life")
    script.delete("life")
    script.beat("life", TWO, rack_id="r", has={"0": [2, 3]})
    script.beat("life", ONE, has={"0": [0, 1]})
    script.join("life", ONE)
    script.beat("life", ONE, -1)
    script.beat("life", TWO, has={"0": [2, 3]})
    script.beat("life", TWO, -1)
    script.describe("life")
    script.join("life", ONE)
    script.beat("life", ONE, -1)
    script.delete("life")
    script.describe("life")


def internal_topics(script: StreamsScript) -> None:
    script.join("counts", ONE, counting("counts"))
    script.describe("counts")
    script.until_ready("counts")
    script.beat("counts", ONE, has={"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]})
    script.describe("counts")
    script.set("counts", "streams.num.standby.replicas", "3")
    script.set("counts", "streams.num.standby.replicas", "1")
    script.join("counts", TWO, counting("counts"))
    script.describe("counts")


def source_topics(script: StreamsScript) -> None:
    script.join("sources", ONE, topology(part("0", "four", "gone")))
    script.describe("sources")
    script.beat("sources", ONE, has={})
    script.beat("sources", ONE, has={"7": [0]})
    together = heartbeat.CopartitionGroup(source_topics=[0, 1])
    script.join("unequal", ONE, topology(part("0", "four", "two", copartition_groups=[together])))
    script.describe("unequal")
    with_fixed = heartbeat.CopartitionGroup(source_topics=[0], repartition_source_topics=[0])
    fixed = part("0", "two", repartition_source_topics=[info(name="r", partitions=3)], copartition_groups=[with_fixed])
    script.join("fixed", ONE, topology(fixed, part("1", "four", repartition_sink_topics=["r"])))
    there = part("0", "four", state_changelog_topics=[info(name="three")])
    script.join("there", ONE, topology(there))


def invalid_topologies(script: StreamsScript) -> None:
    for number, parts in enumerate(
        (
            [part("0", "four"), part("1")],
            [part("0", "four", state_changelog_topics=[info(name="c", partitions=3)])],
            [part("0", "four", repartition_source_topics=[info(name="r")])],
            [part("0", repartition_source_topics=[info(name="r")], repartition_sink_topics=["r"])],
        )
    ):
        script.join(f"invalid-{number}", ONE, topology(*parts))
        script.describe(f"invalid-{number}")


def other_topologies(script: StreamsScript) -> None:
    script.join("changing", ONE, topology(part("0", "four"), epoch=2))
    script.join("changing", TWO, topology(part("0", "two"), epoch=2))
    script.join("changing", TWO, topology(part("0", "four"), epoch=3))
    script.join("changing", TWO, topology(part("0", "two"), epoch=1))
    script.beat("changing", TWO, has={})
    script.describe("changing")
    script.beat("changing", ONE, -1)
    script.beat("changing", TWO, -1)
    script.join("changing", ONE, topology(part("0", "two"), epoch=3))


def offsets(script: StreamsScript) -> None:
    script.join("offsets")
    for epoch in (2, 1, 3, -1):
        script.commit("offsets", ONE, epoch)
        script.fetch("offsets", ONE, epoch)
    script.commit("offsets", TWO, 2)
    script.commit("offsets", "", -1)
    script.commit("offsets", ONE, 2, version=8)
    script.fetch("offsets", None, -1)
    script.forget("offsets")
    script.join("offsets", TWO)
    script.beat("offsets", ONE, has={"0": [0, 1, 2, 3]})
    script.beat("offsets", ONE, has={"0": [0, 1]})
    script.commit("offsets", ONE, 2, partition=0)
    script.commit("offsets", ONE, 2, partition=3)
    script.commit("offsets", ONE, 2, "two")
    script.beat("offsets", ONE, -1)
    script.beat("offsets", TWO, -1)
    script.commit("offsets", "", -1)
    script.forget("offsets")
    script.delete("offsets")


def first_assignment_waits(script: StreamsScript) -> None:
    script.set("waiting", "streams.initial.rebalance.delay.ms", "2000")
    script.set("waiting", "streams.heartbeat.interval.ms", "6000")
    script.join("waiting", ONE)
    script.beat("waiting", ONE, has={})
    script.join("waiting", TWO)
    script.describe("waiting")
    time.sleep(3)
    script.beat("waiting", ONE, has={})
    script.beat("waiting", TWO, has={})
    script.describe("waiting")


def assignments_are_apart(script: StreamsScript) -> None:
    script.set("apart", "streams.assignment.interval.ms", "3000")
    script.join("apart", ONE)
    script.join("apart", TWO)
    script.describe("apart")
    time.sleep(4)
    script.beat("apart", TWO, has={})
    script.describe("apart")


def shutdown(script: StreamsScript) -> None:
    script.join("shut")
    script.join("shut", TWO)
    script.beat("shut", ONE, shutdown_application=True)
    script.beat("shut", TWO)
    script.beat("shut", ONE, -1)
    script.beat("shut", TWO)
    script.beat("shut", TWO, -1, shutdown_application=True)
    script.join("shut")


def endpoints(script: StreamsScript) -> None:
    one, two = (heartbeat.Endpoint(host=host, port=9) for host in ("one", "two"))
    script.join("ends", ONE, user_endpoint=one)
    script.beat("ends", ONE)
    script.beat("ends", ONE, endpoint_information_epoch=1)
    script.join("ends", TWO, user_endpoint=two)
    script.beat("ends", ONE, has={"0": [0, 1, 2, 3]}, endpoint_information_epoch=2)
    script.beat("ends", ONE, has={"0": [0, 1]}, endpoint_information_epoch=3)
    script.beat("ends", TWO, has={}, endpoint_information_epoch=3)


def other_kinds(script: StreamsScript) -> None:
    script.join("kinds")
    script.classic_join("kinds")
    answer = script.client.ask(
        m.ConsumerGroupHeartbeatRequest(
            group_id="kinds",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["four"],
            topic_partitions=[],
        ),
        1,
    )
    script.notes.append(("consumer", ErrorCode(answer.error_code).name, answer.error_message))
    script.beat("kinds", ONE, -1)
    script.classic_join("kinds")
    script.join("kinds")
    script.commit("bare", "", -1)
    script.join("bare")
    script.describe("bare")


SCRIPTS = (
    wrong_requests,
    life_of_members,
    internal_topics,
    source_topics,
    invalid_topologies,
    other_topologies,
    offsets,
    first_assignment_waits,
    assignments_are_apart,
    shutdown,
    endpoints,
    other_kinds,
)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StreamsScript, StreamsScript]]:
    """On Apache Kafka and on kavka."""
    kafka: Path = tmp_path_factory.mktemp("groups") / "kraft"
    with (
        ApacheKafka(kafka, mode="kraft", settings=SETTINGS, heap="-Xmx512M -Xms256M") as theirs,
        KavkaProcess(tmp_path_factory.mktemp("kavka") / "data", settings=SETTINGS) as ours,
    ):
        found = StreamsScript(theirs.port), StreamsScript(ours.port)
        for script in found:
            script.prepare()
        yield found
        for script in found:
            script.close()


@pytest.mark.parametrize("steps", SCRIPTS, ids=lambda steps: steps.__name__)
def test_answers_are_those_of_kafka(
    scripts: tuple[StreamsScript, StreamsScript], steps: Callable[[StreamsScript], None]
) -> None:
    for script in scripts:
        script.notes.clear()
        steps(script)
    theirs, ours = (script.notes for script in scripts)
    for their, own in zip(theirs, ours, strict=False):
        print("same " if their == own else "OTHER", their, "" if their == own else own)
    assert ours == theirs
