"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders: the same codes as Apache Kafka's."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence

from kavka.client.admin import Admin, ElectionType, NewTopic, Reassignment
from kavka.errors import ErrorCode, RequestError
from kavka.model import TopicPartition
from tests.kit.three_brokers import Brokers

_numbers = itertools.count()


async def make(admin: Admin, *replicas: tuple[int, ...]) -> str:
    """A topic whose partitions have these replicas."""
    name = f"moved-{next(_numbers)}"
    assert await admin.create_topics([NewTopic(name, assignments=replicas)]) == {}
    await admin.describe_topics([name])
    return name


def codes(failures: Mapping[TopicPartition, RequestError | None]) -> dict[int, ErrorCode]:
    return {key.partition: ErrorCode.NONE if error is None else error.code for key, error in failures.items()}


async def until_nothing_moves(admin: Admin) -> None:
    async with asyncio.timeout(30):
        while await admin.list_partition_reassignments():  # noqa: ASYNC110 - there is nothing else to wait for
            await asyncio.sleep(0.05)


async def settled(admin: Admin, partition: TopicPartition, replicas: Sequence[int]) -> None:
    """Waits until metadata says so, and that all of them are in sync."""
    async with asyncio.timeout(30):
        while True:
            (topic,) = await admin.describe_topics([partition.topic])
            found = topic.partitions[partition.partition]
            if found.replicas == tuple(replicas) and sorted(found.in_sync_replicas) == sorted(replicas):
                return
            await asyncio.sleep(0.05)


def test_nonsense_is_answered_with_the_same_codes(brokers: Brokers) -> None:
    async def work(admin: Admin) -> None:
        name = await make(admin, *[(1, 2)] * 6)
        wishes: dict[TopicPartition, Sequence[int] | None] = {
            TopicPartition(name, 0): [],
            TopicPartition(name, 1): [1, 1],
            TopicPartition(name, 2): [1, -1],
            TopicPartition(name, 3): [1, 99],
            TopicPartition(name, 4): None,
            TopicPartition(name, 5): [1, 2],
            TopicPartition(name, 6): [1, 2],
        }
        assert codes(await admin.alter_partition_reassignments(wishes)) == {
            0: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            1: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            2: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            3: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            4: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            6: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        unknown = TopicPartition("nobody-made-this", 0)
        refused = await admin.alter_partition_reassignments({unknown: [1]})
        assert refused[unknown].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await admin.list_partition_reassignments([unknown, TopicPartition(name, 0)]) == {}

    brokers.ask(work)


def test_a_partition_moves_and_the_list_forgets_it(brokers: Brokers) -> None:
    async def work(admin: Admin) -> None:
        partition = TopicPartition(await make(admin, (1, 2)), 0)
        assert await admin.alter_partition_reassignments({partition: [3, 2]}) == {}
        await until_nothing_moves(admin)
        await settled(admin, partition, (3, 2))
        assert await admin.alter_partition_reassignments({partition: [1, 2, 3]}) == {}
        await until_nothing_moves(admin)
        await settled(admin, partition, (1, 2, 3))
        assert await admin.alter_partition_reassignments({partition: [2]}) == {}
        await until_nothing_moves(admin)
        await settled(admin, partition, (2,))

    brokers.ask(work)


def test_elections_are_answered_with_the_same_codes(brokers: Brokers) -> None:
    async def work(admin: Admin) -> None:
        name = await make(admin, (1, 2), (2, 3))
        moved, home = TopicPartition(name, 0), TopicPartition(name, 1)
        await settled(admin, moved, (1, 2))
        await settled(admin, home, (2, 3))
        # The order of the replicas changes, and with it who is preferred; the leader stays.
        assert await admin.alter_partition_reassignments({moved: [2, 1]}) == {}
        await settled(admin, moved, (2, 1))
        missing = TopicPartition(name, 7)
        outcomes = await admin.elect_leaders(ElectionType.PREFERRED, [moved, home, missing])
        assert codes(outcomes) == {
            0: ErrorCode.NONE,
            1: ErrorCode.ELECTION_NOT_NEEDED,
            7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        (topic,) = await admin.describe_topics([name])
        assert topic.partitions[0].leader == 2
        outcomes = await admin.elect_leaders(ElectionType.UNCLEAN, [moved, home])
        assert codes(outcomes) == {0: ErrorCode.ELECTION_NOT_NEEDED, 1: ErrorCode.ELECTION_NOT_NEEDED}
        everything = await admin.elect_leaders(ElectionType.PREFERRED)
        assert [each for each in everything if each.topic == name] == []

    brokers.ask(work)


def test_lists_and_cancellations_of_a_move_that_takes_its_time(brokers: Brokers) -> None:
    async def work(admin: Admin) -> None:
        partition = TopicPartition(await make(admin, (1, 2)), 0)
        await settled(admin, partition, (1, 2))
        listed: dict[TopicPartition, Reassignment] = {}
        for _ in range(20):
            # It may be over before anybody looks: then it goes back, and once more.
            assert await admin.alter_partition_reassignments({partition: [3, 1]}) == {}
            listed = await admin.list_partition_reassignments([partition])
            if listed:
                break
            assert await admin.alter_partition_reassignments({partition: [1, 2]}) == {}
            await until_nothing_moves(admin)
        if listed:
            assert listed == {partition: Reassignment((3, 1, 2), (3,), (2,))}
        failures = await admin.alter_partition_reassignments({partition: None})
        if failures:
            assert codes(failures) == {0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
        else:
            await settled(admin, partition, (1, 2))
        await until_nothing_moves(admin)

    brokers.ask(work)
