"""A share group's members, request by request, against a broker in a process of its own: who gets which records, which
acknowledgements count, and what is left of it after kill -9.
"""

from __future__ import annotations

import gzip
import struct
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages.api_versions_request import ApiVersionsRequest
from kavka.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.list_groups_request import ListGroupsRequest
from kavka.protocol.messages.read_share_group_state_summary_request import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from kavka.protocol.messages.share_acknowledge_request import ShareAcknowledgeRequest
from kavka.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kavka.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kavka.records.builder import BatchBuilder
from kavka.security.acls import Operation, Permission
from kavka.security.resource_patterns import ResourceType
from tests.kit.broker_client import CLIENT_ID, BrokerClient
from tests.kit.command_line import run_alone
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.quota_script import CONSUME, alter
from tests.kit.share_member import ACCEPT, GAP, REJECT, RELEASE, RENEW, ShareMember

GROUP_RESOURCE = 32


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KavkaProcess]:
    settings = {"share.coordinator.state.topic.num.partitions": "3", "offsets.topic.num.partitions": "1"}
    with KavkaProcess(tmp_path_factory.mktemp("share"), settings=settings) as process:
        yield process


@pytest.fixture
def client(broker: KavkaProcess) -> Iterator[BrokerClient]:
    with BrokerClient(broker.port) as client:
        yield client


def batch(count: int) -> bytes:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(number, None, str(number).encode())
    return builder.build()


def topic_of(client: BrokerClient, *counts: int) -> tuple[str, uuid.UUID]:
    """A topic with a batch of each size, and its id."""
    name = client.create_topic(f"queue-{uuid.uuid4().hex}")
    for count in counts:
        assert client.produce(name, batch(count)).error_code == 0
    return name, client.topic_id(name)


def group_of(client: BrokerClient, **settings: str) -> str:
    """A group that begins at the start of its topics."""
    group = f"workers-{uuid.uuid4().hex}"
    wanted = {"share_auto_offset_reset": "earliest", **settings}
    configs = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value) for name, value in wanted.items()
    ]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=configs)
    answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer
    return group


@pytest.fixture
def queue(client: BrokerClient, broker: KavkaProcess) -> Iterator[tuple[ShareMember, uuid.UUID]]:
    """A member that has joined, and its topic of ten records in two batches."""
    topic, found = topic_of(client, 4, 6)
    with ShareMember(broker.port, group_of(client)) as member:
        member.join_assigned(topic)
        member.topic = topic
        yield member, found


def summary(client: BrokerClient, group: str, topic: uuid.UUID) -> Any:
    data = ReadStateSummaryData(topic_id=topic, partitions=[PartitionData(partition=0, leader_epoch=-1)])
    answer = client.ask(ReadShareGroupStateSummaryRequest(group_id=group, topics=[data]), 1)
    return answer.results[0].partitions[0]


def test_where_they_are_switched_off_they_are_not_advertised(tmp_path: Path) -> None:
    def advertised() -> set[int]:
        with BrokerClient(process.port) as client:
            answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
            return {row.api_key for row in answer.api_keys}

    with KavkaProcess(tmp_path / "data") as process:
        assert advertised() >= {*range(76, 80), *range(83, 88), *range(90, 93)}
        off = run_alone("features", "downgrade", "share.version=0", "-b", process.bootstrap)
        assert off.returncode == 0, off.stderr
        assert advertised().isdisjoint({*range(76, 80), *range(83, 88), *range(90, 93)})
        with ShareMember(process.port, "workers") as member:
            assert member.fetch_answer(uuid.UUID(int=1)).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_share_groups_are_advertised_in_the_versions_of_kafka_4_3(client: BrokerClient) -> None:
    answer = client.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
    found = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert [found[key] for key in (76, 77, 78, 79, 83, 84, 85, 86, 87, 90, 91, 92)] == [
        (1, 1), (1, 1), (1, 2), (1, 2), (0, 0), (0, 0), (0, 1), (0, 0), (0, 1), (0, 1), (0, 0), (0, 0),
    ]  # fmt: skip
    assert ("share.version", 2) in {(each.name, each.max_version_level) for each in answer.finalized_features}


