"""Deletion with several brokers: replicas first, dead brokers waited for; and topics that tools wrote."""

from __future__ import annotations

from pathlib import Path

from kavka.controller.controller import ControllerSettings
from kavka.controller.decide.state_machines import Replica, ReplicaStatus
from kavka.controller.decide.topic_plans import TopicRequest
from kavka.decisions import DecisionKind
from kavka.errors import ErrorCode
from kavka.model import BrokerId, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.zookeeper.znodes import TopicAssignment
from tests.unit.controller.scripted_brokers import Brokers, run, until

T0 = TopicPartition("t", 0)


async def create(cluster: Brokers, name: str, replicas: list[int]) -> None:
    (outcome,) = await cluster.controller.controller.topics.create_topics(
        [TopicRequest(name, assignment={0: replicas})]
    )
    assert outcome.code is ErrorCode.NONE


async def delete(cluster: Brokers, name: str, timeout_ms: int = 5_000) -> None:
    (outcome,) = await cluster.controller.controller.topics.delete_topics([name], timeout_ms=timeout_ms)
    assert outcome.code is ErrorCode.NONE


async def is_there(cluster: Brokers, name: str) -> bool:
    return await cluster.admin.exists(f"/brokers/topics/{name}") is not None


def test_a_topic_is_deleted_on_every_broker_and_then_from_the_tree(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, "t", [2, 3])
        await delete(cluster, "t")
        assert not await is_there(cluster, "t")
        assert await cluster.admin.children("/admin/delete_topics") == []
        for broker_id in (2, 3):
            (stop,) = cluster[broker_id].inside.told(ApiKey.STOP_REPLICA)
            (partition,) = stop.topic_states[0].partition_states
            assert (partition.leader_epoch, partition.delete_partition) == (-2, True)
        assert cluster[1].inside.told(ApiKey.STOP_REPLICA) == []
        await until(lambda: cluster[1].inside.metadata("t", 0) == (-2, 0, [2, 3]))
        (why,) = cluster[1].reasons(DecisionKind.TOPIC_DELETED)
        assert why == "topic t is deleted: replicas on brokers [2, 3], 2 in all, then its znodes"
        await create(cluster, "t", [1, 2])

    run(tmp_path, scenario)


