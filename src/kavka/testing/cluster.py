"""Cluster: brokers with real sockets and real replication in a test's process, with faults on demand.

Decides which settings brokers of tests have, how each fault is made, and when a cluster is in sync. Questions about
partitions are answered from ZooKeeper, where the controller writes them, or by the leading broker.

Each broker has its own event loop and thread (broker_thread.py explains why). It reaches the other brokers and
ZooKeeper over sockets on the loopback. So what works against this cluster works against brokers on machines. It has no
power cuts and no second processor core.

All methods block. `AsyncCluster` has the same methods to await.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from kavka.client.login import ClientLogin
from kavka.config.broker import BrokerConfig
from kavka.config.similar import similar_name
from kavka.errors import ConfigError, KavkaError
from kavka.log.unified_log import UnifiedLog
from kavka.model import TopicPartition
from kavka.runtime.loop import FileShares, share_files
from kavka.runtime.server import Server
from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperPlace
from kavka.testing.broker_thread import BrokerThread, State
from kavka.testing.cuts import ZOOKEEPER, Cuts, Member
from kavka.testing.line_file import LineFile
from kavka.testing.ports import free_ports
from kavka.testing.zookeeper_thread import ZooKeeperThread
from kavka.zookeeper.database import SyncPolicy
from kavka.zookeeper.embedded import LocalZooKeeper
from kavka.zookeeper.port import NoNode, SessionExpired
from kavka.zookeeper.znode_paths import CONTROLLER_PATH, TOPICS_PATH, partition_state_path, topic_path
from kavka.zookeeper.znodes import ControllerNode, PartitionState, TopicAssignment

if TYPE_CHECKING:
    from kavka.client.group_admin import ShownGroup
    from kavka.share.decide.in_flight import InFlight
    from kavka.testing.async_cluster import AsyncCluster

Answer = TypeVar("Answer")
Value = str | int | float | bool

HOST = "127.0.0.1"
TIMEOUT_S = 30.0
LOOK_S = 0.005
SESSION_TICKS = 20
"""ZooKeeper grants sessions of at most so many of its ticks."""
STARTS = 3
"""How often a broker is started whose ZooKeeper session ends while it starts."""
DEFAULTS: Mapping[str, Value] = {
    # Failures are noticed in a moment, and still not by a machine that is busy for one.
    "zookeeper.session.timeout.ms": 2_000,
    # Else the session's time-out: a machine that is busy with other tests may need longer for the first connection.
    "zookeeper.connection.timeout.ms": 18_000,
    "replica.lag.time.max.ms": 2_000,
    "replica.fetch.backoff.ms": 50,
    "controlled.shutdown.retry.backoff.ms": 100,
    "group.initial.rebalance.delay.ms": 0,
    # Fewer partitions are made sooner.
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "share.coordinator.state.topic.num.partitions": 3,
    # A test starts its members together, or waits for each of them.
    "group.streams.initial.rebalance.delay.ms": 0,
}
OWN_SETTINGS = ("broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir", "zookeeper.connect")
"""What the cluster itself sets."""


class BrokerHalted(KavkaError):
    """A broker ended itself because an invariant was broken or its last disk failed. This is a bug, or intended by a
    test."""


class Partition(NamedTuple):
    """A partition's state in ZooKeeper. `leader` is -1 if there is none."""

    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    replicas: tuple[int, ...]