def test_what_is_accepted_is_not_given_out_again_and_what_is_released_is(
    queue: tuple[ShareMember, uuid.UUID], client: BrokerClient
) -> None:
    member, topic = queue
    assert member.fetch(topic) == [(0, 9, 1)]
    assert member.fetch(topic, wait_ms=0) == []
    assert member.acknowledge(topic, (0, 3, [ACCEPT]), (4, 9, [RELEASE, ACCEPT, REJECT, GAP, RELEASE, ACCEPT])) == 0
    assert member.fetch(topic) == [(4, 4, 2), (8, 8, 2)]
    state = summary(client, member.group, topic)
    assert (state.start_offset, state.delivery_complete_count) == (4, 4)


def test_an_acknowledgement_of_what_is_not_held_changes_nothing(
    queue: tuple[ShareMember, uuid.UUID], broker: KavkaProcess
) -> None:
    member, topic = queue
    with ShareMember(broker.port, member.group) as other:
        assert other.fetch(topic, max_records=4) == [(0, 3, 1)]
        assert member.fetch(topic) == [(4, 9, 1)]
        invalid = ErrorCode.INVALID_REQUEST
        for batches, error in (
            ([(0, 3, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),  # another's
            ([(2, 5, [ACCEPT])], ErrorCode.INVALID_RECORD_STATE),  # partly another's
            ([(4, 20, [ACCEPT])], invalid),  # past what was given
            ([(9, 4, [ACCEPT])], invalid),  # reversed
            ([(4, 6, [ACCEPT]), (5, 9, [ACCEPT])], invalid),  # overlapping
            ([(7, 9, [ACCEPT]), (4, 6, [ACCEPT])], invalid),  # out of order
            ([(4, 9, [ACCEPT, ACCEPT])], invalid),  # neither one type nor one each
            ([(4, 9, [5])], invalid),
            ([(4, 9, [RENEW])], invalid),  # the request does not say that it renews
        ):
            assert member.acknowledge(topic, *batches) == error, batches
        assert member.acknowledge(topic, (4, 9, [ACCEPT])) == 0
        assert member.acknowledge(topic, (4, 9, [ACCEPT])) == ErrorCode.INVALID_RECORD_STATE
        assert other.acknowledge(topic, (0, 3, [ACCEPT])) == 0


def test_a_request_with_a_wrong_session_epoch_changes_nothing(queue: tuple[ShareMember, uuid.UUID]) -> None:
    member, topic = queue
    assert member.acknowledge(topic, (0, 3, [ACCEPT])) == ErrorCode.INVALID_SHARE_SESSION_EPOCH  # it has none yet
    member.epoch = 5
    assert member.fetch_answer(topic).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.epoch = 0
    assert member.fetch(topic) == [(0, 9, 1)]
    for wrong in (0, 2, 77):
        error = member.acknowledge(topic, (0, 9, [ACCEPT]), share_session_epoch=wrong)
        assert error == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.fetch_answer(topic, share_session_epoch=9).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge(topic, (0, 9, [ACCEPT])) == 0


def test_locks_are_free_as_soon_as_the_connection_is_gone(
    queue: tuple[ShareMember, uuid.UUID], broker: KavkaProcess
) -> None:
    member, topic = queue
    with ShareMember(broker.port, member.group) as vanishing:
        assert vanishing.fetch(topic) == [(0, 9, 1)]
    assert member.fetch(topic, wait_ms=20_000) == [(0, 9, 2)]


def test_a_fetch_that_waits_gets_nothing_once_its_session_is_closed(
    queue: tuple[ShareMember, uuid.UUID], broker: KavkaProcess
) -> None:
    """A member closes its session while it waits for more. What it gives back went to its own fetch: nobody had the
    records, and they were locked."""
    member, topic = queue
    assert member.fetch(topic) == [(0, 9, 1)]
    waiting = member.fetch_request(topic, wait_ms=3_000)
    closing = ShareAcknowledgeRequest(group_id=member.group, member_id=member.name, share_session_epoch=-1)
    member.send(waiting, 2)
    member.send(closing, 2)
    with ShareMember(broker.port, member.group) as other:
        other.join_assigned(member.topic)
        assert other.fetch(topic, wait_ms=20_000) == [(0, 9, 2)]
    answer = member.receive(waiting, 2)
    assert answer.error_code == 0
    assert not any(data.acquired_records for each in answer.responses for data in each.partitions)
    assert member.receive(closing, 2).error_code == 0


def test_a_renewed_lock_is_still_held(client: BrokerClient, broker: KavkaProcess) -> None:
    topic, found = topic_of(client, 2)
    with ShareMember(broker.port, group_of(client)) as member:
        member.join_assigned(topic)
        assert member.fetch(found) == [(0, 1, 1)]
        assert member.acknowledge(found, (0, 1, [RENEW]), is_renew_ack=True) == 0
        assert member.acknowledge(found, (0, 1, [ACCEPT])) == 0


def test_a_renewal_in_a_group_without_renewals_is_refused_as_by_kafka(
    client: BrokerClient, broker: KavkaProcess
) -> None:
    topic, found = topic_of(client, 4)
    with ShareMember(broker.port, group_of(client, share_renew_acknowledge_enable="false")) as member:
        member.join_assigned(topic)
        assert member.fetch(found) == [(0, 3, 1)]
        refused = member.acknowledge(found, (0, 0, [RENEW]), (1, 3, [ACCEPT]), is_renew_ack=True)
        assert refused == ErrorCode.INVALID_RECORD_STATE
        assert member.acknowledge(found, (0, 3, [ACCEPT])) == 0, "the request was refused as a whole"


def test_large_records_go_out_together_and_a_fetch_waits_for_as_many_bytes_as_it_asks(
    client: BrokerClient, broker: KavkaProcess
) -> None:
    """Each batch is as large as what is read at once."""
    topic = client.create_topic(f"queue-{uuid.uuid4().hex}")
    builder = BatchBuilder()
    builder.append(1, None, b"x" * 1_000_000)
    for _ in range(6):
        assert client.produce(topic, builder.build()).error_code == 0
    found = client.topic_id(topic)
    with ShareMember(broker.port, group_of(client)) as member:
        member.join_assigned(topic)
        fetch = {"max_bytes": 50 << 20, "wait_ms": 60_000}
        assert member.fetch(found, max_records=2, **fetch) == [(0, 1, 1)]
        assert member.fetch(found, min_bytes=2_500_000, max_records=3, **fetch) == [(2, 4, 1)]
        assert member.fetch(found, **fetch) == [(5, 5, 1)]
        assert member.acknowledge(found, (0, 5, [RELEASE])) == 0
        assert member.fetch(found, max_bytes=1_500_000) == [(0, 0, 2)]


def test_batches_larger_than_what_is_read_at_once_go_out_together(client: BrokerClient, broker: KavkaProcess) -> None:
    """As with Apache Kafka 4.3. Each of them is a few bytes larger than a megabyte."""

    def built(size: int) -> bytes:
        builder = BatchBuilder()
        builder.append(0, None, b"x" * size)
        return bytes(builder.build())

    name, topic_id = topic_of(client)
    largest = 1_048_588  # max.message.bytes
    batch = built(2 * largest - len(built(largest)))
    assert (1 << 20) + 1 < len(batch) <= largest
    for _ in range(9):
        assert client.produce(name, batch).error_code == 0
    with ShareMember(broker.port, group_of(client)) as member:
        member.join_assigned(name)
        assert eventually("they come", lambda: member.fetch(topic_id, max_bytes=1 << 30)) == [(0, 6, 1)], "8 MiB"
        assert member.fetch(topic_id, max_bytes=1 << 30) == [(7, 8, 1)]


def test_large_records_go_out_together_again_until_they_have_failed_often(
    client: BrokerClient, broker: KavkaProcess
) -> None:
    """As with Apache Kafka 4.3: what a dead member held is not given out a megabyte at a time."""
    name, topic_id = topic_of(client)
    for _ in range(6):
        builder = BatchBuilder()
        builder.append(0, None, b"x" * 600_000)
        assert client.produce(name, builder.build()).error_code == 0
    group = group_of(client)
    found = []
    for _ in range(4):
        with ShareMember(broker.port, group) as member:
            member.join_assigned(name)
            found.append(eventually("they come", lambda member=member: member.fetch(topic_id, max_bytes=8 << 20)))
    assert found == [[(0, 5, 1)], [(0, 5, 2)], [(0, 5, 3)], [(0, 0, 4)]]


def test_a_fetch_of_what_has_no_state_is_answered_so_that_clients_go_on(
    client: BrokerClient, broker: KavkaProcess
) -> None:
    """Of a topic that is being deleted, or before the group has made its states. Java's consumer ends its application
    after INVALID_REQUEST of a partition; Apache Kafka 4.3.1 answers as here."""
    _topic, found = topic_of(client, 1)
    with ShareMember(broker.port, group_of(client)) as member:
        (topic,) = member.fetch_answer(found, wait_ms=100).responses
        assert [partition.error_code for partition in topic.partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_record_limit_gives_never_more_and_a_poisonous_record_is_isolated(
    client: BrokerClient, broker: KavkaProcess
) -> None:
    topic, found = topic_of(client, 8)
    with ShareMember(broker.port, group_of(client, share_delivery_count_limit="3")) as member:
        member.join_assigned(topic)
        assert member.fetch(found, max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
        assert member.acknowledge(found, (0, 2, [RELEASE])) == 0
        assert member.fetch(found, max_records=3, share_acquire_mode=1) == [(0, 2, 2)]
        assert member.acknowledge(found, (0, 2, [RELEASE])) == 0
        assert member.fetch(found) == [(0, 0, 3)]  # alone, in its last attempt
        assert member.acknowledge(found, (0, 0, [RELEASE])) == 0  # archived
        assert member.fetch(found) == [(1, 1, 3)]


def test_groups_are_listed_described_and_deleted(queue: tuple[ShareMember, uuid.UUID], client: BrokerClient) -> None:
    member, topic = queue
    assert member.fetch(topic) == [(0, 9, 1)]
    listed = client.ask(ListGroupsRequest(types_filter=["share"]), 5).groups
    assert (member.group, "share", "Stable", "share") in {
        (group.group_id, group.protocol_type, group.group_state, group.group_type) for group in listed
    }
    described = client.ask(ShareGroupDescribeRequest(group_ids=[member.group]), 1).groups[0]
    assert (described.group_state, described.assignor_name, len(described.members)) == ("Stable", "simple", 1)
    assert client.ask(DeleteGroupsRequest(groups_names=[member.group]), 2).results[0].error_code == 68
    gone = ShareGroupHeartbeatRequest(group_id=member.group, member_id=member.name, member_epoch=-1)
    assert member.ask(gone, 1).error_code == 0
    assert client.ask(DeleteGroupsRequest(groups_names=[member.group]), 2).results[0].error_code == 0
    assert summary(client, member.group, topic).start_offset == -1
    assert client.ask(ShareGroupDescribeRequest(group_ids=[member.group]), 1).groups[0].error_code == 69


def stored(directory: Path) -> list[tuple[int, int]]:
    """(codec, kind of record) of each batch of states that was written: 0 is a snapshot, 1 an update."""
    data = (directory / "__share_group_state-0" / "00000000000000000000.log").read_bytes()
    found, position = [], 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        records = data[position + 61 : position + 12 + length]
        plain = gzip.decompress(records) if attributes & 7 == 1 else records
        place = 0
        for is_number in (True, False, True, True, True):  # length, attributes, timestamp, offset, length of the key
            while is_number and plain[place] & 0x80:
                place += 1
            place += 1
        (kind,) = struct.unpack_from(">h", plain, place)
        found.append((attributes & 7, kind))
        position += 12 + length
    return found


@pytest.mark.setting(
    "group.share.max.share.sessions",
    "share.coordinator.snapshot.update.records.per.snapshot",
    "share.coordinator.state.topic.compression.codec",
)
def test_sessions_are_bounded_and_states_written_as_the_settings_say(tmp_path: Path) -> None:
    settings = {
        "group.share.max.share.sessions": "1",
        "share.coordinator.snapshot.update.records.per.snapshot": "1",
        "share.coordinator.state.topic.compression.codec": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
    }
    with KavkaProcess(tmp_path / "data", settings=settings) as process:
        with BrokerClient(process.port) as client:
            topic, found = topic_of(client, 6)
            group = group_of(client)
            with ShareMember(process.port, group) as member, ShareMember(process.port, group) as other:
                member.join_assigned(topic)
                other.join_assigned(topic)
                assert member.fetch(found) == [(0, 5, 1)]
                for wait_ms in (0, 700):  # As Apache Kafka 4.3 does it: else such members asked as fast as they can.
                    began = time.monotonic()
                    refused = other.fetch_answer(found, wait_ms=wait_ms)
                    assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
                    assert time.monotonic() - began >= wait_ms / 1000
                for offset in range(6):
                    assert member.acknowledge(found, (offset, offset, [ACCEPT])) == 0
        kinds = [kind for codec, kind in stored(tmp_path / "data" / "logs") if codec == 1]
        assert kinds.count(0) >= 3
        assert (1, 1) not in set(pairwise(kinds)), "no two updates without a snapshot between them"


def test_the_state_survives_kill_9(tmp_path: Path) -> None:
    settings = {"share.coordinator.state.topic.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    with KavkaProcess(tmp_path, settings=settings) as process:
        with BrokerClient(process.port) as client:
            topic, found = topic_of(client, 4, 6)
            group = group_of(client)
            with ShareMember(process.port, group, "survivor") as member:
                member.join_assigned(topic)
                assert member.fetch(found) == [(0, 9, 1)]
                assert member.acknowledge(found, (0, 2, [ACCEPT]), (4, 5, [RELEASE]), (7, 7, [ACCEPT])) == 0
                process.kill()
        process.restart()

        def coordinated() -> bool:
            with BrokerClient(process.port) as client:
                asked = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
                described = client.ask(ShareGroupDescribeRequest(group_ids=[group]), 1).groups[0]
                return client.ask(asked, 6).coordinators[0].error_code == 0 and described.error_code == 0

        eventually("the group is loaded", coordinated)
        with ShareMember(process.port, group, "survivor") as member:
            # 3, 6, 8 and 9 were held: locks are not stored, so they count as never delivered.
            assert member.fetch(found) == [(3, 3, 1), (4, 5, 2), (6, 6, 1), (8, 9, 1)]
            assert member.acknowledge(found, (3, 6, [ACCEPT]), (8, 9, [ACCEPT])) == 0
            assert member.fetch(found, wait_ms=0) == []


@pytest.mark.setting(
    "share.coordinator.state.topic.prune.interval.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
)
def test_what_is_superseded_goes_and_the_states_survive_kill_9(tmp_path: Path) -> None:
    settings = {
        "share.coordinator.state.topic.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "share.coordinator.snapshot.update.records.per.snapshot": "3",
        "share.coordinator.state.topic.prune.interval.ms": "50",
        "share.coordinator.cold.partition.snapshot.interval.ms": "300",
    }

    def begins() -> int:
        with BrokerClient(process.port) as client:
            return int(client.offset("__share_group_state", -2).offset)

    with KavkaProcess(tmp_path, settings=settings) as process:
        with BrokerClient(process.port) as client:
            cold, cold_id = topic_of(client, 3)
            hot, hot_id = topic_of(client, 60)
            group = group_of(client)
            with ShareMember(process.port, group) as member:
                member.join_assigned(cold, hot)
                assert member.fetch(cold_id) == [(0, 2, 1)]
                assert member.acknowledge(cold_id, (0, 0, [ACCEPT]), (2, 2, [ACCEPT])) == 0
                assert (0, 59, 1) in member.fetch(hot_id)
                for offset in range(0, 60, 2):
                    assert member.acknowledge(hot_id, (offset, offset, [ACCEPT])) == 0
                # What the hot one has superseded has gone, and the first records of the cold one before that.
                eventually("the log begins later", lambda: begins() >= 20)
                process.kill()  # While the member holds its records: what it gives back when it goes would be counted.
        process.restart()
        with ShareMember(process.port, group) as member:
            member.join_assigned(cold, hot)
            assert member.fetch(cold_id) == [(1, 1, 1)]
            assert [first for first, _last, _count in member.fetch(hot_id)] == list(range(1, 60, 2))
        # Nobody knows where states that were read begin. They are written anew once they are cold.
        eventually("the log begins later again", lambda: begins() >= 20)


def test_why_records_were_delivered_again_is_told(queue: tuple[ShareMember, uuid.UUID], broker: KavkaProcess) -> None:
    member, topic = queue
    assert member.fetch(topic) == [(0, 9, 1)]
    assert member.acknowledge(topic, (0, 3, [RELEASE]), (4, 5, [REJECT]), (6, 6, [ACCEPT])) == 0
    name = member.topic

    def told() -> str:
        return run_alone("why", f"{name}-0", "--json", "-b", broker.bootstrap).stdout.decode()

    eventually("it is told", lambda: "again: rejected by a member" in told())
    assert f"group {member.group} gets records 0 to 3 again: released by a member" in told()
    assert f"group {member.group} does not get records 4 to 5 again: rejected by a member" in told()
    member.close()
    eventually("the session is over", lambda: "the member's share session ended" in told())


def test_a_member_over_its_quota_waits_and_gets_each_record_once(tmp_path: Path) -> None:
    """What is acquired leaves: an answer without it would lock it, and count as a delivery."""
    with KavkaProcess(tmp_path / "data", settings={"quota.window.num": "2"}) as process:
        with BrokerClient(process.port) as client:
            name = client.create_topic()
            builder = BatchBuilder()
            builder.append(1, None, b"x" * 50_000)
            for _ in range(6):
                assert client.produce(name, builder.build()).error_code == 0
            found, group = client.topic_id(name), group_of(client)
            assert alter(client, [((("client-id", CLIENT_ID),), [(CONSUME, 100_000.0)])])[0][1] == 0
        with ShareMember(process.port, group) as member:
            member.join_assigned(name)
            began, told, counts = time.monotonic(), 0, Counter[int]()
            while len(counts) < 6:
                assert time.monotonic() < began + 120
                answer = member.fetch_answer(found)
                assert answer.error_code == 0
                told = max(told, answer.throttle_time_ms)
                for topic in answer.responses:
                    for each in topic.partitions[0].acquired_records:
                        assert each.delivery_count == 1
                        counts.update(range(each.first_offset, each.last_offset + 1))
            assert counts == Counter(range(6))
            assert told > 0
            assert time.monotonic() - began > 1  # 300 KB, of which 100 KB are free.


@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.GROUP])
def test_whose_right_ends_while_it_waits_gets_nothing_of_what_comes_then(kind: ResourceType, tmp_path: Path) -> None:
    settings = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    member_host = "127.0.0.7"
    with KavkaProcess(tmp_path / "data", settings=settings) as process, BrokerClient(process.port) as client:
        topic, found = topic_of(client, 4)
        group = group_of(client)
        name = topic if kind is ResourceType.TOPIC else group

        def add(permission: Permission, host: str, operation: Operation) -> None:
            entry = AclCreation(
                resource_type=kind,
                resource_name=name,
                principal="User:*",
                host=host,
                operation=operation,
                permission_type=permission,
            )
            assert client.ask(CreateAclsRequest(creations=[entry]), 3).results[0].error_code == 0

        add(Permission.ALLOW, "*", Operation.ALL)
        with ShareMember(process.port, group, source=member_host) as member:
            member.join_assigned(topic)
            assert member.fetch(found) == [(0, 3, 1)]
            request = member.fetch_request(found, wait_ms=50_000)
            member.send(request, 2)
            add(Permission.DENY, member_host, Operation.READ)
            assert client.produce(topic, batch(5)).error_code == 0
            answer = member.receive(request, 2)
            assert answer.error_code == 0
            [data] = answer.responses[0].partitions
            refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED if kind is ResourceType.TOPIC else ErrorCode.NONE
            assert (data.error_code, data.acquired_records, bytes(data.records or b"")) == (refused, [], b"")
            member.epoch += 1
        with ShareMember(process.port, group) as another:  # Nothing of it was locked.
            another.join_assigned(topic)
            assert (4, 8, 1) in another.fetch(found)
