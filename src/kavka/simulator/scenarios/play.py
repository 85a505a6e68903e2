"""The methods that scenarios are written with: who leads, who crashes, who is cut off, what is written, what must
hold.

    play = Play(seed=1)
    play.write()                            # acknowledged by all in sync
    play.kill(play.b)
    play.expect(leader=play.a, isr=(play.a, play.c))
    play.finish()                           # healed: everything comes together, nothing acknowledged is lost

One partition with replicas on brokers A, B and C (1, 2, 3), of which A leads; broker D (4) has no replica and is the
controller. Every rule is checked after every step, as in a swarm. The methods call `World`, its network and its
brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kavka.client.admin import Admin, ElectionType, NewTopic, ResourceType
from kavka.client.cluster import Cluster
from kavka.client.security import SaslSettings
from kavka.decisions import Decision, DecisionKind, RecordDecision
from kavka.errors import ErrorCode, KavkaError
from kavka.model import NO_EPOCH, NO_LEADER, BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.batch import iterate_batches
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from kavka.replication.decide.fetch_state import Stage
from kavka.replication.decide.partition import Partition
from kavka.simulator.faults.mix import FaultMix
from kavka.simulator.host.broker import BrokerSurroundings, Halt, SimulatedBroker
from kavka.simulator.host.scheduler import SimulationStuck
from kavka.simulator.host.zookeeper import NODE as ZOOKEEPER
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.scenarios.play_clients import PARTITION, Reader, Writer
from kavka.simulator.scenarios.play_wire import Answer, Fetched, WireClient
from kavka.simulator.world import SETTINGS as WORLD_SETTINGS
from kavka.simulator.world import TOPIC, World
from kavka.zookeeper.znode_paths import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH, broker_path
from kavka.zookeeper.znodes import PartitionState, decode_controller_epoch

OFFSETS: Final = TopicPartition("__consumer_offsets", 0)
"""The partition with the groups' offsets."""
TRANSACTIONS: Final = TopicPartition("__transaction_state", 0)
"""The partition with the transactions."""
OTHER: Final = TopicPartition(TOPIC, 1)
"""A second partition on the same brokers, for scenarios that need one."""
A: Final = BrokerId(1)
B: Final = BrokerId(2)
C: Final = BrokerId(3)
D: Final = BrokerId(4)
FETCH_BYTES: Final = 1024 * 1024
SETTINGS: Final[Mapping[str, str]] = {
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "3000",
    "zookeeper.session.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
}


class Unexpected(Exception):
    """A scenario did not go as expected."""