class Cluster:
    """A cluster for one or several tests. It runs from `open` to `close`, or for the `with` block.

    brokers: the number of brokers. Their ids are 1, 2, 3, ...
    settings: Kafka's setting names to values, for all brokers. They override `DEFAULTS` and min(3, brokers) replicas.
    directory: where all data is kept. None means a temporary directory, which is removed at the end.

    One class with many methods, because a test has one cluster in its hand: each fault that a test makes, and each
    question that it asks, is a method.
    """

    _ports_each = 1
    """Of a broker; clients come to the first one."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, Value] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        """Starts nothing yet. Raises ConfigError for invalid settings."""
        if brokers < 1:
            raise ConfigError(f"a cluster has at least one broker, not {brokers}")
        self.broker_ids = tuple(range(1, brokers + 1))
        replicas = min(3, brokers)
        self._settings = {
            "default.replication.factor": str(replicas),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(max(1, replicas - 1)),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
            **{name: _text(value) for name, value in {**DEFAULTS, **(settings or {})}.items()},
        }
        for name in OWN_SETTINGS:
            if name in self._settings:
                raise ConfigError(f"{name} is set by the cluster itself")
        if self._settings.get("num.network.threads", "1") != "1":
            raise ConfigError(
                "num.network.threads is 1 here: other threads of a broker would not stand still in a pause"
            )
        for name in BrokerConfig.from_properties(self._settings).unknown:
            close = similar_name(name, BrokerConfig.rows)
            meant = f"; did you mean {close}?" if close else ""
            warnings.warn(f"unknown setting {name}: it is kept and ignored, as Kafka does{meant}", stacklevel=2)
        self._given_directory = None if directory is None else Path(directory)
        self._directory: Path | None = None
        self._lines: LineFile | None = None
        self._cuts = Cuts()
        self._members: dict[int, Member] = {}
        self._ports: dict[int, list[int]] = {}
        self._zookeeper: ZooKeeperThread | None = None
        self._zookeeper_address = ""
        self._threads: dict[int, BrokerThread] = {}

    # -- life

    def open(self) -> Self:
        """Starts ZooKeeper and all brokers. Returns when each broker knows all others. Raises KavkaError."""
        assert self._directory is None, "the cluster is open already"
        if self._given_directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="kavka-testing-"))
        else:
            self._directory = self._given_directory
            self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._lines = LineFile(self._directory / "kavka.log")
            self._zookeeper = ZooKeeperThread(self._zookeeper_place(), self._lines)
            self._zookeeper_address = self._zookeeper.start()
            self._members = {int(self._zookeeper_address.rpartition(":")[2]): ZOOKEEPER}
            if not self._ports:
                each, free = self._ports_each, free_ports(HOST, len(self.broker_ids) * self._ports_each)
                self._ports = {broker_id: free[at * each :][:each] for at, broker_id in enumerate(self.broker_ids)}
            self._members |= {port: broker_id for broker_id, ports in self._ports.items() for port in ports}
            self._prepare()
            self._start(self.broker_ids)
        except BaseException:
            self._end()
            raise
        return self

    def close(self) -> None:
        """Ends the cluster. Brokers stop in order if a directory was given; in a temporary directory they are killed.

        Raises BrokerHalted if a broker had halted and the test did not start it again.
        """
        if self._directory is None:
            return
        halted = {thread.broker_id: thread.halted for thread in self._threads.values() if thread.halted is not None}
        try:
            if self._given_directory is not None:
                self.restore_connections()
                for broker_id in self.running:
                    self._threads[broker_id].stop()
        finally:
            tail = self.log(30)
            self._end()
        if halted:
            told = "; ".join(f"broker {broker_id}: {why}" for broker_id, why in halted.items())
            raise BrokerHalted(f"{told}\n" + "\n".join(tail))

    def _end(self) -> None:
        for thread in self._threads.values():
            if thread.state is not State.ENDED:
                thread.kill()
        self._threads.clear()
        self._cuts.heal()
        if self._zookeeper is not None:
            self._zookeeper.close()
        if self._lines is not None:
            self._lines.close()
        if self._given_directory is None and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BrokerHalted:
            if kind is None:
                raise  # Otherwise the first failure is the one to report.

    async def __aenter__(self) -> AsyncCluster:
        asynchronous = self.asynchronous
        await asynchronous.open()
        return asynchronous

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.asynchronous.run(lambda: self.__exit__(kind, error, trace))

    @property
    def asynchronous(self) -> AsyncCluster:
        """The same cluster, with methods to await."""
        from kavka.testing.async_cluster import AsyncCluster

        return AsyncCluster(self)

    # -- where it is

    @property
    def bootstrap_servers(self) -> str:
        """All brokers as host:port,host:port, for a client's bootstrap.servers."""
        return ",".join(self.address(broker_id) for broker_id in self.broker_ids)

    def address(self, broker_id: int) -> str:
        """A broker's host:port. It stays the same when the broker restarts."""
        self._require(broker_id)
        return f"{HOST}:{self._ports[broker_id][0]}"

    @property
    def zookeeper_connect(self) -> str:
        """host:port of the cluster's ZooKeeper, for ZooKeeper's clients."""
        return self._zookeeper_address

    @property
    def directory(self) -> Path:
        """The directory with all data: broker-1/, broker-2/, ..., zookeeper/ and kavka.log."""
        assert self._directory is not None, "the cluster is not open"
        return self._directory

    def log(self, count: int = 100) -> list[str]:
        """The last log lines of brokers and ZooKeeper. `directory`/kavka.log has all lines."""
        return [] if self._lines is None else self._lines.last(count)

    @property
    def running(self) -> list[int]:
        """Ids of the brokers that serve at this moment: neither stopped, killed, halted nor paused."""
        return [broker_id for broker_id, thread in self._threads.items() if thread.is_running]

    # -- processes

    def start(self, *broker_ids: int) -> None:
        """Starts brokers that had ended, on their disks and ports. Returns when all running brokers know them.

        Raises KavkaError if a broker cannot start, ValueError if it is running.
        """
        for broker_id in broker_ids:
            if self._thread(broker_id).is_alive:
                raise ValueError(f"broker {broker_id} runs already")
        self._start(broker_ids)

    def stop(self, *broker_ids: int) -> None:
        """Stops brokers as SIGTERM does: they hand over their partitions, answer, flush and mark their logs clean."""
        for broker_id in broker_ids:
            self._running(broker_id).stop()

    def kill(self, *broker_ids: int) -> None:
        """Kills brokers as kill -9 does: the kernel closes their sockets, nothing more is written, and their ZooKeeper
        sessions are left to expire. A paused broker can be killed as well."""
        for broker_id in broker_ids:
            if not self._thread(broker_id).is_alive:
                raise ValueError(f"broker {broker_id} does not run")
        for broker_id in broker_ids:
            self._threads[broker_id].kill()

    def pause(self, member: Member) -> None:
        """Pauses a broker, or "zookeeper", as SIGSTOP does. The kernel still accepts connections and nothing answers.
        No timer of it runs, and the clock goes on."""
        if member == ZOOKEEPER:
            self._require_zookeeper().pause()
        else:
            self._running(_broker_id(member)).pause()

    def resume(self, member: Member) -> None:
        """Resumes a paused broker, or "zookeeper", as SIGCONT does."""
        if member == ZOOKEEPER:
            self._require_zookeeper().resume()
            return
        thread = self._thread(_broker_id(member))
        if thread.state is not State.PAUSED:
            raise ValueError(f"broker {member} is not paused")
        thread.resume()

    # -- network

    def cut(self, source: Member, target: Member, *, both_ways: bool = True) -> None:
        """Drops everything that `source` sends to `target`, without an error on either side. The other direction is
        cut too, unless `both_ways` is False. Either may be "zookeeper". Clients are not cut off."""
        self._cuts.cut(self._ways(source, target, both_ways=both_ways))

    def isolate(self, broker_id: int) -> None:
        """Cuts a broker off from all others and from ZooKeeper."""
        members: tuple[Member, ...] = (*self.broker_ids, ZOOKEEPER)
        for other in members:
            if other != broker_id:
                self.cut(broker_id, other)

    def heal(self, source: Member | None = None, target: Member | None = None) -> None:
        """Heals all cuts, those of one member, or those between two members."""
        members: tuple[Member, ...] = (*self.broker_ids, ZOOKEEPER)
        if source is None:
            self._cuts.heal()
            return
        others = [other for other in members if other != source] if target is None else [target]
        self._cuts.heal([way for other in others for way in self._ways(source, other, both_ways=True)])

    # -- disk and session

    def slow_disk(self, broker_id: int, ms: float) -> None:
        """Makes each disk access of the broker take `ms` milliseconds longer, until it restarts. 0 ends this."""
        self._thread(broker_id).life.disk_delay_s = ms / 1000

    def stall_syncs(self, broker_id: int, *, stalled: bool = True) -> None:
        """Lets no fsync of the broker end, until it restarts or until `stalled` is false. Writes to the page cache go
        on."""
        self._thread(broker_id).life.stall_syncs(stalled=stalled)

    def expire_session(self, broker_id: int) -> None:
        """Ends the broker's ZooKeeper session as if it had timed out. The broker is notified and registers again."""
        session_id = self._running(broker_id).ask(lambda server: server.zookeeper.session_id)
        self._require_zookeeper().expire(session_id)

    # -- everything well again

    def restore_connections(self) -> None:
        """Heals all cuts, speeds up all disks, resumes what is paused."""
        self._cuts.heal()
        self._require_zookeeper().resume()
        for thread in self._threads.values():
            thread.life.disk_delay_s = 0.0
            thread.life.stall_syncs(stalled=False)
            if thread.state is State.PAUSED:
                thread.resume()

    def restore(self, *, timeout: float = TIMEOUT_S) -> None:
        """Undoes all faults: heals cuts, resumes paused brokers, starts ended ones. Returns when all replicas are in
        sync."""
        self.restore_connections()
        self._start([broker_id for broker_id in self.broker_ids if not self._threads[broker_id].is_alive])
        self.wait_in_sync(timeout=timeout)

    # -- topics and partitions

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        *,
        settings: Mapping[str, Value] | None = None,
        assignment: Mapping[int, Iterable[int]] | None = None,
    ) -> None:
        """Creates a topic. Returns when every running broker knows it and all its replicas are in sync.

        replicas: the default is min(3, brokers). assignment: partition -> broker ids, the preferred leader first. It
        replaces both numbers. Raises KavkaError.
        """
        from kavka.testing.topics import create_topic

        texts = {key: _text(value) for key, value in (settings or {}).items()}
        lists = None if assignment is None else [list(assignment[index]) for index in range(len(assignment))]
        create_topic(self._client_login(), name, partitions, -1 if replicas is None else replicas, texts, lists)
        self.wait_in_sync(name)

    def partition(self, topic: str, partition: int = 0) -> Partition:
        """A partition's state in ZooKeeper. Raises KeyError if there is no such partition."""
        try:
            found = self._partitions(topic)
        except NoNode:
            raise KeyError(f"there is no topic {topic}") from None
        return found[partition]

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker id of the partition's leader; -1 if there is none. Raises KeyError."""
        return self.partition(topic, partition).leader

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """The broker ids of the in-sync replicas, sorted. Raises KeyError."""
        return sorted(self.partition(topic, partition).in_sync)

    def controller(self) -> int:
        """The controller's broker id; -1 if there is none."""
        return self._ask(_controller)

    def high_watermark(self, topic: str, partition: int = 0) -> int:
        """The offset below which records are committed, as the leader knows it. Raises KeyError, and ValueError if no
        running broker leads the partition."""
        leader = self._running_leader(topic, partition)
        return leader.ask(lambda server: _log_of(server, topic, partition).high_watermark)

    def high_watermarks(self, topic: str) -> dict[int, int]:
        """`high_watermark` of each partition."""
        return {partition: self.high_watermark(topic, partition) for partition in self._partitions(topic)}

    def log_end_offset(self, broker_id: int, topic: str, partition: int = 0) -> int:
        """The offset of the next record in one broker's own log, committed or not. Raises KeyError."""
        return self._running(broker_id).ask(lambda server: _log_of(server, topic, partition).log_end_offset)

    # -- groups

    def configure_group(self, group_id: str, settings: Mapping[str, Value]) -> None:
        """Changes settings of a group: `share.auto.offset.reset`, `streams.num.standby.replicas`. Raises KavkaError."""
        from kavka.testing.groups import configure

        configure(self._client_login(), group_id, {name: _text(value) for name, value in settings.items()})

    def group(self, group_id: str) -> ShownGroup:
        """A group of any kind with its members, their partitions, and in a streams group their tasks. One that does not
        exist is Dead. Raises KavkaError."""
        from kavka.testing.groups import describe

        return describe(self._client_login(), group_id)

    def wait_for_group(
        self, group_id: str, *, members: int | None = None, state: str = "Stable", timeout: float = TIMEOUT_S
    ) -> ShownGroup:
        """Waits until a group is in this state and, where `members` is given, has so many. Raises TimeoutError,
        KavkaError."""
        from kavka.testing.groups import missing

        found: list[ShownGroup] = []

        def lacks() -> str:
            found[:] = [self.group(group_id)]
            return missing(found[0], members, state)

        self._wait(lacks, timeout)
        return found[0]

    def share_records(self, group_id: str, topic: str, partition: int = 0) -> InFlight | None:
        """What a share group has done with the records of a partition, as its leader knows it: runs of records in the
        same state, with the count of deliveries, who holds them and for how much longer. None if no member fetches
        from it. Raises KeyError, and ValueError if no running broker leads the partition."""
        from kavka.testing.groups import share_records

        leader = self._running_leader(topic, partition)
        return leader.ask(lambda server: share_records(server, group_id, topic, partition))

    def deliveries(self, group_id: str, topic: str, partition: int = 0) -> dict[int, int]:
        """How often each record was delivered, by offset: of those from the first that is not done to the last that was
        delivered. Raises as `share_records` does."""
        found = self.share_records(group_id, topic, partition)
        runs = () if found is None else found.runs
        return {offset: run.deliveries for run in runs for offset in range(run.first, run.last + 1)}

    def expire_locks(self, group_id: str) -> int:
        """Ends all locks of a share group's members at once, as if their time was over: others get the records, or, at
        `share.delivery.count.limit`, nobody. Returns the number of records."""
        from kavka.testing.groups import expire_locks

        return sum(self._threads[each].ask(lambda server: expire_locks(server, group_id)) for each in self.running)

    # -- waiting

    def wait_in_sync(self, topic: str | None = None, *, timeout: float = TIMEOUT_S) -> None:
        """Waits until each partition of a topic, or of all topics, has a running leader, all its replicas on running
        brokers are in sync, and the metadata of these brokers shows it. Raises TimeoutError with what is missing."""
        self._wait(lambda: self._not_in_sync(topic), timeout)

    def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int = -1, timeout: float = TIMEOUT_S
    ) -> int:
        """Waits until a running broker other than `other_than` leads, and returns its id. Raises TimeoutError."""

        def missing() -> str:
            leader = self._find_leader(topic, partition)
            return "" if leader in self.running and leader != other_than else f"{topic}-{partition} is led by {leader}"

        self._wait(missing, timeout)
        return self.leader(topic, partition)

    def wait_until(self, condition: Callable[[], object], *, timeout: float = TIMEOUT_S) -> None:
        """Waits until `condition` is true of the cluster. Raises TimeoutError."""
        self._wait(lambda: "" if condition() else f"{condition} is not true", timeout)

    # -- inside

    def _prepare(self) -> None:
        """What is done when ZooKeeper runs, before brokers start."""

    def _listeners(self, broker_id: int) -> dict[str, str]:
        """The settings of a broker's listeners."""
        return {"listeners": f"PLAINTEXT://{self.address(broker_id)}"}

    def _client_login(self) -> ClientLogin:
        """How the cluster's own client gets in."""
        return ClientLogin(bootstrap=self.bootstrap_servers)

    def _zookeeper_place(self) -> ZooKeeperPlace:
        session_ms = int(self._settings["zookeeper.session.timeout.ms"])
        return ZooKeeperPlace(
            str(self.directory / "zookeeper"),
            # A killed broker leaves what it wrote in the page cache; and no test cuts the power.
            sync=SyncPolicy.NEVER,
            host=HOST,
            port=0,
            tick_ms=max(1, -(-session_ms // SESSION_TICKS)),
        )

    def _start(self, broker_ids: Iterable[int]) -> None:
        started = [self._launch(broker_id) for broker_id in broker_ids]
        for thread in started:
            self._wait_until_started(thread)
        self._wait(self._strangers, TIMEOUT_S)

    def _launch(self, broker_id: int) -> BrokerThread:
        assert self._lines is not None
        config = BrokerConfig.from_properties(
            {
                **self._settings,
                "broker.id": str(broker_id),
                **self._listeners(broker_id),
                "log.dirs": str(self.directory / f"broker-{broker_id}"),
                "zookeeper.connect": self._zookeeper_address,
            }
        )
        thread = BrokerThread(config, self._file_shares(), self._cuts, self._members, self._lines)
        self._threads[broker_id] = thread
        thread.launch()
        return thread

    def _wait_until_started(self, thread: BrokerThread) -> None:
        """On a busy machine a broker's short session can end while it starts: whoever runs a process would start it
        again, and so does this, a few times."""
        for _ in range(STARTS - 1):
            try:
                thread.wait_until_started()
                return
            except SessionExpired:
                thread.kill()
                thread = self._launch(thread.broker_id)
        thread.wait_until_started()

    def _file_shares(self) -> FileShares:
        """The limit of open files is that of the program under test: it is not raised here."""
        soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        return share_files(soft // (len(self.broker_ids) + 1) if soft > 0 else 1 << 20)

    def _strangers(self) -> str:
        """Which brokers that run and are connected do not know each other; "" where all do."""
        running = self.running
        for broker_id in running:
            known = self._threads[broker_id].ask(
                lambda server: {int(broker.broker_id) for broker in server.broker.metadata.brokers()}
            )
            missing = [other for other in running if other not in known]
            if missing and not self._cuts.any:
                return f"broker {broker_id} does not know {missing}"
        return ""

    def _not_in_sync(self, topic: str | None) -> str:
        running = self.running
        try:
            topics = [topic] if topic is not None else self._ask(lambda zookeeper: zookeeper.children(TOPICS_PATH))
            found = {name: self._partitions(name) for name in topics}
        except NoNode:
            return f"there is no topic {topic}" if topic is not None else "a topic is on its way"
        for name, partitions in found.items():
            for index, partition in partitions.items():
                missing = [one for one in partition.replicas if one in running and one not in partition.in_sync]
                if missing or partition.leader not in running:
                    return f"{name}-{index}: {partition}, running are {running}"
        for broker_id in running:
            told = self._threads[broker_id].ask(
                lambda server: {
                    (name, index): leader
                    for name, partitions in found.items()
                    for index in partitions
                    for leader in [_told_leader(server, name, index)]
                }
            )
            for (name, index), leader in told.items():
                if leader != found[name][index].leader:
                    return f"broker {broker_id} tells that {name}-{index} is led by {leader}"
        return ""

    def _partitions(self, topic: str) -> dict[int, Partition]:
        """Raises NoNode where the topic, or the state of one of its partitions, is not there (yet)."""
        return self._ask(lambda zookeeper: _partitions(zookeeper, topic))

    def _find_leader(self, topic: str, partition: int) -> int:
        try:
            return self.leader(topic, partition)
        except KeyError:
            return -1

    def _running_leader(self, topic: str, partition: int) -> BrokerThread:
        leader = self.leader(topic, partition)
        if leader not in self.running:
            raise ValueError(f"{topic}-{partition} has no leader that runs: {leader}")
        return self._threads[leader]

    def _wait(self, missing: Callable[[], str], timeout: float) -> None:
        """Returns when `missing` says nothing. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                what = missing()
            except TimeoutError:
                what = "a broker does not answer"
            if not what:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"not in {timeout} s: {what}\n" + "\n".join(self.log(20)))
            time.sleep(LOOK_S)

    def _ask(self, question: Callable[[LocalZooKeeper], Coroutine[Any, Any, Answer]]) -> Answer:
        return self._require_zookeeper().ask(question)

    def _ways(self, source: Member, target: Member, *, both_ways: bool) -> list[tuple[Member, Member]]:
        for member in (source, target):
            if member != ZOOKEEPER:
                self._require(_broker_id(member))
        if source == target:
            raise ValueError(f"{source} is no way from one member to another")
        return [(source, target), (target, source)] if both_ways else [(source, target)]

    def _require(self, broker_id: int) -> None:
        if broker_id not in self.broker_ids:
            raise ValueError(f"there is no broker {broker_id}: there are {self.broker_ids}")

    def _require_zookeeper(self) -> ZooKeeperThread:
        assert self._zookeeper is not None, "the cluster is not open"
        return self._zookeeper

    def _thread(self, broker_id: int) -> BrokerThread:
        self._require(broker_id)
        assert self._directory is not None, "the cluster is not open"
        return self._threads[broker_id]

    def _running(self, broker_id: int) -> BrokerThread:
        thread = self._thread(broker_id)
        if not thread.is_running:
            raise ValueError(f"broker {broker_id} does not run: it is {thread.state.value}")
        return thread


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _broker_id(member: Member) -> int:
    if not isinstance(member, int):
        raise ValueError(f'{member!r} is neither a broker id nor "{ZOOKEEPER}"')
    return member


def _told_leader(server: Server, topic: str, partition: int) -> int:
    """Whom a broker names to clients; -1 where it names nobody."""
    metadata = server.broker.metadata.partition(topic, partition)
    return -1 if metadata is None else int(metadata.state.leader)


def _log_of(server: Server, topic: str, partition: int) -> UnifiedLog:
    found = server.broker.replicas.partition(topic, partition)
    if found is None:
        raise KeyError(f"broker {server.broker.broker_id} has no replica of {topic}-{partition}")
    return found.log


async def _controller(zookeeper: LocalZooKeeper) -> int:
    try:
        data, _stat = await zookeeper.get(CONTROLLER_PATH)
    except NoNode:
        return -1
    return int(ControllerNode.decode(data).broker_id)


async def _partitions(zookeeper: LocalZooKeeper, topic: str) -> dict[int, Partition]:
    data, _stat = await zookeeper.get(topic_path(topic))
    assignment = TopicAssignment.decode(topic, data).partitions
    found = {}
    for index in sorted(assignment):
        place = TopicPartition(topic, index)
        state_data, _stat = await zookeeper.get(partition_state_path(place))
        state = PartitionState.decode(place, state_data)
        found[index] = Partition(
            int(state.leader), state.leader_epoch, tuple(map(int, state.isr)), tuple(map(int, assignment[index]))
        )
    return found
