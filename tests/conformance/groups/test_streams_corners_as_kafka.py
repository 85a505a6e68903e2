"""What is rare in streams groups, beside Apache Kafka 4.3: the same requests, the same answers, but for those of
`ON_PURPOSE`, which say why.

Rare are members that come again, say odd things of their tasks, or are put out for a time-out; topics that change under
a running group; bad settings; groups of another kind; and how standby tasks move.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.errors import ErrorCode
from kavka.protocol import messages as m
from kavka.protocol.messages import streams_group_heartbeat_request as heartbeat
from kavka.protocol.messages.create_partitions_request import CreatePartitionsTopic
from tests.apache_kafka import ApacheKafka
from tests.conformance.groups.streams_script import (
    ONE,
    TWO,
    StreamsScript,
    info,
    part,
    topology,
)
from tests.kit.kavka_process import KavkaProcess
from tests.kit.streams_member import task_ids

SETTINGS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.max.size": "3",
}
THREE = "B"
ALL = {"0": [0, 1, 2, 3]}
Steps = Callable[[StreamsScript], None]

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


# -- members


def members_without_a_process(script: StreamsScript) -> None:
    script.join("bare-process", ONE, process_id=None)
    script.describe("bare-process")
    script.join("bare-process", TWO, process_id=None)
    script.beat("bare-process", ONE, has={"0": [0, 1]})
    script.beat("bare-process", TWO, has={})
    script.join("same-process", ONE, process_id="p")
    script.join("same-process", TWO, process_id="p")
    script.beat("same-process", ONE, has={"0": [0, 1]})
    script.beat("same-process", TWO, has={})


def odd_lists_of_tasks(script: StreamsScript) -> None:
    script.join("odd", ONE, active_tasks=task_ids({"0": []}))
    script.join("odd", ONE, active_tasks=task_ids({"9": []}))
    script.join("odd", ONE)
    script.beat("odd", ONE, has={"9": []})
    script.beat("odd", ONE, has={"0": []})
    script.beat(
        "odd", ONE, active_tasks=[*task_ids({"0": [0]}), *task_ids({"0": [1]})], standby_tasks=[], warmup_tasks=[]
    )
    script.beat("odd", ONE, active_tasks=[], standby_tasks=task_ids({"0": [9]}), warmup_tasks=[])
    script.beat("odd", ONE, active_tasks=[], standby_tasks=[], warmup_tasks=task_ids({"0": []}))
    script.beat("odd", ONE, active_tasks=[], standby_tasks=[], warmup_tasks=None)
    script.join("odd", TWO)
    script.beat("odd", ONE, has={"0": [0, 1, 9]})
    script.describe("odd")


def members_that_come_again(script: StreamsScript) -> None:
    script.join("again", ONE)
    script.join("again", ONE)
    script.join("again", ONE, process_id="another")
    script.join("again", TWO)
    script.beat("again", ONE, has=ALL)
    script.join("again", ONE)
    script.beat("again", TWO, has={})
    script.describe("again")
    script.join("again", ONE, rack_id="r", rebalance_timeout_ms=5)
    script.beat("again", TWO, has={"0": [2, 3]}, rack_id="s")
    script.beat("again", TWO, has={"0": [2, 3]}, rack_id="")
    script.beat("again", TWO, has={"0": [2, 3]}, process_id="third")
    script.describe("again")


def full_groups(script: StreamsScript) -> None:
    for name in (ONE, TWO, THREE, "C"):
        script.join("full", name)
    script.beat("full", TWO, -1)
    script.join("full", "C")


def time_is_up_for_who_does_not_give_back(script: StreamsScript) -> None:
    script.join("late", ONE, rebalance_timeout_ms=1_500)
    script.join("late", TWO)
    script.beat("late", ONE, has=ALL)
    script.beat("late", TWO, has={})
    time.sleep(2.5)
    script.beat("late", ONE, has=ALL)
    script.beat("late", TWO, has={})
    script.describe("late")
    script.join("late", ONE)


def time_is_up_for_who_is_silent(script: StreamsScript) -> None:
    script.set("silent", "streams.session.timeout.ms", "6000")
    script.join("silent", ONE)
    script.join("silent", TWO)
    script.beat("silent", ONE, has={"0": [0, 1]})
    script.beat("silent", TWO, has={})
    for _ in range(9):
        time.sleep(1)
        script.member("silent", TWO).beat(has={"0": [2, 3]})
    script.beat("silent", ONE, has={"0": [0, 1]})
    script.beat("silent", TWO, has={"0": [2, 3]})
    script.describe("silent")


# -- tasks


def standby_tasks(script: StreamsScript) -> None:
    keeping = topology(part("0", "four", state_changelog_topics=[info(name="kept-store-changelog")]))
    script.set("kept", "streams.num.standby.replicas", "1")
    script.join("kept", ONE, keeping)
    script.until_ready("kept")
    script.beat("kept", ONE, has={})
    script.describe("kept")
    script.join("kept", TWO, keeping)
    script.follow("kept", *(ONE, TWO) * 3)
    script.describe("kept")
    script.join("kept", THREE, keeping)
    script.follow("kept", *(ONE, TWO, THREE) * 3)
    script.describe("kept")
    script.beat("kept", ONE, -1)
    script.follow("kept", *(TWO, THREE) * 3)
    script.describe("kept")
    script.set("kept", "streams.num.standby.replicas", "0")
    script.follow("kept", *(TWO, THREE) * 3)
    script.describe("kept")


def chained_topics(script: StreamsScript) -> None:
    """The broker finds the number of partitions along a chain, and for what is read together."""
    chain = topology(
        part("2", repartition_source_topics=[info(name="chain-b")], state_changelog_topics=[info(name="chain-c")]),
        part("1", "two", repartition_source_topics=[info(name="chain-a")], repartition_sink_topics=["chain-b"]),
        part("0", "three", repartition_sink_topics=["chain-a"]),
    )
    script.member("chain", ONE).join(chain, process_id=ONE)  # Kafka names what is missing in no order.
    script.until_ready("chain")
    script.describe("chain")
    both = heartbeat.CopartitionGroup(source_topics=[0], repartition_source_topics=[0])
    joined = topology(
        part("0", "three", repartition_sink_topics=["pair-a"]),
        part("1", "four", repartition_source_topics=[info(name="pair-a")], copartition_groups=[both]),
    )
    script.join("pair", ONE, joined)
    script.until_ready("pair")
    script.describe("pair")


# -- topics


def grow(script: StreamsScript, topic: str, count: int) -> None:
    request = m.CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)], timeout_ms=30_000
    )
    (found,) = script.client.ask(request, 2).results
    script.notes.append(("grow", topic, ErrorCode(found.error_code).name))
    script.until(lambda: len(script.client.topics(topic)[topic].partitions) == count)
    time.sleep(0.5)  # Kafka's coordinator takes it in a moment later.


def topics_that_change(script: StreamsScript) -> None:
    script.create_topic("moving", partitions=2)
    reading = topology(part("0", "moving"))
    script.join("moved", ONE, reading)
    script.beat("moved", ONE, has={"0": [0, 1]})
    grow(script, "moving", 3)
    script.beat("moved", ONE, has={"0": [0, 1]})
    script.describe("moved")
    (found,) = script.client.ask(m.DeleteTopicsRequest(topic_names=["moving"], timeout_ms=30_000), 5).responses
    script.notes.append(("delete topic", ErrorCode(found.error_code).name))
    time.sleep(2)
    script.beat("moved", ONE, has={"0": [0, 1, 2]})
    script.describe("moved")
    script.beat("moved", ONE, has={})
    script.client.create_topic("moving", partitions=2)
    time.sleep(2)
    script.beat("moved", ONE, has={})
    script.beat("moved", ONE, has={})
    script.describe("moved")


def a_changelog_that_does_not_grow_with_its_source(script: StreamsScript) -> None:
    script.create_topic("growing", partitions=2)
    keeping = topology(part("0", "growing", state_changelog_topics=[info(name="grown-changelog")]))
    script.join("grown", ONE, keeping)
    script.until_ready("grown")
    grow(script, "growing", 3)
    script.beat("grown", ONE, has={"0": [0, 1]})
    script.beat("grown", ONE, has={})
    script.describe("grown")
    grow(script, "grown-changelog", 3)
    script.beat("grown", ONE, has={})
    script.beat("grown", ONE, has={})
    script.describe("grown")


def an_internal_topic_that_cannot_be_made(script: StreamsScript) -> None:
    wrong = info(name="unmakeable-changelog", topic_configs=[heartbeat.KeyValue(key="no.such.setting", value="x")])
    script.join("unmade", ONE, topology(part("0", "four", state_changelog_topics=[wrong])))
    script.describe("unmade")


# -- settings and kinds


def bad_settings(script: StreamsScript) -> None:
    for name, value in (
        ("streams.session.timeout.ms", "10"),
        ("streams.session.timeout.ms", "60001"),
        ("streams.session.timeout.ms", "5000"),
        ("streams.session.timeout.ms", "x"),
        ("streams.heartbeat.interval.ms", "4999"),
        ("streams.heartbeat.interval.ms", "15001"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("streams.assignment.interval.ms", "15001"),
        ("streams.assignment.interval.ms", "-1"),
        ("streams.num.standby.replicas", "-1"),
        ("streams.num.standby.replicas", "3"),
        ("streams.num.standby.replicas", "2"),
        ("streams.nothing", "1"),
        ("streams.group.assignor.name", "sticky"),
        ("streams.assignor.offload.enable", "true"),
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.heartbeat.interval.ms", "15001"),
        ("share.session.timeout.ms", "44999"),
        ("share.heartbeat.interval.ms", "4999"),
        ("share.assignment.interval.ms", "15001"),
        ("share.record.lock.duration.ms", "14999"),
        ("share.record.lock.duration.ms", "60001"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99"),
        ("share.partition.max.record.locks", "4001"),
    ):
        script.set("unsettled", name, value, pause_s=0)


def listed_by_state(script: StreamsScript) -> None:
    script.join("listed-unready", ONE, topology(part("0", "gone")))
    script.join("listed-stable", ONE)
    for state in ("Stable", "stable", "Empty", "Reconciling"):
        answer = script.client.ask(m.ListGroupsRequest(states_filter=[state], types_filter=["Streams"]), 5)
        found = sorted(each.group_id for each in answer.groups if each.group_id.startswith("listed-"))
        script.notes.append((state, found))


def described_as_another_kind(script: StreamsScript) -> None:
    script.join("kind-streams")
    script.classic_join("kind-classic")
    for group in ("kind-streams", "kind-classic", "kind-none"):
        for request, version in (
            (m.ConsumerGroupDescribeRequest(group_ids=[group]), 1),
            (m.StreamsGroupDescribeRequest(group_ids=[group]), 0),
            (m.DescribeGroupsRequest(groups=[group]), 6),
        ):
            found = script.client.ask(request, version).groups[0]
            script.notes.append((type(request).__name__, group, ErrorCode(found.error_code).name, found.error_message))


def a_group_that_is_deleted_comes_back(script: StreamsScript) -> None:
    script.join("back", ONE, topology(part("0", "four"), epoch=7))
    script.delete("back")
    script.commit("back", ONE, 2)
    script.beat("back", ONE, -1)
    script.fetch("back", None, -1)
    script.delete("back")
    script.beat("back", ONE, 2, has={})
    script.fetch("back", ONE, 2)
    script.describe("back")
    script.join("back", ONE, topology(part("0", "two"), epoch=1))
    script.describe("back")


SCRIPTS: tuple[Steps, ...] = (
    members_without_a_process,
    odd_lists_of_tasks,
    members_that_come_again,
    full_groups,
    time_is_up_for_who_does_not_give_back,
    time_is_up_for_who_is_silent,
    standby_tasks,
    chained_topics,
    topics_that_change,
    a_changelog_that_does_not_grow_with_its_source,
    an_internal_topic_that_cannot_be_made,
    bad_settings,
    listed_by_state,
    described_as_another_kind,
    a_group_that_is_deleted_comes_back,
)


# -- on purpose


class OnPurpose(NamedTuple):
    """What became of the steps' last request: `kafka` there, `kavka` here."""

    steps: Steps
    kafka: str
    kavka: str
    why: str


