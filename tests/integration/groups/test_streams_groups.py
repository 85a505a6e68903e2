"""A Kafka Streams application's members, request by request, against a broker in a process of its own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kavka.protocol.messages.streams_group_heartbeat_request import KeyValue, Subtopology, TopicInfo, Topology
from tests.kit.broker_client import BrokerClient
from tests.kit.command_line import run_alone
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import ProcessCluster, eventually
from tests.kit.streams_member import StreamsMember, codes

TOPIC = 2
COMPACT = [KeyValue(key="cleanup.policy", value="compact")]
SETTINGS = {"offsets.topic.num.partitions": "1", "group.streams.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KavkaProcess]:
    with KavkaProcess(tmp_path_factory.mktemp("streams"), settings=SETTINGS) as process:
        yield process


@pytest.fixture
def client(broker: KavkaProcess) -> Iterator[BrokerClient]:
    with BrokerClient(broker.port) as client:
        yield client


def application() -> str:
    return f"app-{uuid.uuid4().hex}"


def counting(name: str, source: str) -> Topology:
    """Sends words to the partition that counts them, and keeps the counts."""
    repartition = f"{name}-by-word-repartition"
    return Topology(
        epoch=0,
        subtopologies=[
            Subtopology(subtopology_id="0", source_topics=[source], repartition_sink_topics=[repartition]),
            Subtopology(
                subtopology_id="1",
                repartition_source_topics=[TopicInfo(name=repartition)],
                state_changelog_topics=[TopicInfo(name=f"{name}-counts-changelog", topic_configs=COMPACT)],
            ),
        ],
    )


def reading(*sources: str, epoch: int = 0) -> Topology:
    return Topology(epoch=epoch, subtopologies=[Subtopology(subtopology_id="0", source_topics=list(sources))])


def described(client: BrokerClient, group: str) -> Any:
    return client.ask(StreamsGroupDescribeRequest(group_ids=[group]), 0).groups[0]


def ids(tasks: Sequence[Any]) -> dict[str, list[int]]:
    return {part.subtopology_id: part.partitions for part in tasks}


def test_they_are_advertised_and_their_feature_is_on(client: BrokerClient) -> None:
    answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    assert {(row.api_key, row.min_version, row.max_version) for row in answer.api_keys} >= {(88, 0, 0), (89, 0, 0)}
    assert ("streams.version", 1) in {(each.name, each.max_version_level) for each in answer.finalized_features}


def test_internal_topics_are_made_and_the_group_is_there_after_kill_9(
    broker: KavkaProcess, client: BrokerClient
) -> None:
    name, source = application(), client.create_topic(f"words-{uuid.uuid4().hex}", partitions=3)
    with StreamsMember(broker.port, name, "one") as member:
        first = member.join(counting(name, source))
        assert codes(first) == [3]
        assert f"{name}-counts-changelog" in first.status[0].status_detail

        def assigned() -> Any:
            answer = member.beat(has={})
            return answer if answer.active_tasks else None

        answer = eventually("tasks are given", assigned)
        assert ids(answer.active_tasks) == {"0": [0, 1, 2], "1": [0, 1, 2]}
        changelog = DescribeConfigsResource(resource_type=TOPIC, resource_name=f"{name}-counts-changelog")
        configs = client.ask(DescribeConfigsRequest(resources=[changelog]), 4).results[0].configs
        assert {each.name: each.value for each in configs}["cleanup.policy"] == "compact"
        before = described(client, name)
        assert (before.group_state, before.error_code) == ("Stable", 0)
        assert [part.subtopology_id for part in before.topology.subtopologies] == ["0", "1"]
        assert before.topology.subtopologies[1].state_changelog_topics[0].partitions == 3
        epoch = member.epoch
    broker.kill()
    broker.start()
    with BrokerClient(broker.port) as client, StreamsMember(broker.port, name, "one") as member:
        member.epoch = epoch
        told = eventually("the group is served again", lambda: _unless_error(member.beat(has={"0": [0], "1": [0]})))
        assert told.member_epoch == epoch
        assert ids(told.active_tasks) == {"0": [0, 1, 2], "1": [0, 1, 2]}, "it may not have been told"
        after = described(client, name)
        assert after == before
        listed = client.ask(ListGroupsRequest(states_filter=[], types_filter=["streams"]), 5).groups
        assert [(group.group_id, group.group_state) for group in listed if group.group_id == name] == [(name, "Stable")]
        (refused,) = client.ask(DeleteGroupsRequest(groups_names=[name]), 2).results
        assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
        assert member.leave().member_epoch == -1
        (deleted,) = client.ask(DeleteGroupsRequest(groups_names=[name]), 2).results
        assert deleted.error_code == 0
        assert described(client, name).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def _unless_error(answer: Any) -> Any:
    return None if answer.error_code else answer


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("__consumer_offsets", "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology is prohib"),
        ("not a name", "Topic names not a name are not valid topic names."),
    ],
)
def test_topics_that_an_application_cannot_have_are_refused(broker: KavkaProcess, source: str, why: str) -> None:
    with StreamsMember(broker.port, application(), "one") as member:
        answer = member.ask_to_join(reading(source))
        assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
        assert answer.error_message.startswith(why)


def test_a_topic_that_cannot_be_created_is_named_with_the_reason(broker: KavkaProcess, client: BrokerClient) -> None:
    name, source = application(), client.create_topic(f"words-{uuid.uuid4().hex}")
    topology = reading(source)
    topology.subtopologies[0].state_changelog_topics = [TopicInfo(name=f"{name}-store-changelog", replication_factor=9)]
    with StreamsMember(broker.port, name, "one") as member:
        assert codes(member.join(topology)) == [3]

        def told() -> bool:
            return "INVALID_REPLICATION_FACTOR" in member.beat(has={}).status[0].status_detail

        assert eventually("the member learns why", told)


def test_the_command_line_shows_tasks_and_what_they_read(broker: KavkaProcess, client: BrokerClient) -> None:
    name, source = application(), client.create_topic(f"words-{uuid.uuid4().hex}", partitions=2)
    with StreamsMember(broker.port, name, "one") as member:
        member.join(reading(source))
        facts = json.loads(run_alone("groups", "describe", name, "--json", "-b", broker.bootstrap).stdout)[0]
        assert (facts["type"], facts["state"], facts["epoch"]) == ("streams", "Stable", 2)
        (shown,) = facts["members"]
        assert (shown["active"], shown["standby"], shown["process"]) == ({"0": [0, 1]}, {}, "process-of-one")
        assert shown["partitions"] == [[source, 0], [source, 1]]
        text = run_alone("groups", "describe", name, "--members", "-b", broker.bootstrap).stdout.decode()
        assert "0:0,1" in text
        assert "PROCESS" in text
        listed = run_alone("groups", "list", "--type", "streams", "-b", broker.bootstrap).stdout.decode()
        assert name in listed


def test_they_are_off_where_the_feature_level_or_the_setting_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    off = {**SETTINGS, "group.coordinator.rebalance.protocols": "classic,consumer"}
    with KavkaProcess(tmp_path_factory.mktemp("off"), settings=off) as broker, BrokerClient(broker.port) as client:
        assert not served(client)
        assert described(client, "g").error_code == ErrorCode.UNSUPPORTED_VERSION
    with KavkaProcess(tmp_path_factory.mktemp("zero"), settings=SETTINGS) as broker:
        done = run_alone("features", "downgrade", "streams.version=0", "-b", broker.bootstrap)
        assert done.returncode == 0, done.stderr
        with BrokerClient(broker.port) as client, StreamsMember(broker.port, "g", "one") as member:
            assert not served(client)
            assert member.ask_to_join(reading("t")).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_what_is_in_use_is_switched_off_only_by_force(tmp_path: Path) -> None:
    """The group is at another broker than the controller, which asks all of them."""
    settings = {**SETTINGS, "offsets.topic.num.partitions": "8", "offsets.topic.replication.factor": "1"}
    with ProcessCluster(tmp_path / "kavka", brokers=2, defaults=settings) as cluster:
        cluster.start()
        asked = cluster.bootstrap
        controller = cluster.controller()
        with BrokerClient(cluster.brokers[controller].port) as client:
            source = client.create_topic("words")
            found = [find_coordinator(client, f"app-{number}") for number in range(20)]
            number = next(number for number, node in enumerate(found) if node != controller)
        name, at = f"app-{number}", cluster.brokers[1 - controller].port
        with StreamsMember(at, name, "one") as member:
            member.join(reading(source))
            refused = run_alone("features", "downgrade", "streams.version=0", "-b", asked)
            assert refused.returncode != 0
            assert f"1 group could not go on without streams.version, for example {name}" in refused.stderr.decode()
            forced = run_alone("features", "downgrade", "--unsafe", "streams.version=0", "-b", asked)
            assert forced.returncode == 0, forced.stderr
            unsupported = ErrorCode.UNSUPPORTED_VERSION
            eventually("the other broker has the level", lambda: member.beat(has={}).error_code == unsupported)
            assert run_alone("features", "upgrade", "streams.version=1", "-b", asked).returncode == 0
            eventually("the other broker has the level, too", lambda: member.leave().member_epoch == -1)
        empty = run_alone("features", "downgrade", "streams.version=0", "-b", asked)
        assert empty.returncode == 0, empty.stderr


def find_coordinator(client: BrokerClient, group: str) -> int:
    def found() -> Any:
        answer = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4).coordinators[0]
        return None if answer.error_code else (answer.node_id,)

    (node_id,) = eventually("groups have coordinators", found)
    return int(node_id)


def served(client: BrokerClient) -> bool:
    answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    return bool({88, 89} & {row.api_key for row in answer.api_keys})