class Play:
    """A running scenario. One class with many methods, because each word of the scenarios is one of them."""

    def __init__(  # noqa: PLR0913 - each scenario names the one or two that it needs
        self,
        seed: int = 1,
        *,
        settings: Mapping[str, str] | None = None,
        replicas: Sequence[BrokerId] = (A, B, C),
        controller: BrokerId = D,
        partitions: int = 1,
        topic: Mapping[str, str] | None = None,
        allow_loss: bool = False,
        secured: bool = False,
    ) -> None:
        """`settings` are those of all brokers, `topic` those of the topic. `secured`: with logins, TLS and access
        control (`clients.logins`)."""
        self._settings = {**SETTINGS, **(settings or {})}
        calm = FaultMix({"kill": 1.0}, 1.0)  # never started
        self.world = World(
            seed,
            brokers=max(D, controller),
            partitions=partitions,
            settings=self._settings,
            mix=calm,
            replicas=len(replicas),
            allow_loss=allow_loss,
            secured=secured,
        )
        self._written = 0
        self._asked: list[asyncio.Task[None]] = []
        """Questions that nobody waits for."""
        self._client = WireClient(self.world)
        self._damaged: dict[BrokerId, None] = {}
        self.decisions: list[Decision] = []
        """What brokers decided, and why, as they recorded it."""
        brokers = self.world.brokers
        for broker in brokers.values():
            broker.on_decision = self._keep(broker.on_decision)
        brokers[controller].start()
        self.until(lambda: brokers[controller].is_serving, "the controller serves")
        for broker_id in sorted(brokers):
            if broker_id != controller:
                brokers[broker_id].start()
        self.until(self.world.is_healthy, "all brokers serve")
        self.run_for(1.0)
        if secured:
            self.world.let_users_in()
        self._replicas = tuple(replicas)
        self._topic_settings = dict(topic or {})
        self.create_topic()

    def create_topic(self) -> None:
        assignments = [self._replicas] * len(self.world.partitions)
        topic = NewTopic(TOPIC, assignments=assignments, configs=self._topic_settings)
        self.admin(lambda admin: admin.create_topics([topic]))
        self.until(lambda: self.leader == self._replicas[0], "the topic is there")
        self.until(lambda: self.partition(self.leader) is not None, "the leader knows")

    def _keep(self, told: RecordDecision) -> RecordDecision:
        def keep(decision: Decision) -> None:
            self.decisions.append(decision)
            told(decision)

        return keep

    # -- what an administrator asks for

    def delete_topic(self) -> None:
        """Requests the deletion. The topic is gone when every replica is."""
        self.admin(lambda admin: admin.delete_topics([TOPIC]))

    def set_topic(self, **settings: str) -> None:
        """Changes settings of the topic through the controller. Write _ for the dots of their names."""
        configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in settings.items()]
        resource = AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=TOPIC, configs=configs)
        task = self._client.loop.create_task(
            self._client.alter(self.controller, IncrementalAlterConfigsRequest(resources=[resource]))
        )
        self.until(task.done, "settings are changed")
        (result,) = task.result().responses
        self.require(not result.error_code, f"{settings}: {result}")

    def reassign(self, *replicas: BrokerId, which: TopicPartition = PARTITION, wait: bool = True) -> None:
        """Starts to move the partition to these brokers. On return the move is running, not done. Without `wait` it is
        only requested."""
        if wait:
            self.admin(lambda admin: admin.alter_partition_reassignments({which: list(replicas)}))
        else:
            self._ask(lambda admin: admin.alter_partition_reassignments({which: list(replicas)}))

    def elect_preferred(self, which: TopicPartition = PARTITION) -> None:
        self.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [which]))

    def hand_over(self, *replicas: BrokerId, which: TopicPartition = PARTITION) -> None:
        """Makes the first of the replicas the leader, without a failure."""
        self.reassign(*replicas, which=which)
        self.run_for(0.5)
        self.elect_preferred(which)
        self.until(lambda: self.state(which).leader == replicas[0], f"{replicas[0]} is elected")

    def delete_records(self, before: Offset) -> None:
        """Requests the deletion, and waits until the leader's log begins there. The followers learn it with their next
        fetch."""
        self.world.observer.on_delete_records(PARTITION, before)
        self._ask(lambda admin: admin.delete_records({PARTITION: before}))
        self.until(lambda: self.log_start(self.leader) == before, "the records are deleted")

    def _ask(self, work: Callable[[Admin], Awaitable[object]]) -> None:
        """Sends a request and does not wait."""
        loop = self.world.clients.node("admin")

        async def run() -> None:
            try:
                async with self.world.clients.cluster(loop) as cluster:
                    await work(Admin(cluster))
            except KavkaError:
                pass  # Whether it came to pass is asked of the cluster.

        self._asked.append(loop.create_task(run()))

    @property
    def has_topic(self) -> bool:
        return PARTITION in self.world.observer.stored

    # -- time

    def run_for(self, seconds: float) -> None:
        self.world.run_for(seconds)

    def until(self, condition: Callable[[], bool], what: str, *, within_s: float = 30.0) -> None:
        """Runs until a condition holds. It is checked after every step."""
        try:
            self.world.run_until(condition, within_s=within_s)
        except SimulationStuck as stuck:
            raise Unexpected(f"{what}: {stuck}; stored is {self.stored}") from stuck

    # -- what is

    @property
    def stored(self) -> tuple[BrokerId, tuple[BrokerId, ...]]:
        """(leader, ISR) in the state znode."""
        found = self.world.observer.stored.get(PARTITION)
        if found is None:
            return NO_LEADER, ()
        return found.state.leader, tuple(found.state.isr)

    @property
    def leader(self) -> BrokerId:
        return self.stored[0]

    @property
    def epoch(self) -> int:
        """The stored leader epoch."""
        return self.state().leader_epoch

    @property
    def version(self) -> int:
        """The state znode's version. It rises with every change of leader or ISR."""
        return self.world.observer.stored[PARTITION].version

    def state(self, which: TopicPartition = PARTITION) -> PartitionState:
        """The content of the state znode."""
        return self.world.observer.stored[which].state

    @property
    def controller(self) -> BrokerId:
        """The controller's broker id; -1 if there is none."""
        return BrokerId(self.world.observer.controller)

    @property
    def controller_epoch(self) -> int:
        return decode_controller_epoch(self.world.zookeeper.embedded.database.tree.by_path[CONTROLLER_EPOCH_PATH].data)

    def registration(self, broker_id: BrokerId) -> int:
        """The broker epoch of the broker's registration; -1 if it is not registered."""
        node = self.world.zookeeper.embedded.database.tree.by_path.get(broker_path(broker_id))
        return node.czxid if node is not None else -1

    def partition(self, broker_id: BrokerId, which: TopicPartition = PARTITION) -> Partition | None:
        """The replica as its broker sees it; None if the broker hosts none."""
        broker = self.world.brokers[broker_id].broker
        return broker.replicas.partition(*which) if broker is not None else None

    def leads(self, broker_id: BrokerId, which: TopicPartition = PARTITION) -> bool:
        """Whether the broker itself believes that it leads."""
        found = self.partition(broker_id, which) if broker_id != NO_LEADER else None
        return found is not None and found.is_leader

    def told(self, broker_id: BrokerId) -> tuple[BrokerId, LeaderEpoch]:
        """(leader, leader epoch) in the broker's metadata for clients."""
        broker = self.world.brokers[broker_id].broker
        found = broker.metadata.partition(*PARTITION) if broker is not None else None
        return (found.state.leader, found.state.leader_epoch) if found is not None else (NO_LEADER, NO_EPOCH)

    def known_epoch(self, broker_id: BrokerId) -> LeaderEpoch:
        """The leader epoch that the broker is in."""
        found = self.partition(broker_id)
        return found.leader_epoch if found is not None else NO_EPOCH

    def epochs(self, broker_id: BrokerId) -> list[tuple[LeaderEpoch, Offset]]:
        """The leader epochs in the replica's log, with the start of each."""
        found = self.partition(broker_id)
        return [(each.epoch, each.start_offset) for each in found.log.epoch_entries] if found is not None else []

    def committed_truncations(self, broker_id: BrokerId) -> int:
        """How often the broker logged that it truncated a log below its high watermark."""
        return sum(
            decision.kind is DecisionKind.LOG_TRUNCATED
            and decision.broker_id == broker_id
            and decision.evidence["below_high_watermark"] is True
            for decision in self.decisions
        )

    def is_asking_offsets(self, broker_id: BrokerId) -> bool:
        """Whether the follower waits for the start and end of its leader's log."""
        broker = self.world.brokers[broker_id].broker
        state = broker.inner.following.state(PARTITION) if broker is not None else None
        return state is not None and state.stage is Stage.ASKING_OFFSETS

    def log_start(self, broker_id: BrokerId) -> Offset:
        found = self.partition(broker_id)
        return found.log.log_start_offset if found is not None else -1

    def log_end(self, broker_id: BrokerId, which: TopicPartition = PARTITION) -> Offset:
        found = self.partition(broker_id, which)
        return found.log.log_end_offset if found is not None else -1

    def high_watermark(self, broker_id: BrokerId) -> Offset:
        found = self.partition(broker_id)
        return found.log.high_watermark if found is not None else -1

    # -- what must be

    def expect(self, *, leader: BrokerId | None = None, isr: Sequence[BrokerId] | None = None) -> None:
        """Waits until the stored state is this one (an ISR in any order) and stays so for a moment."""

        def holds() -> bool:
            stored_leader, stored_isr = self.stored
            return leader in (None, stored_leader) and (isr is None or sorted(isr) == sorted(stored_isr))

        self.until(holds, f"leader {leader}, ISR {isr}")
        self.run_for(0.2)
        self.require(holds(), f"leader {leader}, ISR {isr} did not last: {self.stored}")

    def another_leader(self, former: BrokerId, which: TopicPartition = PARTITION) -> BrokerId:
        """Waits until another leader than `former` is stored, and returns it."""
        self.until(lambda: self.state(which).leader not in (former, NO_LEADER), f"another leader than {former}")
        return self.state(which).leader

    def require(self, condition: bool, what: str) -> None:
        if not condition:
            raise Unexpected(f"at {self.world.scheduler.now_ms} ms: {what}")

    def finish(self) -> None:
        """Heals all faults. Checks that all replicas are in sync again and every acknowledged record is there."""
        self.world.settle()

    # -- faults

    def kill(self, *broker_ids: BrokerId) -> None:
        """Kills brokers with kill -9, all at once."""
        for broker_id in broker_ids:
            self._note("kill", broker_id)
            self.world.brokers[broker_id].kill()
            if broker_id in self._damaged:
                del self._damaged[broker_id]
                self.world.observer.on_disk_damaged(broker_id)

    def power_cut(self, *broker_ids: BrokerId) -> None:
        for broker_id in broker_ids:
            self._note("power cut", broker_id)
            self.world.brokers[broker_id].power_cut()
            self.world.observer.on_power_cut(broker_id)

    def start(self, *broker_ids: BrokerId) -> None:
        """Starts brokers, and waits until they serve."""
        self.start_only(*broker_ids)
        self.until(lambda: all(self.world.brokers[each].is_serving for each in broker_ids), f"{broker_ids} serve")

    def start_only(self, *broker_ids: BrokerId) -> None:
        for broker_id in broker_ids:
            self._note("start", broker_id)
            self.world.brokers[broker_id].start()

    def start_twin(self, broker_id: BrokerId, halts: list[Halt]) -> SimulatedBroker:
        """Starts another broker with the same id on its own machine. Calls `halts` when it gives up."""
        world = self.world
        around = BrokerSurroundings(world.scheduler, world.network, world.zookeeper.connect_string, world.bugs, halts)
        twin = SimulatedBroker(around, broker_id, {**WORLD_SETTINGS, **self._settings})
        twin.node = f"twin-{broker_id}"
        twin.start()
        return twin

    def stop(self, broker_id: BrokerId) -> asyncio.Task[None]:
        """Stops a broker with SIGTERM."""
        self._note("stop", broker_id)
        return self.world.brokers[broker_id].stop()

    def pause(self, broker_id: BrokerId) -> None:
        self._note("pause", broker_id)
        self.world.brokers[broker_id].pause()

    def resume(self, broker_id: BrokerId) -> None:
        self._note("resume", broker_id)
        self.world.brokers[broker_id].resume()

    def cut(self, one: BrokerId | str, other: BrokerId | str, *, both: bool = True) -> None:
        """Cuts the link from `one` to `other`, and also back if `both`."""
        self.world.network.cut(_node(one), _node(other), both=both)

    def heal(self, one: BrokerId | str, other: BrokerId | str, *, both: bool = True) -> None:
        self.world.network.heal(_node(one), _node(other), both=both)

    def slow(self, source: BrokerId | str, target: BrokerId | str, delay_s: float) -> None:
        """Everything on this link takes at least this long."""
        self.world.network.link(_node(source), _node(target)).least_delay_s = delay_s

    def hold_answers(self, source: BrokerId, target: BrokerId) -> None:
        """Holds the answers of `source` to `target` until `release`. Its requests get through."""
        self.world.network.hold(_node(source), _node(target), answers=True)

    def hold_requests(self, source: BrokerId, target: BrokerId) -> None:
        """Holds the requests of `source` to `target` until `release`. Its answers get through."""
        self.world.network.hold(_node(source), _node(target), answers=False)

    def release(self, source: BrokerId, target: BrokerId) -> None:
        self.world.network.release(_node(source), _node(target))

    def keep_out(self, broker_id: BrokerId) -> None:
        """Makes the replica lag until the leader removes it from the ISR. It stays alive and hears the controller.

        One record is written for this, because a replica that lacks nothing does not lag (KAFKA-7152).
        """
        leader, isr = self.stored
        for other in (A, B, C):
            if other != broker_id:
                self.cut(broker_id, other)
        self.write_ok(acks=1)
        self.expect(leader=leader, isr=[each for each in isr if each != broker_id])

    def let_in(self, broker_id: BrokerId) -> None:
        for other in (A, B, C):
            if other != broker_id:
                self.heal(broker_id, other)

    def jump(self, broker_id: BrokerId, seconds: float) -> None:
        """Sets the wall clock of the broker's machine."""
        self._note(f"clock set by {seconds} s,", broker_id)
        self.world.brokers[broker_id].clock_skew_ms += round(seconds * 1_000)

    def lose_session(self, broker_id: BrokerId) -> None:
        """ZooKeeper ends the broker's session."""
        broker = self.world.brokers[broker_id].broker
        assert broker is not None
        self.world.zookeeper.expire(broker.session_id)

    def delete_controller_node(self) -> None:
        """Deletes /controller, as by hand. No session ends."""
        server = self.world.zookeeper

        async def delete() -> None:
            await (await server.embedded.connect()).delete(CONTROLLER_PATH)

        task = server.loop.create_task(delete())
        self.until(task.done, "the node is deleted")
        task.result()

    def delete_below(self, path: str) -> None:
        """Deletes the znodes right below `path`, as old change nodes are purged."""
        server = self.world.zookeeper

        async def delete() -> None:
            session = await server.embedded.connect()
            for name in await session.children(path):
                await session.delete(f"{path}/{name}")

        task = server.loop.create_task(delete())
        self.until(task.done, "the nodes are deleted")
        task.result()

    def _note(self, what: str, broker_id: BrokerId) -> None:
        self.world.note(f"{what} broker {broker_id}")

    # -- disks

    def files(self, broker_id: BrokerId, ending: str, which: TopicPartition = PARTITION) -> list[str]:
        """Paths of a replica's files with this ending, in order."""
        disk = self.world.brokers[broker_id].disk
        inside = f"/{which.topic}-{which.partition}/"
        return sorted(path for path in disk.files if inside in path and path.endswith(ending))

    def contents(self, broker_id: BrokerId) -> dict[str, bytes]:
        """All files of a replica that a restart does not remove, by path."""
        disk = self.world.brokers[broker_id].disk
        kept = (path for path in self.files(broker_id, "") if not path.endswith(".deleted"))
        return {path: bytes(disk.files[path].data) for path in kept}

    def flip_bit(self, broker_id: BrokerId, offset: Offset, which: TopicPartition = PARTITION) -> None:
        """Flips a bit of the last byte of the batch that holds the record at `offset`."""
        disk = self.world.brokers[broker_id].disk
        for path in self.files(broker_id, ".log", which):
            position = 0
            for batch in iterate_batches(memoryview(bytes(disk.files[path].data))):
                position += len(batch.view)
                if batch.header.base_offset <= offset <= batch.header.last_offset:
                    disk.damage(path, position - 1)
                    self._on_damage(broker_id)
                    return
        raise Unexpected(f"broker {broker_id} has no record at {offset}")

    def tear(self, broker_id: BrokerId, size_bytes: int) -> None:
        """Removes the last bytes of a replica's log."""
        data = self.world.brokers[broker_id].disk.files[self.files(broker_id, ".log")[-1]].data
        del data[-size_bytes:]
        self._on_damage(broker_id)

    def _on_damage(self, broker_id: BrokerId) -> None:
        """The observer no longer knows what the broker comes back with."""
        if self.world.brokers[broker_id].is_alive:
            self._damaged[broker_id] = None
        else:
            self.world.observer.on_disk_damaged(broker_id)

    def overwrite(self, broker_id: BrokerId, path: str, data: bytes) -> None:
        """Replaces the content of a file, as a person might, or a file system after a crash."""
        self.world.brokers[broker_id].disk.files[path].data[:] = data
        self._on_damage(broker_id)

    def remove(self, broker_id: BrokerId, path: str) -> None:
        del self.world.brokers[broker_id].disk.files[path]

    # -- clients

    def write(
        self, count: int = 1, *, acks: int = -1, to: BrokerId | None = None, which: TopicPartition = PARTITION
    ) -> list[Answer]:
        """Writes single records, one after another, and returns the answers. They go to `to`, or to the stored leader
        as soon as it knows that it leads."""
        if to is None:
            self.until(lambda: self.leads(self.state(which).leader, which), "the stored leader knows that it leads")
        return [self.answer_of(self.begin_write(acks=acks, to=to, which=which)) for _ in range(count)]

    def write_ok(self, count: int = 1, *, acks: int = -1, which: TopicPartition = PARTITION) -> None:
        for answer in self.write(count, acks=acks, which=which):
            self.require(answer.is_acknowledged, f"{answer}")

    def write_refused(self, *expected: ErrorCode | None, acks: int = -1, to: BrokerId | None = None) -> None:
        (answer,) = self.write(acks=acks, to=to)
        self.require(answer.error in expected, f"{answer}, expected {expected}")

    def begin_write(  # noqa: PLR0913 - each scenario names the one or two that it needs
        self,
        *,
        acks: int = -1,
        to: BrokerId | None = None,
        timeout_ms: int = 1_000,
        which: TopicPartition = PARTITION,
        stamp: ProducerStamp = NO_STAMP,
        value: bytes | None = None,
        transactional_id: str | None = None,
    ) -> asyncio.Task[Answer]:
        """Sends a record. `answer_of` returns its answer. `stamp` and `value` are those of an idempotent producer that
        sends a record again. `transactional_id`: in a transaction of that producer."""
        if value is None:
            self._written += 1
            value = f"record {self._written}".encode()
        builder = BatchBuilder()
        builder.append(WALL_CLOCK_START_MS + self.world.scheduler.now_ms, None, value)
        part = PartitionProduceData(index=which.partition, records=memoryview(builder.build(stamp)))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name=TOPIC, partition_data=[part])],
        )
        broker_id = self.state(which).leader if to is None else to
        return self._client.loop.create_task(self._client.write(broker_id, which, value, request))

    def answer_of(self, task: asyncio.Task[Answer]) -> Answer:
        self.until(task.done, "an answer")
        return task.result()

    def fetch(
        self,
        offset: Offset,
        *,
        to: BrokerId | None = None,
        epoch: LeaderEpoch = NO_EPOCH,
        last_epoch: LeaderEpoch = NO_EPOCH,
    ) -> Fetched:
        """The answer to a reader at `offset` that believes in leader epoch `epoch`. The last record that it has read
        is of `last_epoch`."""
        broker_id = self.leader if to is None else to
        part = FetchPartition(
            partition=PARTITION.partition,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(max_bytes=FETCH_BYTES, topics=[FetchTopic(topic=TOPIC, partitions=[part])])
        task = self._client.loop.create_task(self._client.fetch(broker_id, request))
        self.until(task.done, "an answer")
        return task.result()

    @property
    def client_node(self) -> str:
        """The node from which `write`, `fetch` and the like ask brokers."""
        return self._client.loop.name

    def begin_fetch(self, offset: Offset, *, to: BrokerId, wait_ms: int = 500) -> asyncio.Task[Fetched]:
        """A reader asks for what will be at `offset`, and waits for it so long. The task returns its answer."""
        part = FetchPartition(partition=PARTITION.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        topics = [FetchTopic(topic=TOPIC, partitions=[part])]
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=FETCH_BYTES, topics=topics)
        return self._client.loop.create_task(self._client.fetch(to, request))

    def fetch_as_replica(self, offset: Offset) -> Fetched:
        """The answer of the leader to somebody who says that he is broker C."""
        part = FetchPartition(partition=PARTITION.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        topics = [FetchTopic(topic=TOPIC, partitions=[part])]
        task = self._client.loop.create_task(
            self._client.fetch(self.leader, FetchRequest(replica_id=C, max_bytes=FETCH_BYTES, topics=topics))
        )
        self.until(task.done, "an answer")
        return task.result()

    def log_in(self, user: str, *, sasl: SaslSettings | None = None, once: bool = False) -> None:
        """From now on `write`, `fetch` and the like come from another node, as this user. `sasl`: how it logs in, if
        not with the user's password; `once`: at the beginning of a connection, and never again."""
        logins = self.world.logins
        assert logins is not None, "the world is secured"
        self._client = WireClient(self.world, sasl=sasl, logs_in_once=once)
        logins.owners[self.client_node] = user

    def lose_answers(self, broker_id: BrokerId) -> None:
        """Drops the broker's answers to `write`."""
        self.world.network.cut(_node(broker_id), self._client.loop.name, both=False)

    def read(self) -> dict[Offset, bytes]:
        """The records that a reader finds now from the beginning."""
        loop = self.world.clients.node("reader")
        task = loop.create_task(self.world.clients.read_all(loop))
        self.until(task.done, "a reader reaches the end")
        return task.result()[PARTITION]

    def reader(self, *, committed: bool = False, group: str | None = None) -> Reader:
        """A consumer that starts at the beginning, or at the offsets of its `group`. With `committed` it reads only
        committed transactions."""
        return Reader(self, committed=committed, group=group)

    def stamp_at(self, offset: Offset) -> ProducerStamp:
        """The producer of the record at `offset`."""
        found = self.partition(self.leader)
        assert found is not None
        result = found.log.read(offset, 1, max_offset=found.log.log_end_offset, min_one_batch=True)
        (chunk,) = result.chunks
        header = next(iterate_batches(memoryview(chunk.tobytes()))).header
        return ProducerStamp(
            header.producer_id, header.producer_epoch, header.base_sequence, is_transactional=header.is_transactional
        )

    def last_stable_offset(self, broker_id: BrokerId) -> Offset:
        found = self.partition(broker_id)
        return found.log.last_stable_offset if found is not None else -1

    def read_acknowledged(self) -> None:
        """Checks that every acknowledged record can be read."""
        found = self.read()
        for offset, value in self.world.observer.acked.get(PARTITION, {}).items():
            self.require(found.get(offset) == value, f"offset {offset} is {found.get(offset)!r}, not {value!r}")

    def is_unreadable(self) -> None:
        """Checks that the partition has no leader, and that live brokers report this to readers."""
        loop = self.world.clients.node("reader")
        task = loop.create_task(self.world.clients.read_all(loop))
        self.run_for(3.0)
        answered = task.done() and task.exception() is None
        self.require(not answered, "a partition without a leader was read")

    def commit(self, group: str, offset: Offset) -> None:
        """Commits an offset of the partition for a group, as a member that has read everything below it."""
        self.world.observer.groups.delivered[group, PARTITION] = dict.fromkeys(range(offset))
        answer = self.admin(lambda admin: admin.groups.set_offsets(group, {PARTITION: offset}))
        self.require(answer is None, f"commit of {offset}: {answer!r}")

    def committed(self, group: str) -> Offset:
        found = self.admin(lambda admin: admin.groups.offsets(group))
        if not isinstance(found, dict):
            raise Unexpected(f"offsets of {group}: {found!r}")
        return found[PARTITION].offset if PARTITION in found else -1

    def admin(self, work: Callable[[Admin], object]) -> object:
        """Sends a request of an administrator. A failure is returned, not raised."""

        async def run(cluster: Cluster) -> object:
            try:
                return await work(Admin(cluster))  # type: ignore[misc]  # whatever the question returns
            except KavkaError as failure:
                return failure

        return self.world.run_in_client("admin", run)


def _node(name: BrokerId | str) -> str:
    return name if isinstance(name, str) else f"broker-{name}"


__all__ = [
    "OFFSETS",
    "OTHER",
    "PARTITION",
    "TRANSACTIONS",
    "ZOOKEEPER",
    "A",
    "Answer",
    "B",
    "C",
    "D",
    "Fetched",
    "Play",
    "Reader",
    "Unexpected",
    "Writer",
]
