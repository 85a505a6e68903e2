"""The methods that scenarios are written with: who leads, who crashes, who is cut off, what is written, what must
hold.

    play = Play(seed=1)
    play.write()                            # acknowledged by all in sync
    play.kill(play.b)
    play.expect(leader=play.a, isr=(play.a, play.c))
    play.finish()                           # healed: everything comes together, nothing acknowledged is lost

One partition with replicas on brokers A, B and C (1, 2, 3), of which A leads; broker D (4) has no replica and is the
controller. Every rule is checked after every step, as in a swarm. The methods call `World`, its network and its
brokers: what only looks is in `play_view`, what breaks something in `play_faults`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from kavka.client.admin import Admin, ElectionType, NewTopic, ResourceType
from kavka.client.cluster import Cluster
from kavka.client.security import SaslSettings
from kavka.decisions import Decision, RecordDecision
from kavka.errors import ErrorCode, KavkaError
from kavka.model import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kavka.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kavka.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kavka.records.builder import NO_STAMP, BatchBuilder, ProducerStamp
from kavka.simulator.faults.mix import FaultMix
from kavka.simulator.host.zookeeper import NODE as ZOOKEEPER
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.simulator.scenarios.play_clients import PARTITION, Reader, Writer
from kavka.simulator.scenarios.play_faults import Faults, node_of
from kavka.simulator.scenarios.play_view import Unexpected
from kavka.simulator.scenarios.play_wire import Answer, Fetched, WireClient
from kavka.simulator.world import TOPIC, World

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


class Play(Faults):
    """A running scenario: what its administrator and its clients do, over what it sees (`View`) and what strikes it
    (`Faults`)."""

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
        of_brokers = {**SETTINGS, **(settings or {})}
        calm = FaultMix({"kill": 1.0}, 1.0)  # never started
        world = World(
            seed,
            brokers=max(D, controller),
            partitions=partitions,
            settings=of_brokers,
            mix=calm,
            replicas=len(replicas),
            allow_loss=allow_loss,
            secured=secured,
        )
        super().__init__(world, of_brokers)
        self._written = 0
        self._asked: list[asyncio.Task[None]] = []
        """Questions that nobody waits for."""
        self._client = WireClient(self.world)
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

    # -- a replica that lags

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
        self.world.network.cut(node_of(broker_id), self._client.loop.name, both=False)

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
