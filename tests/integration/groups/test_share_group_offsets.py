"""Positions of share groups: described, set anew, forgotten, and what members get then.

What Apache Kafka answers to the same requests is in `tests/conformance/wire/scenarios_share.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import alter_share_group_offsets_request as altering
from kavka.protocol.messages import delete_share_group_offsets_request as deleting
from kavka.protocol.messages import describe_share_group_offsets_request as describing
from kavka.protocol.messages import incremental_alter_configs_request as configs
from kavka.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kavka.records.builder import BatchBuilder
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually
from tests.kit.share_member import ACCEPT, RELEASE, ShareMember

GROUP_RESOURCE = 32


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KavkaProcess]:
    settings = {"share.coordinator.state.topic.num.partitions": "3", "offsets.topic.num.partitions": "1"}
    with KavkaProcess(tmp_path_factory.mktemp("share-offsets"), settings=settings) as process:
        with BrokerClient(process.port) as client:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=["anybody"])
            eventually("a coordinator is there", lambda: client.ask(find, 6).coordinators[0].error_code == 0)
        yield process


@pytest.fixture
def client(broker: KavkaProcess) -> Iterator[BrokerClient]:
    with BrokerClient(broker.port) as client:
        yield client


class Queue:
    """A topic of ten records, and a group that begins at the first."""

    def __init__(self, client: BrokerClient, partitions: int = 1) -> None:
        self.client = client
        self.topic = client.create_topic(f"queue-{uuid.uuid4().hex}", partitions=partitions)
        self.topic_id = client.topic_id(self.topic)
        self.group = f"workers-{uuid.uuid4().hex}"
        builder = BatchBuilder()
        for number in range(10):
            builder.append(number, None, str(number).encode())
        for index in range(partitions):
            assert client.produce(self.topic, builder.build(), partition=index).error_code == 0
        change = configs.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = configs.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self.group, configs=[change]
        )
        answer = client.ask(configs.IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert answer.responses[0].error_code == 0, answer

    def where(self, partition: int = 0) -> tuple[int, int]:
        """(start offset, lag)."""
        topic = describing.DescribeShareGroupOffsetsRequestTopic(topic_name=self.topic, partitions=[partition])
        asked = describing.DescribeShareGroupOffsetsRequestGroup(group_id=self.group, topics=[topic])
        answer = self.client.ask(describing.DescribeShareGroupOffsetsRequest(groups=[asked]), 1).groups[0]
        assert answer.error_code == 0, answer
        found = answer.topics[0].partitions[0]
        assert found.error_code == 0, found
        return found.start_offset, found.lag

    def alter(self, offsets: Mapping[int, int]) -> Any:
        partitions = [
            altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
            for index, offset in offsets.items()
        ]
        topic = altering.AlterShareGroupOffsetsRequestTopic(topic_name=self.topic, partitions=partitions)
        return self.client.ask(altering.AlterShareGroupOffsetsRequest(group_id=self.group, topics=[topic]), 0)

    def forget(self) -> Any:
        topic = deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=self.topic)
        return self.client.ask(deleting.DeleteShareGroupOffsetsRequest(group_id=self.group, topics=[topic]), 0)

    def delete(self) -> int:
        return int(self.client.ask(DeleteGroupsRequest(groups_names=[self.group]), 2).results[0].error_code)


@pytest.fixture
def queue(client: BrokerClient) -> Queue:
    return Queue(client)


def test_the_lag_counts_what_is_not_done_yet(queue: Queue, broker: KavkaProcess) -> None:
    with ShareMember(broker.port, queue.group) as member:
        member.join_assigned(queue.topic)
        assert queue.where() == (-1, -1)  # Nobody has read yet, so nobody has decided where it begins.
        assert member.fetch(queue.topic_id) == [(0, 9, 1)]
        assert queue.where() == (0, 10)
        assert member.acknowledge(queue.topic_id, (0, 1, [ACCEPT]), (2, 2, [RELEASE]), (5, 7, [ACCEPT])) == 0
        assert queue.where() == (2, 5)
        assert queue.where(7) == (-1, -1)


def test_a_position_that_cannot_be_meant_is_refused_and_one_far_behind_the_end_is_described(queue: Queue) -> None:
    """What was left was a number for which the answer has no room: nobody could describe the group any more."""
    refused = queue.alter({0: -(2**63)}).responses[0].partitions[0]
    assert refused.error_code == ErrorCode.INVALID_REQUEST, refused
    assert queue.alter({0: 2**63 - 1}).responses[0].partitions[0].error_code == 0
    assert queue.where() == (2**63 - 1, 10 - (2**63 - 1))


def test_after_a_reset_members_get_what_lies_behind_it_whatever_was_done_before(
    queue: Queue, broker: KavkaProcess
) -> None:
    with ShareMember(broker.port, queue.group) as member:
        member.join_assigned(queue.topic)
        assert member.fetch(queue.topic_id) == [(0, 9, 1)]
        assert member.acknowledge(queue.topic_id, (0, 8, [ACCEPT])) == 0
        assert queue.alter({0: 4}).error_code == ErrorCode.NON_EMPTY_GROUP
        assert queue.where() == (9, 1)
        member.leave()
        answer = queue.alter({0: 4, 3: 1})
        codes = {each.partition_index: each.error_code for each in answer.responses[0].partitions}
        assert (answer.error_code, codes) == (0, {0: 0, 3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        assert queue.where() == (4, 6)
        # It was no longer a member, but its share session went on. What it says of the time before does not count.
        assert member.acknowledge(queue.topic_id, (9, 9, [ACCEPT])) != 0
        assert queue.where() == (4, 6)
    with ShareMember(broker.port, queue.group) as member:
        member.join_assigned(queue.topic)
        assert member.fetch(queue.topic_id) == [(4, 9, 1)]
        assert member.acknowledge(queue.topic_id, (4, 9, [ACCEPT])) == 0
        assert queue.where() == (10, 0)


def test_offsets_outside_of_the_log_count_as_its_ends(queue: Queue, broker: KavkaProcess) -> None:
    assert queue.alter({0: 400}).responses[0].partitions[0].error_code == 0
    with ShareMember(broker.port, queue.group) as member:
        member.join_assigned(queue.topic)
        assert member.fetch(queue.topic_id, wait_ms=0) == []
        # A fetch does not wait for the partition's state, and the end that counts is the one when that is read.
        nothing_held, unread = (0, 0, [ACCEPT]), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        eventually("the state is read", lambda: member.acknowledge(queue.topic_id, nothing_held) != unread)
        more = BatchBuilder()
        more.append(0, None, b"ten")
        assert queue.client.produce(queue.topic, more.build()).error_code == 0
        assert member.fetch(queue.topic_id) == [(10, 10, 1)]
        member.leave()
    assert queue.alter({0: 0}).responses[0].partitions[0].error_code == 0
    with ShareMember(broker.port, queue.group) as member:
        member.join_assigned(queue.topic)
        assert member.fetch(queue.topic_id) == [(0, 10, 1)]


def test_a_group_forgets_a_topic_and_begins_again_where_its_setting_says(queue: Queue, broker: KavkaProcess) -> None:
    with ShareMember(broker.port, queue.group) as member:
        member.join_assigned(queue.topic)
        assert member.fetch(queue.topic_id) == [(0, 9, 1)]
        assert member.acknowledge(queue.topic_id, (0, 9, [ACCEPT])) == 0
        assert queue.forget().error_code == ErrorCode.NON_EMPTY_GROUP
        member.leave()
    answer = queue.forget()
    assert (answer.error_code, answer.responses[0].error_code) == (0, 0)
    assert queue.where() == (-1, -1)
    assert queue.forget().responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with ShareMember(broker.port, queue.group) as member:
        member.join_assigned(queue.topic)
        assert member.fetch(queue.topic_id) == [(0, 9, 1)]


def test_a_group_that_is_deleted_and_made_again_begins_anew_on_all_of_its_partitions(
    client: BrokerClient, broker: KavkaProcess
) -> None:
    queue = Queue(client, partitions=3)
    for _ in range(2):
        with ShareMember(broker.port, queue.group) as member:
            member.join_assigned(queue.topic)
            for index in range(3):
                assert member.fetch(queue.topic_id, index) == [(0, 9, 1)]
                assert member.acknowledge(queue.topic_id, (0, 9, [ACCEPT]), partition=index) == 0
            assert queue.delete() == ErrorCode.NON_EMPTY_GROUP
            member.leave()
        assert [queue.where(index) for index in range(3)] == [(10, 0)] * 3
        assert queue.delete() == 0
        assert [queue.where(index) for index in range(3)] == [(-1, -1)] * 3
    assert queue.delete() == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_that_come_while_a_group_is_deleted_find_a_state(queue: Queue, broker: KavkaProcess) -> None:
    """Deletion and making of states take turns: a state that is made is not deleted behind the member's back."""
    for number in range(8):
        with ShareMember(broker.port, queue.group) as member, BrokerClient(broker.port) as other:
            member.join_assigned(queue.topic)
            member.leave()
            deletion = DeleteGroupsRequest(groups_names=[queue.group])
            other.send(deletion, 2)
            member.join_assigned(queue.topic)
            assert other.receive(deletion, 2).results[0].error_code in (0, ErrorCode.NON_EMPTY_GROUP)
            member.epoch = 0
            assert member.fetch(queue.topic_id)[-1][1] == 9, number
            member.leave()


