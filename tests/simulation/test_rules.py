"""Each rule of the observer fires where it is broken: by what is done to a replica, a znode or a broker's code here.

A rule that never fires would let everything pass. What breaks a rule in kavka itself stands in `mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kavka.errors import ErrorCode, StorageError
from kavka.model import LeaderAndIsr, TopicPartition
from kavka.protocol.api_keys import ApiKey
from kavka.protocol.messages.alter_partition_request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kavka.protocol.messages.alter_partition_response import AlterPartitionResponse
from kavka.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kavka.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from kavka.protocol.messages.update_metadata_request import UpdateMetadataRequest
from kavka.protocol.messages.update_metadata_response import UpdateMetadataResponse
from kavka.protocol.peer import PeerConnection
from kavka.protocol.schema import Message
from kavka.records.builder import BatchBuilder
from kavka.replication.decide.partition import Partition
from kavka.simulator.host.broker import PORT, SimulatedBroker
from kavka.simulator.rules.replica_view import Violation
from kavka.simulator.world import TOPIC, World
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.znode_paths import partition_state_path
from kavka.zookeeper.znodes import ControllerNode, PartitionState

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PARTITION = TopicPartition(TOPIC, 0)
NOW_MS = 1_767_225_600_000


@pytest.fixture
def world() -> World:
    """Three brokers and one partition with some committed records; nobody writes any more."""
    world = World(11, partitions=1)
    world.start()
    world.clients.add_producer(mean_pause_s=0.05)
    world.run_until(lambda: world.clients.acked >= 10, within_s=30)
    world.clients.is_writing = False
    world.run_for(3)
    return world


def replica(world: World, broker_id: int) -> Partition:
    hosted = world.brokers[broker_id].broker
    assert hosted is not None
    found = hosted.replicas.partition(*PARTITION)
    assert found is not None
    return found


def wake(partition: Partition) -> None:
    """Something else than what is known to its followers will be so now."""
    for remote in partition.remote_replicas():
        remote.wake()


def leader(world: World) -> int:
    return world.observer.stored[PARTITION].state.leader


def followers(world: World) -> list[int]:
    return [broker_id for broker_id in world.brokers if broker_id != leader(world)]


def check(world: World, broker_id: int) -> None:
    world.observer.check_broker(world.brokers[broker_id], world.scheduler.now_ms)


def records(value: bytes, *, offset: int, leader_epoch: int) -> bytearray:
    """A batch of one record, as a leader has it."""
    builder = BatchBuilder()
    builder.append(NOW_MS, None, value)
    return bytearray(builder.build(base_offset=offset, partition_leader_epoch=leader_epoch))


def append(world: World, broker_id: int, value: bytes, *, leader_epoch: int) -> None:
    log = replica(world, broker_id).log
    log.append_as_follower(records(value, offset=log.log_end_offset, leader_epoch=leader_epoch), NOW_MS)


def ask(world: World, broker_id: int, key: ApiKey, version: int, message: Message, answer: type[Any]) -> Any:
    """What the broker answers to somebody who may be anybody."""
    loop = world.clients.node("somebody")
    network = world.network.port_of(loop.name, loop)

    async def run() -> Any:
        connection = await PeerConnection.open(
            network, f"broker-{broker_id}", PORT, client_id="somebody", connect_timeout_ms=1_000
        )
        return await connection.request(key, version, message, answer, timeout_ms=5_000)

    task = loop.create_task(run())
    world.run_until(task.done, within_s=10)
    return task.result()


def write(world: World, path: str, change: Callable[[bytes | None], bytes]) -> None:
    """Somebody writes a znode past the controller."""
    loop = world.clients.node("meddler")

    async def run() -> None:
        zookeeper = await ZooKeeperClient.connect(
            world.network.port_of(loop.name, loop),
            world.zookeeper.connect_string,
            session_timeout_ms=6_000,
            connection_timeout_ms=6_000,
            rng=world.scheduler.new_random(),
        )
        data, stat = await zookeeper.get(path)
        await zookeeper.set(path, change(data), version=stat.version)

    task = loop.create_task(run())
    world.run_until(task.done, within_s=10)
    task.result()


def store(world: World, change: Callable[[PartitionState], PartitionState]) -> None:
    """Somebody writes a partition's state past the controller."""
    path = partition_state_path(PARTITION)
    write(world, path, lambda data: change(PartitionState.decode(PARTITION, data)).encode())


