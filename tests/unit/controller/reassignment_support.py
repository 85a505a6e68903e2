"""A cluster of brokers that only follow orders, on an embedded ZooKeeper, with one term after another.

What is real: ZooKeeper, `ControllerTerm`, `Leaders`, `Reassignments`, `Elections`. What is a model: the brokers. A
replica is a log with the leader epoch that its broker was told last; it counts as caught up only in that epoch (S19).

Every write to a state or topic znode is checked against R3, R13 and R21 as it is made, whoever makes it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from kavka.controller.decide.context import ControllerContext, KnownTopic, LiveBroker
from kavka.controller.decide.state_machines import PartitionStatus, Replica, ReplicaStatus
from kavka.controller.orders.delivery import Delivery
from kavka.controller.orders.orders import ClusterChange, partition_order
from kavka.controller.term.controller_term import ControllerTerm, TermRecords
from kavka.controller.work.elections import Elections
from kavka.controller.work.leaders import Leaders
from kavka.controller.work.reassignments import Reassignments
from kavka.decisions import Decision
from kavka.model import NO_LEADER, BrokerId, TopicPartition
from kavka.runtime.disk import LocalFileSystem
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.embedded import EmbeddedZooKeeper, LocalZooKeeper
from kavka.zookeeper.port import (
    BadVersion,
    ConnectionLoss,
    Create,
    Event,
    Operation,
    OperationResult,
    SetData,
    Stat,
    WatchEvent,
)
from kavka.zookeeper.znode_paths import (
    CONTROLLER_EPOCH_PATH,
    PERSISTENT_PATHS,
    TOPICS_PATH,
    partition_path,
    partition_state_path,
    topic_partitions_path,
    topic_path,
)
from kavka.zookeeper.znodes import PartitionState, TopicAssignment, encode_controller_epoch, random_uuid
from tests.unit.controller.cluster_support import NOW_MS, registration


class Killed(Exception):
    """The controller's process is gone."""


class Writes:
    """The controller's way to ZooKeeper: counts its multis, and breaks at one of them."""

    def __init__(self, world: World, session: LocalZooKeeper) -> None:
        self.world = world
        self.made = 0
        self.kill_before = self.kill_after = self.lose_before = self.lose_after = -1
        """The number of the multi, from 0, at which the controller dies or the connection is lost."""
        self.outage_at = -1
        """This one's answer is lost, and from then on the connection, until `outage` is over."""
        self.outage = False
        self._multi = session.multi
        self._exists, self._get, self._get_many = session.exists, session.get, session.get_many
        # A connection that fails where the test says.
        session.multi = self.multi  # type: ignore[method-assign]
        session.exists = self.exists  # type: ignore[method-assign]
        session.get = self.get  # type: ignore[method-assign]
        session.get_many = self.get_many  # type: ignore[method-assign]

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        number = self.made
        self.made += 1
        if number == self.kill_before:
            raise Killed
        if number == self.lose_before or self.outage:
            raise ConnectionLoss
        before = {op.path: await self.world.read(op.path) for op in operations if isinstance(op, SetData)}
        results = await self._multi(operations)
        for op in operations:
            if isinstance(op, SetData):
                self.world.check(op.path, before[op.path], op.data)
        if number == self.kill_after:
            raise Killed
        self.outage = self.outage or number == self.outage_at
        if number == self.lose_after or self.outage:
            raise ConnectionLoss
        return results

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        self._fail_in_outage()
        return await self._exists(path, watch=watch)

    async def get(self, path: str, *, watch: bool = False) -> tuple[bytes | None, Stat]:
        self._fail_in_outage()
        return await self._get(path, watch=watch)

    async def get_many(self, paths: Sequence[str]) -> list[tuple[bytes | None, Stat] | None]:
        self._fail_in_outage()
        return await self._get_many(paths)

    def _fail_in_outage(self) -> None:
        if self.outage:
            raise ConnectionLoss