def a_member_of_a_full_group_comes_again(script: StreamsScript) -> None:
    for name in (ONE, TWO, THREE):
        script.join("full-again", name)
    script.join("full-again", TWO)


def an_endpoint_while_source_topics_are_missing(script: StreamsScript) -> None:
    script.join("endless", ONE, topology(part("0", "gone")), user_endpoint=heartbeat.Endpoint(host="one", port=9))


def who_is_no_member_asks_all_to_stop(script: StreamsScript) -> None:
    script.join("stopped", ONE)
    script.beat("stopped", TWO, -1, shutdown_application=True)
    script.beat("stopped", ONE)


def not_ready_groups_are_listed(script: StreamsScript) -> None:
    script.join("unready", ONE, topology(part("0", "gone")))
    answer = script.client.ask(m.ListGroupsRequest(states_filter=["NotReady"], types_filter=[]), 5)
    script.notes.append(("found", sorted(each.group_id for each in answer.groups if each.group_id == "unready")))


def a_group_named_twice(script: StreamsScript) -> None:
    script.join("twice", ONE)
    answer = script.client.ask(m.StreamsGroupDescribeRequest(group_ids=["twice", "twice"]), 0)
    script.notes.append(("groups", len(answer.groups)))


def a_commit_to_a_group_that_is_not_there(script: StreamsScript) -> None:
    script.commit("not-there", ONE, 2)