def broken(rule: str) -> Any:
    return pytest.raises(Violation, match=f"^{rule} at ")


# -- logs


def test_r2_a_member_of_a_leaders_isr_loses_what_that_leader_calls_committed(world: World) -> None:
    member = followers(world)[0]
    log = replica(world, member).log
    log.set_high_watermark(0)
    check(world, member)
    log.truncate_to(log.log_end_offset - 1, NOW_MS)

    with broken("R2"):
        check(world, member)


def test_r4_two_logs_have_one_epoch_at_one_offset_and_other_records_there(world: World) -> None:
    one, other = followers(world)
    epoch = replica(world, one).leader_epoch
    append(world, one, b"one", leader_epoch=epoch)
    check(world, one)
    append(world, other, b"other", leader_epoch=epoch)

    with broken("R4"):
        check(world, other)


def test_r4_logs_that_parted_are_compared_below_that(world: World) -> None:
    one, other = followers(world)
    epoch = replica(world, one).leader_epoch
    for broker_id, value in ((one, b"one"), (other, b"other")):
        append(world, broker_id, value, leader_epoch=epoch)
        append(world, broker_id, value, leader_epoch=epoch + broker_id)
    check(world, one)

    with broken("R4"):
        check(world, other)


def test_r6_a_member_of_the_stored_isr_loses_committed_records_while_its_leaders_disk_fails(world: World) -> None:
    member = followers(world)[0]
    replica(world, leader(world)).log.failure = StorageError("/logs", "no such device")
    log = replica(world, member).log
    log.set_high_watermark(0)
    check(world, member)
    log.truncate_to(log.log_end_offset - 1, NOW_MS)

    with broken("R6"):
        check(world, member)


def test_r32_a_log_begins_later_and_its_idle_followers_are_not_told(world: World) -> None:
    hosted = replica(world, leader(world))
    assert all(remote.idle is not None for remote in hosted.remote_replicas())
    assert hosted.log.delete_records(1)

    with broken("R32"):
        check(world, leader(world))


def test_r32_a_partition_leaves_its_broker_and_stays_in_a_session(world: World) -> None:
    hosted = world.brokers[leader(world)].broker
    assert hosted is not None
    hosted.replicas._partitions.pop(PARTITION)

    with broken("R32"):
        check(world, leader(world))


def test_r11_a_log_is_cut_below_its_high_watermark(world: World) -> None:
    member = followers(world)[0]
    log = replica(world, member).log
    log.truncate_to(log.high_watermark - 1, NOW_MS)

    with broken("R11"):
        check(world, member)


def test_r13_an_epoch_falls_along_a_log(world: World) -> None:
    member = followers(world)[0]
    epoch = replica(world, member).leader_epoch
    append(world, member, b"later", leader_epoch=epoch + 5)
    check(world, member)
    append(world, member, b"earlier", leader_epoch=epoch + 4)

    with broken("R13"):
        check(world, member)


def test_r13_the_epoch_checkpoint_says_something_else_than_the_log(world: World) -> None:
    member = followers(world)[0]
    log = replica(world, member).log
    append(world, member, b"as it should be", leader_epoch=replica(world, member).leader_epoch)
    log.assign_epoch_start_offset(replica(world, member).leader_epoch + 7, log.log_end_offset - 1)

    with broken("R13"):
        check(world, member)


def test_r16_a_record_is_acknowledged_that_was_appended_under_too_small_an_isr(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Partition, "_refuse_produce", lambda self, now_ms: None)
    monkeypatch.setattr(Partition, "has_enough_replicas", lambda self: True)
    for broker_id in followers(world):
        world.brokers[broker_id].kill()
    world.run_until(lambda: len(world.observer.stored[PARTITION].state.isr) == 1, within_s=60)
    world.clients.is_writing = True
    world.clients.add_producer(mean_pause_s=0.05)
    world.run_for(1)
    for broker_id in followers(world):
        world.brokers[broker_id].start()

    with broken("R16"):
        world.run_for(30)


# -- restarts


def restart(world: World, broker: SimulatedBroker, meanwhile: Callable[[str], None]) -> None:
    """Kills the broker and starts it again; `meanwhile` something happens to the file of its log."""
    path = next(path for path in broker.disk.files if f"/{PARTITION}/" in path and path.endswith(".log"))
    broker.kill()
    meanwhile(path)
    broker.start()
    world.run_for(30)