class Controller:
    """One term."""

    def __init__(self, world: World, session: LocalZooKeeper, context: ControllerContext) -> None:
        self.world = world
        self.writes = Writes(world, session)
        self.term = ControllerTerm(
            session,
            context,
            self._send,
            TermRecords(BrokerId(1), lambda: NOW_MS, world.decisions.append),
        )
        self.context = context
        self.leaders = Leaders(self.term, lambda topic: False)
        self.reassignments = Reassignments(self.term, self.leaders, on_work=self._note_work)
        self.elections = Elections(self.term, self.leaders)
        self.has_work = False
        self.alive = True
        self.changed: list[str] = []
        session.subscribe(self._on_event)

    async def begin(self) -> None:
        """A term's first orders, and what was left to do."""
        orders = tuple(partition_order(self.context, partition) for partition in self.context.states)
        await self.term.order(ClusterChange(partitions=orders, brokers_changed=True, is_complete=True))
        await self.reassignments.resume()

    async def take_in_brokers(self) -> None:
        """Brokers came or went."""
        async with self.term.turn:
            came = tuple(sorted(self.world.live - set(self.context.brokers)))
            for broker_id in came:
                self.world.broker_epochs[broker_id] += 1
            self.context.set_brokers(self.world.live_brokers())
            orders = await self.leaders.react(list(self.context.states))
            self.leaders.place_replicas(list(self.context.states))
            await self.term.order(ClusterChange(partitions=tuple(orders), brokers_changed=True, new_brokers=came))
        await self.reassignments.advance()

    async def work(self) -> None:
        """Handles what the watches told, and what failed."""
        await asyncio.sleep(0)
        stopped, self.world.stopped = self.world.stopped, []
        for partition, broker_id in stopped:
            self.reassignments.note_stopped(broker_id, [partition])
        changed, self.changed = self.changed, []
        heard = [self.reassignments.note_changed(path) for path in changed]
        if any(heard) or self.has_work:
            self.has_work = False
            await self.reassignments.advance()

    async def zookeeper_settled(self) -> None:
        """Whatever has happened was told; watches on what moves are taken note of at once, as by a real controller."""
        for _ in range(3):
            await asyncio.sleep(0)
        changed, self.changed = self.changed, []
        heard = [self.reassignments.note_changed(path) for path in changed]
        self.has_work = self.has_work or any(heard)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, WatchEvent):
            self.changed.append(event.path)

    def _note_work(self) -> None:
        self.has_work = True

    async def _send(self, change: ClusterChange) -> Delivery:
        if self.alive:
            self.world.obey(change, self.context)
        return Delivery()


def registered(broker_epochs: Mapping[BrokerId, int]) -> dict[BrokerId, LiveBroker]:
    """Live brokers, as a context knows them."""
    return {broker_id: LiveBroker(registration(broker_id), epoch) for broker_id, epoch in sorted(broker_epochs.items())}


