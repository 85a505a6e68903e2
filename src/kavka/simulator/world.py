"""A whole simulated cluster: ZooKeeper, brokers, clients, faults and the observer, from one seed.

    world = World(seed=7)
    world.start()
    world.run_swarm(hours=1.0)      # writes, reads and faults, every rule checked after every step
    world.settle()                  # healed, everything must come together, and nothing be lost

A run's trace is a chain of digests over what happened (`digest`): two runs of one seed have one digest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from kavka.client.admin import Admin, ConfigChange, ConfigResource, FeatureUpdateKind, NewTopic, ResourceType
from kavka.client.cluster import Cluster
from kavka.errors import ErrorCode, KavkaError
from kavka.model import TopicPartition
from kavka.simulator.clients.logins import SECURED, Logins, broker_certificate, give_access
from kavka.simulator.clients.members import GROUP, Members
from kavka.simulator.clients.share_members import GROUP as SHARERS
from kavka.simulator.clients.share_members import ShareMembers, share_bounds, share_settings
from kavka.simulator.clients.streams_members import (
    COUNTING,
    READING,
    REPARTITION,
    REPARTITIONS,
    STREAMING,
    StreamsMembers,
)
from kavka.simulator.clients.streams_members import GROUP as STREAMERS
from kavka.simulator.clients.transactors import ABORTED, ABORTED_SHARED, Transactors
from kavka.simulator.clients.transactors import GROUP as TRANSFORMERS
from kavka.simulator.clients.transactors import PARTITIONS as LEDGER_PARTITIONS
from kavka.simulator.clients.workload import Clients
from kavka.simulator.faults.liveness import Liveness
from kavka.simulator.faults.mix import FaultMix, Faults, Strike, kinds_of
from kavka.simulator.host.broker import PORT, BrokerSurroundings, Halt, SimulatedBroker
from kavka.simulator.host.network import Link, SimulatedNetwork
from kavka.simulator.host.scheduler import Scheduler, SimulationStuck
from kavka.simulator.host.trace import current_trace
from kavka.simulator.host.wire import Wire
from kavka.simulator.host.zookeeper import SimulatedZooKeeper
from kavka.simulator.rules.connection_rules import ConnectionRules
from kavka.simulator.rules.invariants import Observer, Violation
from kavka.simulator.rules.session_rules import SessionRules
from kavka.simulator.rules.share_log import DEAD_LETTERS
from kavka.simulator.rules.stored_access import LOOK_S, StoredAccess
from kavka.simulator.rules.transaction_rules import LEDGER
from kavka.zookeeper.client import ZooKeeperClient

T = TypeVar("T")
TOPIC: Final = "orders"
SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
    "replica.fetch.wait.max.ms": "500",
    "min.insync.replicas": "2",
    "controlled.shutdown.retry.backoff.ms": "500",
    "log.segment.bytes": "65536",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "kavka.decisions.topic.enable": "false",
}

GROUP_LOOK_S: Final = 1.0
HASTY_PAUSE: Final = 3
"""A hasty producer writes so many times less often: what it writes may be lost, so less can be told from it."""
OPERATOR_SESSION_MS: Final = 6_000


def _settings(brokers: int, *, secured: bool, sharing: bool, streaming: bool) -> dict[str, str]:
    """Of each of so many brokers."""
    groups = (share_settings(brokers) if sharing else {}) | (dict(STREAMING) if streaming else {})
    # Where a plan says nothing of them: a group of fewer than three brokers would have no coordinator.
    replicas = str(min(3, brokers))
    replicated = {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
    }
    return {**SETTINGS, **replicated, **(SECURED if secured else {}), **groups}


def _has_eligible_leaders(settings: Mapping[str, str]) -> bool:
    is_on = settings.get("kavka.eligible.leader.replicas.enable") == "true"
    return is_on and settings["min.insync.replicas"] != "1"


class BrokerBug(Exception):
    """A broker's code let an exception through."""