ON_PURPOSE = (
    OnPurpose(
        a_commit_to_a_group_that_is_not_there,
        "GROUP_ID_NOT_FOUND",
        "ILLEGAL_GENERATION",
        "version 9 is answered as by Apache Kafka 3.9; from version 10 on, as there",
    ),
    OnPurpose(a_member_of_a_full_group_comes_again, "GROUP_MAX_SIZE_REACHED", "NONE", "the group gets no larger"),
    OnPurpose(
        an_endpoint_while_source_topics_are_missing, "UNKNOWN_SERVER_ERROR", "None", "it is told what is missing"
    ),
    OnPurpose(who_is_no_member_asks_all_to_stop, "requested a shutdown", "[]", "only members may stop an application"),
    OnPurpose(not_ready_groups_are_listed, "[]", "unready", "Kafka compares the name with not_ready"),
    OnPurpose(a_group_named_twice, "2", "1", "as in the other descriptions"),
)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StreamsScript, StreamsScript]]:
    """On Apache Kafka and on kavka."""
    kafka: Path = tmp_path_factory.mktemp("corners") / "kraft"
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
def test_answers_are_those_of_kafka(scripts: tuple[StreamsScript, StreamsScript], steps: Steps) -> None:
    for script in scripts:
        script.notes.clear()
        steps(script)
    theirs, ours = (script.notes for script in scripts)
    for their, own in zip(theirs, ours, strict=False):
        print("same " if their == own else "OTHER", their, "" if their == own else own)
    assert ours == theirs


@pytest.mark.parametrize("row", ON_PURPOSE, ids=lambda row: row.steps.__name__)
def test_answers_that_differ_on_purpose(scripts: tuple[StreamsScript, StreamsScript], row: OnPurpose) -> None:
    for script in scripts:
        script.notes.clear()
        row.steps(script)
    theirs, ours = ([note for note in script.notes if isinstance(note[0], str)][-1] for script in scripts)
    print(theirs, ours, sep="\n")
    assert row.kafka in str(theirs)
    assert row.kavka in str(ours)
    assert row.kafka not in str(ours)