def test_r22_a_killed_broker_is_back_with_less_than_it_had_written(world: World) -> None:
    broker = world.brokers[followers(world)[0]]

    with broken("R22"):
        restart(world, broker, lambda path: broker.disk.files[path].data.__delitem__(slice(-1, None)))


def stop_and_start(world: World, broker: SimulatedBroker, meanwhile: Callable[[], None]) -> None:
    """Stops the broker in order, so that all is durable, and starts it again after something has happened."""
    broker.stop()
    world.run_until(lambda: not broker.is_alive, within_s=30)
    meanwhile()
    broker.start()
    world.run_for(30)


def test_r22_a_power_cut_takes_what_was_durable(world: World) -> None:
    broker = world.brokers[followers(world)[0]]

    def lose() -> None:
        broker.lose_power()
        world.observer.on_power_cut(broker.broker_id)
        for path in [path for path in broker.disk.files if f"/{PARTITION}/" in path and path.endswith(".log")]:
            broker.disk.files[path].data.clear()

    with broken("R22"):
        stop_and_start(world, broker, lose)


def test_r22_asks_for_nothing_durable_where_only_the_start_of_the_log_has_moved(world: World) -> None:
    broker = world.brokers[followers(world)[0]]
    end = replica(world, broker.broker_id).log.log_end_offset
    world.observer.on_delete_records(PARTITION, end)
    world.administer(lambda admin: admin.delete_records({PARTITION: end}))
    world.run_until(lambda: replica(world, broker.broker_id).log.log_start_offset == end, within_s=30)
    assert replica(world, broker.broker_id).log.recovery_point == end

    broker.power_cut()
    world.observer.on_power_cut(broker.broker_id)
    for path in [path for path in broker.disk.files if path.endswith((".log", "log-start-offset-checkpoint"))]:
        del broker.disk.files[path]
    broker.start()
    world.run_for(30)

    assert replica(world, broker.broker_id).log.log_end_offset == end


def test_r22_a_log_that_was_closed_in_order_does_not_know_who_wrote_it(world: World) -> None:
    broker = world.brokers[followers(world)[0]]

    def lose() -> None:
        for path in [path for path in broker.disk.files if f"/{PARTITION}/" in path and path.endswith(".snapshot")]:
            del broker.disk.files[path]

    with broken("R22"):
        stop_and_start(world, broker, lose)