def test_what_was_set_and_deleted_survives_kill_9(tmp_path: Path) -> None:
    settings = {"share.coordinator.state.topic.num.partitions": "1", "offsets.topic.num.partitions": "1"}
    with KavkaProcess(tmp_path, settings=settings) as process:
        with BrokerClient(process.port) as client:
            altered, gone = Queue(client), Queue(client)
            for queue in (altered, gone):
                find = FindCoordinatorRequest(key_type=0, coordinator_keys=[queue.group])
                eventually("a coordinator", lambda find=find: not client.ask(find, 6).coordinators[0].error_code)
                eventually("it has loaded", lambda queue=queue: queue.alter({0: 7}).error_code == 0)
            assert gone.delete() == 0
        process.kill()
        process.restart()

        def loaded() -> bool:
            with BrokerClient(process.port) as client:
                described = client.ask(ShareGroupDescribeRequest(group_ids=[altered.group]), 1).groups[0]
                return bool(described.error_code == 0)

        eventually("the group is loaded", loaded)
        with BrokerClient(process.port) as client:
            altered.client = gone.client = client
            eventually("the states are loaded", lambda: altered.where() == (7, 3))
            assert gone.where() == (-1, -1)
            assert gone.delete() == ErrorCode.GROUP_ID_NOT_FOUND
        with ShareMember(process.port, altered.group) as member:
            member.join_assigned(altered.topic)
            assert member.fetch(altered.topic_id) == [(7, 9, 1)]