class World:
    """One simulation."""

    def __init__(  # noqa: PLR0913 - each run names the few that are not as usual
        self,
        seed: int,
        *,
        brokers: int = 3,
        partitions: int = 3,
        settings: Mapping[str, str] | None = None,
        mix: FaultMix | None = None,
        schedule: Sequence[Strike] | None = None,
        replicas: int = 3,
        allow_loss: bool = False,
        clock_drift: float = 0.0,
        secured: bool = False,
        sharing: bool = False,
        streaming: bool = False,
    ) -> None:
        """`clock_drift`: by how much, at most, a second of a broker's clocks is longer or shorter than one. `secured`:
        with logins and access control (`clients.logins`). `sharing`: with share groups (`clients.share_members`).
        `streaming`: with streams groups (`clients.streams_members`)."""
        self.scheduler = Scheduler(seed)
        self.events = current_trace()
        if self.events is not None:
            self.events.attach(lambda: self.scheduler.now_ms, self.summary)
        random = self.scheduler.new_random()
        self.network = SimulatedNetwork(self.scheduler, link=Link(0.000_05, 0.000_1 * 10 ** (random.random() * 1.5)))
        self.zookeeper = SimulatedZooKeeper(self.scheduler, self.network)
        self.network.trace = self.zookeeper.trace = self.events
        self.logins = Logins(self.scheduler) if secured else None
        own = _settings(brokers, secured=secured, sharing=sharing, streaming=streaming) | dict(settings or {})
        self.bugs: list[BaseException] = []
        self.halts: list[Halt] = []
        around = BrokerSurroundings(
            self.scheduler, self.network, self.zookeeper.connect_string, self.bugs, self.halts, self.events
        )
        self.brokers = {broker_id: SimulatedBroker(around, broker_id, own) for broker_id in range(1, brokers + 1)}
        self.partitions = [TopicPartition(TOPIC, index) for index in range(partitions)]
        self.replicas = min(replicas, brokers)
        self.observer = Observer(self.zookeeper, allow_loss=allow_loss, trace=self.events)
        self.stored_access = StoredAccess(self.scheduler, self.network, self.zookeeper, self.brokers, self.observer)
        self.sessions = SessionRules(self.observer, self.zookeeper, self.stored_access)
        self.connections = ConnectionRules(self.observer)
        self._watch()
        self.observer.has_eligible_leaders = _has_eligible_leaders(own)
        self._bootstrap = [(broker.node, PORT) for broker in self.brokers.values()]
        self.clients = Clients(self.scheduler, self.network, self._bootstrap, self.observer, self.bugs, self.logins)
        if self.logins is not None:
            self._secure(self.logins)
        for broker in self.brokers.values():
            broker.clock_rate = 1.0 + clock_drift * (2 * random.random() - 1)
        self._make_groups(own, sharing=sharing, streaming=streaming)
        self._min_in_sync = int(own["min.insync.replicas"])
        self.mix = mix or FaultMix.draw(random, kinds_of(secured=secured, sharing=sharing, streaming=streaming))
        self.faults = Faults(self, self.mix, schedule=schedule)
        settling_s = 1.5 * int(own["zookeeper.session.timeout.ms"]) / 1_000 + 2.0
        self.liveness = Liveness(self, self.scheduler.new_random(), settling_s=settling_s)
        self.insisting = 0  # administrators at work who will not give up
        self.trace: list[str] = []
        self.swarm_steps = range(0)
        """The steps from the moment when faults began to the end of the swarm."""

    def _make_groups(self, own: Mapping[str, str], *, sharing: bool, streaming: bool) -> None:
        self.members = Members(self, TOPIC)
        self.transactors = Transactors(self, TOPIC, aborted=ABORTED_SHARED if sharing else ABORTED)
        self.sharers, self.is_sharing = ShareMembers(self, [TOPIC]), sharing
        if sharing:
            self.observer.shares.begin(share_bounds(own))
        self.streamers, self.is_streaming = StreamsMembers(self, TOPIC), streaming
        if streaming:
            self.observer.streams.begin(STREAMERS, {TOPIC: READING, REPARTITION: COUNTING})

    def _secure(self, logins: Logins) -> None:
        self.observer.access.principal_of = logins.principal_of
        for broker in self.brokers.values():
            broker.tls.certificate = broker_certificate(broker.node)

    def _watch(self) -> None:
        """The rules learn of what brokers are asked, answer and decide."""
        self.observer.watchers.append(self.sessions)
        wire = Wire(self.observer.watchers, self.sessions)
        for broker in self.brokers.values():
            broker.wire, broker.on_decision = wire, self.observer.states.on_decision
            broker.on_accepted = self.connections.on_accepted

    def note(self, what: str) -> None:
        """Adds a line to the trace."""
        line = f"{self.scheduler.now_ms} {what}"
        self.trace.append(line)
        self.observer.note(what)

    def tell(self, node: str, kind: str, text: str = "") -> None:
        """Adds an event to the recorded trace, if there is one."""
        if self.events is not None:
            self.events.on_node(node, kind, text)

    @property
    def digest(self) -> str:
        """Of all that happened so far: each step, and what came of them: states stored, high watermarks, what clients
        were told, faults."""
        return f"{self.scheduler.digest:016x}{self.observer.digest:08x}"

    # -- the phases

    def start(self) -> None:
        """All brokers serve, the topic is there and fully replicated."""
        for broker in self.brokers.values():
            broker.start()
        self.run_until(lambda: all(broker.is_serving for broker in self.brokers.values()), within_s=60)
        self.run_for(1.0)  # Brokers learn of each other.
        if self.logins is not None:
            self.let_users_in()
        if self.is_sharing:
            self.run_in_client("admin", lambda cluster: self._let_share(cluster))
        if self.is_streaming:
            self.run_in_client("admin", lambda cluster: self._let_stream(cluster))
        self.run_in_client("admin", lambda cluster: self._create(cluster, TOPIC, len(self.partitions)))
        self.run_until(self.is_fully_replicated, within_s=60)

    def _look_at_access(self) -> None:
        """Looks whether brokers know who may do what, every now and then, for good."""
        self.stored_access.look()
        self.sessions.look_at_tokens()
        self.connections.look(self.brokers.values())
        self.scheduler.after(LOOK_S, self._look_at_access)

    def let_users_in(self) -> None:
        """Applications get passwords and rights, from an administrator. From then on brokers are compared with what is
        stored."""
        self.run_in_client("admin", lambda cluster: give_access(cluster))
        self._look_at_access()

    async def _let_share(self, cluster: Cluster) -> None:
        """Share groups are on, and the one that there will be begins with the first record, and has a dead-letter
        topic."""
        admin = Admin(cluster)
        refused = await admin.update_features({"share.version": 2}, FeatureUpdateKind.UPGRADE)
        group = ConfigResource(ResourceType.GROUP, SHARERS)
        settings = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": DEAD_LETTERS}
        unset = await admin.alter_configs({group: [ConfigChange(name, value) for name, value in settings.items()]})
        for failure in (*refused.values(), *unset.values()):
            raise failure
        await self._create(cluster, DEAD_LETTERS, 1, {"errors.deadletterqueue.group.enable": "true"})

    async def _let_stream(self, cluster: Cluster) -> None:
        """Streams groups are on."""
        refused = await Admin(cluster).update_features({"streams.version": 1}, FeatureUpdateKind.UPGRADE)
        for failure in refused.values():
            raise failure

    async def _create(
        self, cluster: Cluster, topic: str, partitions: int, settings: Mapping[str, str] | None = None
    ) -> None:
        new = NewTopic(topic, partitions, self.replicas, settings or {})
        for failure in (await Admin(cluster).create_topics([new])).values():
            if failure.code is not ErrorCode.TOPIC_ALREADY_EXISTS:  # An answer was lost, and it was asked for again.
                raise failure

    def run_in_client(self, name: str, work: Callable[[Cluster], Awaitable[T]], *, within_s: float = 60) -> T:
        """Runs `work` in a client of its own and returns what it returns."""
        loop = self.clients.node(name)

        async def run() -> T:
            async with self.clients.cluster(loop) as cluster:
                return await work(cluster)

        task = loop.create_task(run())
        self.run_until(task.done, within_s=within_s)
        return task.result()

    def administer(self, work: Callable[[Admin], Awaitable[object]]) -> None:
        """Sends a request of an administrator. Nobody waits for it, and it may fail."""
        self.ask(lambda cluster: work(Admin(cluster)))

    def ask(self, work: Callable[[Cluster], Awaitable[object]]) -> None:
        """As `administer`, for what has an `Admin` of its own."""
        loop = self.clients.node("admin")

        async def run() -> None:
            try:
                async with self.clients.cluster(loop) as cluster:
                    await work(cluster)
            except KavkaError:
                pass  # Whoever asked in the middle of a fault asks again later, or another does.

        self.clients.watch(loop.create_task(run()))

    def insist(self, work: Callable[[Cluster], Awaitable[object]]) -> None:
        """Has an administrator do something that may be done twice, again and again until it is done."""
        loop = self.clients.node("admin")

        async def run() -> None:
            while True:
                try:
                    async with self.clients.cluster(loop) as cluster:
                        await work(cluster)
                        self.insisting -= 1
                        return
                except KavkaError:
                    await asyncio.sleep(1.0)

        self.insisting += 1
        self.clients.watch(loop.create_task(run()))

    def delete_znode(self, path: str) -> None:
        """Deletes a znode as an operator does with ZooKeeper's shell. Nobody waits for it, and it may fail."""
        loop = self.clients.node("operator")
        random = self.scheduler.new_random()

        async def run() -> None:
            network = self.network.port_of(loop.name, loop)
            try:
                session = await ZooKeeperClient.connect(
                    network,
                    self.zookeeper.connect_string,
                    session_timeout_ms=OPERATOR_SESSION_MS,
                    connection_timeout_ms=OPERATOR_SESSION_MS,
                    rng=random,
                )
            except KavkaError:
                return  # As with `administer`.
            with suppress(KavkaError):
                await session.delete(path)
            with suppress(KavkaError):
                await session.close()

        self.clients.watch(loop.create_task(run()))

    def run_swarm(  # noqa: PLR0913 - each kind of client has a number
        self,
        *,
        hours: float,
        producers: int = 2,
        mean_pause_s: float = 0.5,
        hasty: bool = False,
        members: int = 0,
        transactors: int = 0,
        sharers: int = 0,
        streamers: int = 0,
    ) -> None:
        """Writes, reads and faults for so long. `hasty`: one more producer, which is content with its leader's word;
        `members`: of a consumer group; `transactors`: producers with transactions, all but the first of which make
        something of what they read; `sharers`: members of a share group, in a world that is sharing; `streamers`: of a
        streams group, in one that is streaming."""
        for _ in range(producers):
            self.clients.add_producer(mean_pause_s=mean_pause_s)
        if hasty:
            self.clients.add_producer(mean_pause_s=HASTY_PAUSE * mean_pause_s, acks=1)
        self.clients.add_consumer()
        self.clients.add_monitor(
            TOPIC, [name for name, count in ((GROUP, members), (TRANSFORMERS, transactors)) if count]
        )
        if transactors:
            self.run_in_client("admin", lambda cluster: self._create(cluster, LEDGER, LEDGER_PARTITIONS))
            self.sharers.topics = (TOPIC, LEDGER)
        for _ in range(members):
            self.members.add()
        for _ in range(sharers):
            self.sharers.add()
        for _ in range(streamers):
            self.streamers.add()
        if members or transactors:
            self._look_at_groups()
        if transactors:
            self.transactors.add_reader()
        for _ in range(transactors):
            self.transactors.add()
        self.faults.start()
        first = self.scheduler.steps + 1
        self.run_for(hours * 3_600)
        self.swarm_steps = range(first, self.scheduler.steps + 1)

    def _look_at_groups(self) -> None:
        """Looks for rebalances that do not end, every now and then, for good."""
        self.observer.groups.check_rebalances(self.brokers.values(), [GROUP, TRANSFORMERS], self._min_in_sync)
        self.scheduler.after(GROUP_LOOK_S, self._look_at_groups)

    def settle(self, *, core_first: bool = False) -> None:
        """The liveness phase: healed, everything comes together (R20), and every acknowledged record is there (R7).

        `core_first`: before that a part of the brokers must do without the others, where there is such a part.
        """
        if core_first:
            self.liveness.settle_core()
        self.liveness.settle()

    # -- questions

    def is_healthy(self) -> bool:
        return all(broker.is_whole for broker in self.brokers.values())

    def is_fully_replicated(self) -> bool:
        """Whether every partition has a leader and all of its replicas in sync, as it is stored."""
        stored = self.observer.stored
        return all(
            partition in stored
            and stored[partition].state.leader >= 0
            and len(stored[partition].state.isr) == self.replicas
            for partition in self.partitions
        )

    def missing_of_members(self) -> list[str]:
        """What the consumer group lacks to have come together, in words."""
        partitions = [partition for partition in self.observer.stored if partition.topic == TOPIC]
        found = self.members.missing(partitions)
        if len(self.sharers):
            shared = [partition for partition in self.observer.stored if partition.topic in self.sharers.topics]
            ends = {partition: self.observer.bound(partition) for partition in shared}
            found += self.sharers.missing(shared)
            found += self.observer.shares.missing(SHARERS, ends, self.observer.log_starts())
            found += self.observer.shares.unsettled(SHARERS, self.brokers.values(), self.zookeeper)
            found += self.observer.shares.left_over(self.brokers.values())
        counts = {READING: len(partitions), COUNTING: REPARTITIONS}
        found += self.observer.streams.missing(self.streamers.running(), counts) if len(self.streamers) else []
        return found

    # -- steps

    def run_for(self, seconds: float) -> None:
        """Lets so much virtual time pass; after each step what it touched is checked."""
        self._run(self.scheduler.now_ns + round(seconds * 1e9), None)

    def run_until(self, condition: Callable[[], bool], *, within_s: float, every_s: float = 0.0) -> None:
        """Runs until `condition()`, which is asked after every step, or only so often."""
        scheduler = self.scheduler
        end_ns = scheduler.now_ns + round(within_s * 1e9)
        while not condition():
            if scheduler.now_ns > end_ns:
                raise SimulationStuck(f"not within {within_s} s of virtual time")
            if every_s:
                self._run(scheduler.now_ns + round(every_s * 1e9), None)
            else:
                self._run(end_ns + 1, condition)

    def _run(self, end_ns: int, condition: Callable[[], bool] | None) -> None:
        scheduler, bugs = self.scheduler, self.bugs
        step = scheduler.step
        check_broker, check_znodes = self.observer.check_broker, self.observer.check_znodes
        check_shares = self.observer.shares.check if self.is_sharing else None
        brokers = self.brokers
        while scheduler.now_ns < end_ns:
            if not step():
                raise SimulationStuck("nothing is left that could happen")
            node = scheduler.last_node
            if node is not None:
                if node.owner is None:
                    check_znodes(scheduler.now_ns // 1_000_000)
                    self.observer.events_checked += 1
                else:
                    broker = brokers[node.owner]
                    if node.failures:
                        broker.collect_bugs()
                    check_broker(broker, scheduler.now_ns // 1_000_000)
                    if check_shares is not None:
                        check_shares(broker)
            if bugs:
                if isinstance(bugs[0], Violation):
                    raise bugs[0]
                raise BrokerBug(f"at {scheduler.now_ms} ms: {bugs[0]!r}") from bugs[0]
            if condition is not None and condition():
                return

    def summary(self) -> dict[str, object]:
        """Figures of the run so far."""
        return {
            "seed": self.scheduler.seed,
            "digest": self.digest,
            "simulated_hours": round(self.scheduler.now_ms / 3_600_000, 3),
            "steps": self.scheduler.steps,
            "events_checked": self.observer.events_checked,
            "changes_checked": self.observer.changes_checked,
            "faults": dict(self.faults.counts),
            "sent": self.clients.sent,
            "acknowledged": self.clients.acked,
            "failed": self.clients.failed,
            "consumed": self.clients.consumed,
            "halts": [halt.why for halt in self.halts],
        }