class World:
    """Topic "t" and its replicas, wherever they are."""

    def __init__(self, server: EmbeddedZooKeeper, admin: LocalZooKeeper) -> None:
        self.server = server
        self.admin = admin
        self.live = {BrokerId(broker_id) for broker_id in range(1, 7)}
        self.hosted: dict[tuple[TopicPartition, BrokerId], int] = {}
        """Replicas on disks, with the leader epoch that they are in."""
        self.told: dict[tuple[TopicPartition, BrokerId], tuple[BrokerId, ...]] = {}
        """The replicas that a leader knows of."""
        self.started: list[tuple[TopicPartition, BrokerId]] = []
        """Replicas that were ordered as new ones."""
        self.brokers_restart = True
        """Whether a broker that was away had ended, or only lost its session."""
        self.broker_epochs = dict.fromkeys(self.live, 1)
        self.orders: list[ClusterChange] = []
        self.stopped: list[Replica] = []
        """What brokers said that they deleted, and the controller has not heard yet."""
        self.may_add: set[TopicPartition] = set()
        """Partitions for which an unclean election was asked for."""
        self.isr: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        """As it was written last."""
        self.decisions: list[Decision] = []
        self.controller: Controller | None = None
        self._epoch = 0

    async def create(self, partitions: dict[int, tuple[int, ...]]) -> None:
        """The topic, in sync and led by the first replicas, hosted where it is assigned."""
        assignment = TopicAssignment("t", partitions, random_uuid(bytes(16)))
        operations: list[Operation] = [Create(topic_path("t"), assignment.encode()), Create(topic_partitions_path("t"))]
        for number, replicas in partitions.items():
            partition = TopicPartition("t", number)
            ids = tuple(map(BrokerId, replicas))
            operations += [
                Create(partition_path(partition)),
                Create(partition_state_path(partition), PartitionState(ids[0], 0, ids, 1).encode()),
            ]
            self.isr[partition] = ids
            for broker_id in ids:
                self.hosted[partition, broker_id] = 0
                self.told[partition, broker_id] = ids
        await self.admin.multi(operations)

    async def new_controller(self) -> Controller:
        """The next term, which has not begun."""
        if self.controller is not None:
            self.controller.alive = False
            self.controller.term.is_over = True
        self._epoch += 1
        stat = await self.admin.set(CONTROLLER_EPOCH_PATH, encode_controller_epoch(self._epoch))
        context = ControllerContext(epoch=self._epoch, epoch_version=stat.version)
        context.set_brokers(self.live_brokers())
        session = await self.server.connect()
        for name in await session.children(TOPICS_PATH):
            data, stat = await session.get(topic_path(name))
            context.set_topic(KnownTopic(TopicAssignment.decode(name, data), stat.version))
        controller = Controller(self, session, context)
        partitions = [partition for topic in context.topics.values() for partition in topic.topic_partitions()]
        await controller.leaders.load(partitions)
        for partition in context.states:
            context.partitions.load(partition, PartitionStatus.ONLINE)
        for replica in context.replicas_of(partitions):
            online = replica.broker_id in self.live
            context.replicas.load(replica, ReplicaStatus.ONLINE if online else ReplicaStatus.OFFLINE)
        self.controller = controller
        return controller

    def live_brokers(self) -> dict[BrokerId, LiveBroker]:
        return registered({broker_id: self.broker_epochs[broker_id] for broker_id in self.live})

    # ------------------------------------------------------------------------------------------------------ brokers

    def obey(self, change: ClusterChange, context: ControllerContext) -> None:
        """What live brokers make of orders."""
        self.orders.append(change)
        for order in change.partitions:
            for broker_id in order.replicas if order.recipients is None else order.recipients:
                if broker_id in self.live:
                    self._host(order.topic_partition, broker_id, order.state.leader_epoch, order.replicas)
                    if order.is_new:
                        self.started.append((order.topic_partition, broker_id))
        for stop in change.stops:
            key = (stop.topic_partition, stop.broker_id)
            if stop.broker_id in self.live and key in self.hosted and stop.leader_epoch >= self.hosted[key]:
                assert stop.delete
                del self.hosted[key]
                self.stopped.append(Replica(*key))
                self.told.pop(key, None)
        for broker_id in sorted(self.live) if change.is_complete else change.new_brokers:
            for partition, known in context.states.items():
                replicas = context.topics[partition.topic].replicas(partition.partition)
                if broker_id in replicas:
                    self._host(partition, broker_id, known.state.leader_epoch, replicas)
                elif self.brokers_restart:
                    # It was taken away while its broker was: a broker that starts serves what is assigned to it only.
                    self.hosted.pop((partition, broker_id), None)

    def _host(self, partition: TopicPartition, broker_id: BrokerId, epoch: int, replicas: tuple[BrokerId, ...]) -> None:
        key = (partition, broker_id)
        if epoch >= self.hosted.get(key, -1):
            self.hosted[key] = epoch
            self.told[key] = replicas

    async def catch_up(self, partition: TopicPartition) -> list[BrokerId]:
        """The leader takes every replica into the ISR that is fetching in its epoch; returns those that joined."""
        state, version = await self.state(partition)
        leader = (partition, state.leader)
        if state.leader not in self.live or self.hosted.get(leader) != state.leader_epoch:
            return []
        joining = [
            broker_id
            for broker_id in self.told[leader]
            if broker_id not in state.isr
            and broker_id in self.live
            and self.hosted.get((partition, broker_id)) == state.leader_epoch
        ]
        if joining:
            await self.write_isr(partition, (*state.isr, *joining), state, version)
        return joining

    async def shrink(self, partition: TopicPartition, broker_id: BrokerId) -> None:
        """The leader drops a follower from the ISR."""
        state, version = await self.state(partition)
        if state.leader in self.live and broker_id in state.isr and broker_id != state.leader:
            isr = tuple(each for each in state.isr if each != broker_id)
            await self.write_isr(partition, isr, state, version)

    async def write_isr(
        self, partition: TopicPartition, isr: tuple[BrokerId, ...], state: PartitionState, version: int
    ) -> None:
        new = PartitionState(state.leader, state.leader_epoch, isr, state.controller_epoch)
        try:
            await self.admin.set(partition_state_path(partition), new.encode(), version=version)
            self.isr[partition] = isr
        except BadVersion:
            pass

    # ------------------------------------------------------------------------------------------------------- znodes

    async def read(self, path: str) -> bytes | None:
        return (await self.admin.get(path))[0]

    async def state(self, partition: TopicPartition) -> tuple[PartitionState, int]:
        data, stat = await self.admin.get(partition_state_path(partition))
        return PartitionState.decode(partition, data), stat.version

    async def assignment(self) -> TopicAssignment:
        return TopicAssignment.decode("t", await self.read(topic_path("t")))

    def replicas(self, partition: TopicPartition) -> list[BrokerId]:
        """Brokers on whose disks the partition is, sorted."""
        return sorted(broker_id for key, broker_id in self.hosted if key == partition)

    def check(self, path: str, old_data: bytes | None, new_data: bytes | None) -> None:
        """A write of a controller: R3, R13, R21."""
        if path.endswith("/state"):
            partition = TopicPartition("t", int(path.split("/")[-2]))
            old, new = PartitionState.decode(partition, old_data), PartitionState.decode(partition, new_data)
            self.isr[partition] = new.isr
            assert new.isr, "the ISR is never emptied"
            assert set(new.isr) <= set(old.isr) or partition in self.may_add, "nobody joins the ISR by a reassignment"
            assert new.leader == NO_LEADER or new.leader in new.isr
            assert new.leader_epoch == old.leader_epoch + 1
        elif path == topic_path("t"):
            self._check_assignment(TopicAssignment.decode("t", old_data), TopicAssignment.decode("t", new_data))

    def _check_assignment(self, old: TopicAssignment, new: TopicAssignment) -> None:
        """Replicas leave the assignment only when they are out of the ISR and were told to go."""
        for number, replicas in new.partitions.items():
            gone = set(map(BrokerId, old.partitions[number])) - set(map(BrokerId, replicas))
            partition = TopicPartition("t", number)
            assert not gone & set(self.isr[partition]), "a replica in sync is forgotten"
            assert not gone & self.live & set(self.replicas(partition)), "a replica is left behind on a disk"

    async def run_on(self, partitions: Sequence[TopicPartition]) -> None:
        """Replicas catch up and the controller works, until nothing happens any more."""
        assert self.controller is not None
        for _ in range(100):
            version = [(await self.state(partition))[1] for partition in partitions]
            topic = await self.read(topic_path("t"))
            for partition in partitions:
                await self.catch_up(partition)
            await self.controller.work()
            if version == [(await self.state(partition))[1] for partition in partitions] and topic == await self.read(
                topic_path("t")
            ):
                return
        raise AssertionError("it does not come to rest")


def run(tmp_path: Path, scenario: Callable[[World], Awaitable[None]]) -> None:
    """Runs a scenario on a fresh cluster of six brokers, bounded in time."""

    async def main() -> None:
        database = Database.open(LocalFileSystem(), str(tmp_path / "zk"), DatabaseSettings(sync=SyncPolicy.NEVER))
        server = EmbeddedZooKeeper(database, now_ms=lambda: NOW_MS, rng=random.Random(1))
        await server.start(close_former_sessions=True)
        admin = await server.connect()
        await admin.multi([Create(path) for path in PERSISTENT_PATHS if await admin.exists(path) is None])
        await admin.create(CONTROLLER_EPOCH_PATH, encode_controller_epoch(0))
        try:
            await scenario(World(server, admin))
        finally:
            await server.stop()

    asyncio.run(asyncio.wait_for(main(), 60))