def test_r22_a_damaged_batch_is_served(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.log.segment.Segment.recover", _take_as_it_is, raising=False)
    broker = world.brokers[followers(world)[0]]

    with broken("R22"):
        restart(world, broker, lambda path: broker.disk.damage(path, len(broker.disk.files[path].data) - 2))


def _take_as_it_is(*_arguments: object, **_settings: object) -> None:
    return None


def test_r22_a_log_claims_to_be_flushed_beyond_its_end(world: World) -> None:
    broker = world.brokers[followers(world)[0]]
    broker.kill()
    broker.start()
    hosted: list[Partition] = []

    def is_hosted() -> bool:
        found = broker.hosted.replicas.partition(*PARTITION) if broker.hosted is not None else None
        hosted[:] = [found] if found is not None else []
        return bool(hosted)

    with broken("R22"):
        while not is_hosted():
            if broker.hosted is not None:
                for log in getattr(broker.hosted, "logs", ()):
                    log._durability.recovery_point = log.log_end_offset + 5
            world.run_for(0.000_001)
        check(world, broker.broker_id)


# -- the ISR


@pytest.fixture
def shrunk(world: World) -> World:
    """The last follower is dead, and out of the ISR."""
    gone = followers(world)[-1]
    world.brokers[gone].kill()
    world.run_until(lambda: gone not in world.observer.stored[PARTITION].state.isr, within_s=60)
    return world


def test_r10_an_isr_grows_that_no_leader_proposed(shrunk: World) -> None:
    with broken("R10"):
        store(shrunk, lambda state: replace(state, isr=(1, 2, 3)))


def test_r21_an_election_adds_a_member(shrunk: World) -> None:
    with broken("R21"):
        store(shrunk, lambda state: replace(state, isr=(1, 2, 3), leader_epoch=state.leader_epoch + 1))


def test_r10_a_leader_proposes_who_has_not_caught_up(shrunk: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = next(broker_id for broker_id in (1, 2, 3) if not shrunk.brokers[broker_id].is_alive)
    partition = replica(shrunk, leader(shrunk))
    remote = partition.remote_replica(gone)
    assert remote is not None
    remote.reset(0, in_sync=False, keep_caught_up=False)
    monkeypatch.setattr(type(remote), "is_eligible", lambda self, status: True)
    # The comparison that keeps it out is answered as if it had everything.
    monkeypatch.setattr(partition, "leader_epoch_start_offset", -1)
    known = remote.log_end_offset
    remote.log_end_offset = partition.log.high_watermark
    partition._propose_expand(remote, 10**9)
    remote.log_end_offset = known

    with broken("R10"):
        check(shrunk, leader(shrunk))


def test_r10_the_controller_takes_a_member_that_is_not_alive(shrunk: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.controller.decide.isr_proposals._ineligible", lambda broker_id, epoch, context: None)
    state, hosted = shrunk.observer.stored[PARTITION], shrunk.brokers[leader(shrunk)].broker
    assert hosted is not None
    topic_id = shrunk.observer.topic_id(TOPIC)
    assert topic_id is not None
    members = [BrokerState(broker_id=broker_id, broker_epoch=-1) for broker_id in (1, 2, 3)]
    proposed = PartitionData(
        partition_index=0,
        leader_epoch=state.state.leader_epoch,
        partition_epoch=state.version,
        new_isr_with_epochs=members,
    )
    request = AlterPartitionRequest(
        broker_id=leader(shrunk),
        broker_epoch=hosted.broker_epoch,
        topics=[TopicData(topic_id=topic_id, partitions=[proposed])],
    )

    with broken("R10"):
        ask(shrunk, shrunk.observer.controller, ApiKey.ALTER_PARTITION, 3, request, AlterPartitionResponse)


def test_r12_who_lost_committed_records_with_its_power_leads(world: World) -> None:
    lossy = leader(world)
    replica(world, lossy).log.truncate_fully_and_start_at(0, NOW_MS)
    world.observer.on_power_cut(lossy)  # What its next life finds is looked at anew.

    with broken("R12"):
        check(world, lossy)


# -- fencing


def test_r14_a_question_of_an_older_epoch_is_answered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "check_epoch", lambda self, current_leader_epoch: None)
    partition = replica(world, leader(world))
    wake(partition)
    partition.state = LeaderAndIsr(*partition.state[:1], partition.state.leader_epoch + 1, *partition.state[2:])
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=partition.state.leader_epoch - 1, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=[asked])])

    with broken("R14"):
        key = ApiKey.OFFSET_FOR_LEADER_EPOCH
        ask(world, leader(world), key, 4, request, OffsetForLeaderEpochResponse)


def test_r14_an_order_of_an_old_controller_is_obeyed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.broker.metadata.state_changes.StateChanges._refusal", lambda *epochs: ErrorCode.NONE)
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=0, broker_epoch=-1)

    with broken("R14"):
        ask(world, 1, ApiKey.UPDATE_METADATA, 7, request, UpdateMetadataResponse)


# -- elections, and what clients were told


def test_r3_a_leader_is_stored_that_is_not_in_sync(world: World) -> None:
    with broken("R3"):
        store(world, lambda stored: replace(stored, isr=tuple(followers(world))))


def test_r15_two_brokers_are_the_controller_of_one_epoch(world: World) -> None:
    other = next(broker_id for broker_id in world.brokers if broker_id != world.observer.controller)

    with broken("R15"):
        write(world, ControllerNode.PATH, lambda data: replace(ControllerNode.decode(data), broker_id=other).encode())


def test_r16_a_record_is_acknowledged_before_it_is_committed(world: World) -> None:
    with broken("R16"):
        world.observer.on_acked(PARTITION, world.observer.true_high_watermark[PARTITION], b"early", -1)


def test_r17_a_record_lies_before_one_that_was_known_when_it_was_sent(world: World) -> None:
    with broken("R17"):
        world.observer.on_acked(PARTITION, 0, world.observer.acked[PARTITION][0], 0)


def test_r18_one_offset_is_acknowledged_for_two_values(world: World) -> None:
    with broken("R18"):
        world.observer.on_acked(PARTITION, 0, b"another", -1)


def test_r9_a_leaders_high_watermark_falls(world: World) -> None:
    check(world, leader(world))
    replica(world, leader(world)).log.set_high_watermark(0)

    with broken("R9"):
        check(world, leader(world))