def test_a_topic_that_was_made_anew_is_not_deleted_by_its_predecessors_id(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        topics = cluster.controller.controller.topics
        (made,) = await topics.create_topics([TopicRequest("t", assignment={0: [2]})])
        assert made.topic_id is not None
        await delete(cluster, "t")
        await create(cluster, "t", [2])
        (outcome,) = await topics.delete_topics(["t"], topic_ids={"t": made.topic_id})
        assert outcome.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert await is_there(cluster, "t")

    run(tmp_path, scenario)


def test_deletion_waits_for_a_dead_broker_and_goes_on_when_it_is_back(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, "t", [2, 3])
        cluster.kill(3)
        await until(lambda: 3 in cluster[1].controller.context.unreachable)
        await delete(cluster, "t", timeout_ms=50)
        assert await is_there(cluster, "t")
        replicas = cluster[1].controller.context.replicas
        await until(lambda: replicas.state(Replica(T0, BrokerId(2))) is ReplicaStatus.DELETION_SUCCESSFUL)
        assert replicas.state(Replica(T0, BrokerId(3))) is ReplicaStatus.DELETION_INELIGIBLE
        (outcome,) = await cluster[1].controller.topics.create_topics([TopicRequest("t", 1, 1)])
        assert outcome.code is ErrorCode.TOPIC_ALREADY_EXISTS
        (outcome,) = await cluster[1].controller.topics.delete_topics(["t"])
        assert outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.restart(3)
        await until(lambda: "t" not in cluster[1].controller.context.topics)
        assert not await is_there(cluster, "t")
        assert cluster[3].inside.leads("t", 0) is None, "it leads and follows nothing of what is deleted"

    run(tmp_path, scenario)


def test_a_broker_that_dies_while_it_deletes_is_asked_again(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, "t", [2])
        cluster[2].inside.running.clear()
        await delete(cluster, "t", timeout_ms=50)
        cluster.kill(2)
        await until(lambda: 2 in cluster[1].controller.context.unreachable)
        await cluster.restart(2)
        await until(lambda: "t" not in cluster[1].controller.context.topics)

    run(tmp_path, scenario)


def test_a_replica_that_cannot_be_deleted_holds_the_topic_until_its_broker_returns(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, "t", [2, 1])
        cluster[2].inside.errors[(ApiKey.STOP_REPLICA, T0)] = ErrorCode.KAFKA_STORAGE_ERROR
        await delete(cluster, "t", timeout_ms=50)
        assert await is_there(cluster, "t")
        cluster.kill(2)
        await cluster.restart(2)
        await until(lambda: "t" not in cluster[1].controller.context.topics)

    run(tmp_path, scenario)


def test_a_new_controller_completes_the_deletion(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2, 3)
        await create(cluster, "t", [2, 3])
        cluster[3].inside.running.clear()
        await delete(cluster, "t", timeout_ms=50)
        cluster.kill(1)
        await cluster.expire(1)
        cluster[3].inside.running.set()
        await until(lambda: "t" not in cluster.controller.controller.context.topics)
        assert not await is_there(cluster, "t")
        assert await cluster.admin.children("/admin/delete_topics") == []

    run(tmp_path, scenario)


def test_a_mark_that_a_tool_left_is_a_wish_and_one_without_a_topic_is_removed(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, "t", [2, 1])
        await cluster.admin.create("/admin/delete_topics/t")
        await cluster.admin.create("/admin/delete_topics/nothing")
        await until(lambda: "t" not in cluster[1].controller.context.topics)
        await cluster.settled()
        assert await cluster.admin.children("/admin/delete_topics") == []

    run(tmp_path, scenario)


def test_where_deletion_is_disabled_marks_are_removed(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.admin.create("/admin/delete_topics/before")
        await cluster.join(1, settings=ControllerSettings(deletion_enabled=False))
        await create(cluster, "t", [1])
        await cluster.admin.create("/admin/delete_topics/t")
        await cluster.settled()
        assert await cluster.admin.children("/admin/delete_topics") == []
        assert await is_there(cluster, "t")
        assert not cluster[1].controller.context.topics_to_delete

    run(tmp_path, scenario)


# -------------------------------------------------------------------------------------------- what tools write


def test_a_topic_that_a_tool_wrote_gets_leaders_and_brokers_are_told(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await cluster.admin.create("/brokers/topics/t", TopicAssignment("t", {0: [2, 1], 1: [1, 2]}, None).encode())
        await until(lambda: cluster[2].inside.leads("t", 1) == (1, 0, [1, 2]))
        assert (await cluster.state("t")).leader == 2
        assert cluster[1].reasons(DecisionKind.TOPIC_CREATED)
        # Leaders name topics by id when they propose an ISR: it is given one.
        data, stat = await cluster.admin.get("/brokers/topics/t")
        topic_id = TopicAssignment.decode("t", data).topic_id
        assert topic_id is not None
        told = cluster[2].inside.told(ApiKey.LEADER_AND_ISR)[-1]
        assert told.topic_states[0].topic_id == topic_id
        await cluster.settled()
        assert cluster[1].controller.context.topics["t"].version == stat.version == 1
        assert cluster[1].controller.context.topic_name(topic_id) == "t"

    run(tmp_path, scenario)


def test_topics_of_an_older_kafka_are_given_ids_when_a_term_begins(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        for name in ("a", "b"):
            await cluster.admin.create(f"/brokers/topics/{name}", TopicAssignment(name, {0: [1]}, None).encode())
        await cluster.join(1)
        context = cluster[1].controller.context
        given = {context.topics[name].topic_id for name in ("a", "b")}
        assert len(given) == 2
        assert None not in given
        cluster.kill(1)
        await cluster.restart(1)
        again = cluster[1].controller.context
        assert {again.topics[name].topic_id for name in ("a", "b")} == given

    run(tmp_path, scenario)


def test_partitions_that_a_tool_added_get_leaders(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1, 2)
        await create(cluster, "t", [2, 1])
        topic_id = cluster[1].controller.context.topics["t"].topic_id
        grown = TopicAssignment("t", {0: [2, 1], 1: [1, 2]}, topic_id)
        await cluster.admin.set("/brokers/topics/t", grown.encode())
        await until(lambda: cluster[2].inside.leads("t", 1) == (1, 0, [1, 2]))
        assert cluster[2].inside.leads("t", 0) == (2, 0, [2, 1])
        assert cluster[1].reasons(DecisionKind.PARTITIONS_ADDED)

    run(tmp_path, scenario)


def test_garbage_in_a_topics_znode_holds_nobody_up_and_is_read_when_it_is_mended(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1)
        await cluster.admin.create("/brokers/topics/bad", b"\xff{")
        await cluster.settled()
        await create(cluster, "good", [1])
        assert list(cluster[1].controller.context.malformed) == ["/brokers/topics/bad"]
        await cluster.admin.set("/brokers/topics/bad", TopicAssignment("bad", {0: [1]}, None).encode())
        await until(lambda: cluster[1].inside.leads("bad", 0) == (1, 0, [1]))
        assert not cluster[1].controller.context.malformed
        await cluster.admin.create("/brokers/topics/worse", b"\xff{")
        await until(lambda: list(cluster[1].controller.context.malformed) == ["/brokers/topics/worse"])
        await cluster.admin.delete("/brokers/topics/worse")
        await until(lambda: not cluster[1].controller.context.malformed)

    run(tmp_path, scenario)


def test_a_state_that_could_not_be_read_is_forgotten_with_its_topic(tmp_path: Path) -> None:
    """Else a topic that a tool makes under this name gets no leader for the partition, and no broker is told all topics
    until another controller comes."""

    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1)
        await create(cluster, "t", [1])
        await cluster.admin.set("/brokers/topics/t/partitions/0/state", b"\xff{")
        cluster.kill(1)
        await cluster.restart(1)
        assert list(cluster[1].controller.context.malformed) == ["/brokers/topics/t/partitions/0/state"]
        await delete(cluster, "t")
        assert not cluster[1].controller.context.malformed
        await cluster.admin.create("/brokers/topics/t", TopicAssignment("t", {0: [1]}, None).encode())
        await until(lambda: cluster[1].inside.leads("t", 0) == (1, 0, [1]))

    run(tmp_path, scenario)


def test_a_topic_whose_znode_somebody_deleted_is_forgotten(tmp_path: Path) -> None:
    async def scenario(cluster: Brokers) -> None:
        await cluster.join(1)
        await create(cluster, "t", [1])
        for path in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
            await cluster.admin.delete(f"/brokers/topics/t{path}")
        await until(lambda: "t" not in cluster[1].controller.context.topics)

    run(tmp_path, scenario)
