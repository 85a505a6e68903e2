"""Lies about groups, and far too much of everything: Kafka's error codes, and the group goes on."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kavka.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.heartbeat_request import HeartbeatRequest
from kavka.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.kit.broker_client import BrokerClient, Closed
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

MIB = 1024 * 1024
TOPIC = "read"
_names = itertools.count()


@pytest.fixture
def client(kavka_broker: KavkaProcess) -> BrokerClient:
    client = BrokerClient(int(kavka_broker.bootstrap.rpartition(":")[2]))
    topic = CreatableTopic(name=TOPIC, num_partitions=2, replication_factor=1, assignments=[], configs=[])
    client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)

    def is_coordinated() -> bool:
        found = client.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators[0]
        return not found.error_code

    eventually("groups are coordinated", is_coordinated)
    return client


def group() -> str:
    return f"group-{next(_names)}"


def join(client: BrokerClient, group_id: str, **changes: Any) -> Any:
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        group_instance_id="static",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"s")],
    )
    for name, value in changes.items():
        setattr(request, name, value)
    return client.ask(request, 9)


def stable(client: BrokerClient, group_id: str) -> tuple[str, int]:
    joined = join(client, group_id)
    assert joined.error_code == ErrorCode.NONE
    member = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    synced = client.ask(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id="static",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[member],
        ),
        5,
    )
    assert synced.assignment == b"mine"
    return joined.member_id, joined.generation_id


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "stolen", "group_instance_id": None}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stolen"}, ErrorCode.FENCED_INSTANCE_ID),
        ({"session_timeout_ms": 1}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 2_000_000_000}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocols": [JoinGroupRequestProtocol(name="other", metadata=b"")]}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_join_that_lies_is_refused_and_changes_nothing(
    client: BrokerClient, changes: dict[str, Any], expected: ErrorCode
) -> None:
    group_id = group()
    member_id, generation = stable(client, group_id)
    assert join(client, group_id, **changes).error_code == expected
    alive = HeartbeatRequest(
        group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id="static"
    )
    assert client.ask(alive, 4).error_code == ErrorCode.NONE


def test_an_old_generation_and_a_strangers_commit_are_refused(client: BrokerClient) -> None:
    group_id = group()
    member_id, generation = stable(client, group_id)
    assert commit(client, group_id, member_id=member_id, generation=generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert commit(client, group_id, member_id="stranger", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(client, group_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(client, group_id, member_id=member_id, generation=generation) == ErrorCode.NONE


def commit(
    client: BrokerClient,
    group_id: str,
    *,
    member_id: str = "",
    generation: int = -1,
    topic: str = TOPIC,
    partition: int = 0,
    metadata: str = "",
) -> ErrorCode:
    place = OffsetCommitRequestPartition(partition_index=partition, committed_offset=1, committed_metadata=metadata)
    answer = client.ask(
        OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])],
        ),
        8,
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_commits_of_too_much_or_for_nothing_are_refused_one_by_one(client: BrokerClient) -> None:
    group_id = group()
    assert commit(client, group_id, metadata="m" * 4_097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(client, group_id, metadata="m" * 32_767) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert commit(client, group_id, topic="unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, group_id, partition=2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, group_id, partition=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, group_id, metadata="m" * 4_096) == ErrorCode.NONE


def test_subscriptions_of_megabytes_are_kept_or_refused_and_the_next_member_is_served(client: BrokerClient) -> None:
    group_id = group()
    huge = [JoinGroupRequestProtocol(name="range", metadata=b"s" * 5 * MIB)]
    joined = join(client, group_id, protocols=huge)
    assert joined.error_code == ErrorCode.NONE
    synced = client.ask(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id="static",
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        ),
        5,
    )
    # Its record does not fit into the log: as in Kafka, the coordinator has no better word for it.
    assert synced.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    stable(client, group())


def test_heartbeats_with_made_up_topics_and_partitions_do_no_harm(client: BrokerClient) -> None:
    group_id = group()

    def beat(epoch: int, owned: list[TopicPartitions] | None, names: list[str] | None) -> Any:
        return client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=group_id,
                member_id="m",
                member_epoch=epoch,
                rebalance_timeout_ms=10_000,
                subscribed_topic_names=names,
                topic_partitions=owned,
            ),
            1,
        )

    joined = beat(0, [], [TOPIC, *(f"made-up-{number}" for number in range(10_000))])
    assert joined.error_code == ErrorCode.NONE
    assert [len(part.partitions) for part in joined.assignment.topic_partitions] == [2]
    made_up = [TopicPartitions(topic_id=uuid.UUID(int=number), partitions=[-1, 2**31 - 1]) for number in range(1_000)]
    assert beat(joined.member_epoch, made_up, None).error_code == ErrorCode.NONE
    assert beat(-2_000_000, None, None).error_code == ErrorCode.INVALID_REQUEST
    try:
        code = beat(0, [], ["x" * 32_000] * 200).error_code
    except Closed:
        pytest.fail("a large heartbeat closed the connection")
    assert code in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert beat(-1, None, None).error_code == ErrorCode.NONE
