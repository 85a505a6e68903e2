"""What a client knows of a cluster, and its connections to the brokers.

Decides where a request goes (to a partition's leader, the controller, a group's coordinator, or any broker), when
metadata is refreshed, and what is retried. Must not know records, offsets or the protocols of groups.

Invariants
  I1  There is at most one connection per broker and purpose. The first who needs it opens it; others wait for it.
  I2  At most one Metadata request is under way. Callers that ask for the same topics meanwhile share its answer.
  I3  Metadata never goes back: an answer with an older leader epoch than the one known for a partition is not taken for
      that partition (KIP-320).
  I4  `retry` ends within the time that it was given, and only tries again what is marked as retriable.

Source: Kafka's NetworkClient and Metadata; KIP-320, KIP-580.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeVar
from uuid import UUID

from kavka.client.answers import raise_for
from kavka.client.backoff import backoff_ms
from kavka.client.connection import Answer, BrokerConnection
from kavka.client.settings import ClientSettings
from kavka.errors import (
    ConnectionFailed,
    ConnectionRefused,
    ErrorCode,
    HostUnknown,
    KavkaError,
    NotKafka,
    NotTrusted,
    RequestError,
)
from kavka.model import NO_EPOCH, TopicPartition
from kavka.network import Network
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kavka.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kavka.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kavka.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kavka.protocol.schema import ZERO_UUID, Message

Result = TypeVar("Result")

FIRST_BATCHED_FIND_COORDINATOR = 4
NOBODY = -1
"""The key for all brokers together, if none answers."""
TROUBLE_ENDS_S = 3.0
"""After this time without another failure an earlier one counts as over, even without a new try."""


class Broker(NamedTuple):
    """A broker's id and address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionMetadata(NamedTuple):
    """One partition, as the cluster last described it. `leader` is -1 if there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """One topic; `partitions` are in order and without gaps."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


class CoordinatorType:
    """What a coordinator coordinates: FindCoordinator's key type."""

    GROUP = 0
    TRANSACTION = 1


def parse_bootstrap(text: str, *, default_port: int = 9092) -> list[tuple[str, int]]:
    """`host:port,host:port` as a list; an IPv6 host stands in brackets. Raises ValueError for anything else."""
    addresses = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = entry.rpartition(":")
        if not colon or entry.endswith("]"):
            host, port = entry, str(default_port)
        if not port.isdigit() or not host.strip("[]"):
            raise ValueError(f"{entry!r} is not host:port")
        if not 0 < int(port) < 65536:
            raise ValueError(f"{entry!r} is not host:port, because a port is from 1 to 65535")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError(f"no host:port in {text!r}")
    return addresses


class NoBrokerAnswers(ConnectionFailed):
    """No broker and no bootstrap address can be reached. `failures` has one failure for each."""

    def __init__(self, failures: Sequence[KavkaError]) -> None:
        super().__init__(f"no broker answers: {'; '.join(dict.fromkeys(map(str, failures))) or 'none is known'}")
        self.failures = tuple(failures)

    @property
    def is_final(self) -> bool:
        """Whether waiting is unlikely to help: nobody listens there, the host is unknown, or it is not a broker, or not
        one that is trusted."""
        return all(isinstance(each, ConnectionRefused | HostUnknown | NotKafka | NotTrusted) for each in self.failures)


@dataclass(slots=True)
class Trouble:
    """A problem of a broker, the cluster or a partition: why, since when, and when it was last seen (loop time)."""

    why: str
    since_s: float
    seen_s: float


class Cluster:
    """A client's view of one cluster. Shared by producers, consumers and admins of one event loop.

    cluster = Cluster(network, parse_bootstrap("localhost:9092"))
    await cluster.connect()
    ...
    await cluster.close()
    """

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[tuple[str, int]],
        settings: ClientSettings | None = None,
        *,
        random: Random | None = None,
    ) -> None:
        self.settings = settings or ClientSettings()
        self.random = random or Random()
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._network = network
        self._bootstrap = list(bootstrap)
        self._connections: dict[tuple[int, str], BrokerConnection] = {}
        self._opening: dict[tuple[int, str], asyncio.Task[BrokerConnection]] = {}
        self._bootstrap_connection: BrokerConnection | None = None
        self._refresh_task: asyncio.Task[None] | None = None
        self._refreshed_at = float("-inf")
        self._tracked: dict[str, None] = {}
        self._may_create: set[str] = set()
        self._refused: dict[str, int] = {}
        """Error codes of the topics that could not be described when they were last asked for."""
        self._purposes = 0
        self._closed = False
        self._troubles: dict[int | TopicPartition, Trouble] = {}
        """By node id, NOBODY for the cluster, or partition that does not take what is sent to it."""

    async def __aenter__(self) -> Cluster:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Finds the brokers. Raises `ConnectionFailed` if none answers within `api_timeout_ms`, or earlier with
        `gives_up_early` if none can answer."""
        if self.settings.gives_up_early:
            try:
                await self.refresh([])
                return
            except NoBrokerAnswers as failure:
                if failure.is_final:
                    raise
            except (ConnectionFailed, RequestError):
                pass
        await self.retry(lambda: self.refresh([]), what="find the cluster")

    async def close(self) -> None:
        """Closes all connections. Open requests on them fail."""
        self._closed = True
        if self._refresh_task is not None:
            self._refresh_task.cancel()
        for task in self._opening.values():
            task.cancel()
        for connection in [*self._connections.values(), self._bootstrap_connection]:
            if connection is not None:
                connection.close()
        self._connections.clear()
        # One turn of the loop, so that the tasks cancelled here end before the loop may be closed.
        await asyncio.sleep(0)

    def leader(self, partition: TopicPartition) -> int:
        """Node id of the leader that metadata names, or -1."""
        found = self.partition_metadata(partition)
        return -1 if found is None else found.leader

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Epoch of that leader, or -1 if it is unknown."""
        found = self.partition_metadata(partition)
        return NO_EPOCH if found is None else found.leader_epoch

    def partition_metadata(self, partition: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return topic.partitions[partition.partition]

    def known_topic(self, name: str, *, now_s: float) -> TopicMetadata | None:
        """What `topic` gives without a request at this time of the loop; None where it has to ask. It only looks, so
        that a thread besides the loop's may call it."""
        return None if name not in self._tracked or self._is_stale(now_s) else self.topics.get(name)

    async def topic(self, name: str, *, may_create: bool = False, timeout_ms: int | None = None) -> TopicMetadata:
        """The topic, kept up to date from now on. With `may_create` a broker may create it, if it is configured to.

        Raises `RequestError` if there is no such topic, or no description of it within `timeout_ms`.
        """
        known = self.known_topic(name, now_s=asyncio.get_running_loop().time())
        if known is not None:
            return known

        async def find() -> TopicMetadata:
            self._tracked[name] = None
            if may_create:
                self._may_create.add(name)
            try:
                await self.refresh()
            except RequestError:
                # Of all that are tracked another topic may be the one that cannot be described.
                raise_for(self._refused.get(name, ErrorCode.NONE), f"topic {name!r}")
            found = self.topics.get(name)
            if found is None:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
            return found

        patience_ms = {} if may_create else {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: self.settings.topic_propagation_ms}
        try:
            return await self.retry(find, what=f"find topic {name!r}", timeout_ms=timeout_ms, patience_ms=patience_ms)
        except RequestError:
            if name not in self.topics:
                self._tracked.pop(name, None)  # Nobody got it, so nobody needs to hear of it.
                self._may_create.discard(name)
            raise

    async def refresh(self, topics: Sequence[str] | None = None) -> None:
        """Asks a broker for metadata of `topics`, or of all tracked topics.

        Raises `ConnectionFailed`, or `RequestError` for a topic that cannot be described.
        """
        if topics is not None:
            await self._refresh(topics)
            return
        task = self._refresh_task
        if task is not None and not task.done():
            # The one under way may have been asked before the caller's topic was tracked.
            await asyncio.wait({task})
            task = self._refresh_task
        if task is None or task.done():
            task = self._refresh_task = asyncio.create_task(self._refresh(None), name="metadata refresh")
            task.add_done_callback(_retrieve)
        await asyncio.shield(task)

    async def refresh_quietly(self) -> None:
        """`refresh` without errors, for a caller that will retry anyway."""
        try:
            await self.refresh()
        except (ConnectionFailed, RequestError):
            pass

    async def connection(self, node_id: int, purpose: str = "") -> BrokerConnection:
        """The connection to a broker, opened if there is none. Raises `ConnectionFailed`.

        Each `purpose` has its own connection, because Kafka answers one request of a connection before it reads the
        next. A long poll, or a join that waits for other members, would delay every request behind it.
        """
        key = (node_id, purpose)
        found = self._connections.get(key)
        if found is not None and found.is_open:
            return found
        task = self._opening.get(key)
        if task is None:
            broker = self.brokers.get(node_id)
            if broker is None:
                raise ConnectionFailed(f"there is no broker {node_id} in the cluster")
            if self._closed:
                raise ConnectionFailed("the client is closed")
            task = asyncio.create_task(
                BrokerConnection.open(self._network, broker.host, broker.port, self.settings),
                name=f"connect to broker {node_id}",
            )
            self._opening[key] = task
            task.add_done_callback(lambda done: self._opened(key, done))
        return await asyncio.shield(task)

    def new_purpose(self, kind: str) -> str:
        """A new purpose, used by nobody else. Give it back with `release`."""
        self._purposes += 1
        return f"{kind}-{self._purposes}"

    def release(self, purpose: str) -> None:
        """Closes the connections of a purpose."""
        for key in [key for key in self._connections if key[1] == purpose]:
            self._connections.pop(key).close()

    async def any_connection(self) -> BrokerConnection:
        """A connection to a broker that answers: an open one, then the known ones, then the bootstrap addresses."""
        shared = [connection for (_, purpose), connection in self._connections.items() if not purpose]
        for connection in [*shared, self._bootstrap_connection]:
            if connection is not None and connection.is_open:
                return connection
        nodes = sorted(self.brokers)
        self.random.shuffle(nodes)
        failures: list[KavkaError] = []
        for node_id in nodes:
            try:
                return await self.connection(node_id)
            except ConnectionFailed as caught:
                failures.append(caught)
        for host, port in self._bootstrap:
            try:
                self._bootstrap_connection = await BrokerConnection.open(self._network, host, port, self.settings)
            except ConnectionFailed as caught:
                failures.append(caught)
            else:
                self._troubles.pop(NOBODY, None)
                return self._bootstrap_connection
        nobody = NoBrokerAnswers(failures)
        self.note_trouble(NOBODY, nobody)
        raise nobody from failures[-1]

    def trouble(self, *, longer_than_s: float, seen_within_s: float) -> str:
        """Why the cluster, a broker or a partition has not been reachable for this long; empty if all is well.

        For programs that wait and want to show the reason.
        """
        now_s = asyncio.get_running_loop().time()
        for each in self._troubles.values():
            if each.seen_s - each.since_s >= longer_than_s and now_s - each.seen_s <= seen_within_s:
                return each.why
        return ""

    def note_trouble(self, what: int | TopicPartition, failure: KavkaError) -> None:
        """Records a failure that is being retried; see `trouble`."""
        now_s = asyncio.get_running_loop().time()
        known = self._troubles.get(what)
        if known is None or now_s - known.seen_s > TROUBLE_ENDS_S:
            known = self._troubles[what] = Trouble("", now_s, now_s)
        known.why, known.seen_s = str(failure), now_s

    def forget_trouble(self, what: int | TopicPartition) -> None:
        """Records that the failure is over."""
        self._troubles.pop(what, None)

    async def controller(self) -> BrokerConnection:
        """The controller, or any broker if the controller is unknown (KRaft brokers forward)."""
        if self.controller_id not in self.brokers:
            await self.refresh([])
        if self.controller_id not in self.brokers:
            return await self.any_connection()
        try:
            return await self.connection(self.controller_id)
        except ConnectionFailed:
            self.controller_id = -1  # Another broker may be it by now: the next attempt asks.
            raise

    async def find_coordinator(self, key: str, key_type: int = CoordinatorType.GROUP) -> int:
        """Node id of the coordinator of a group or transactional id; raises `RequestError`, `ConnectionFailed`."""

        def request(version: int) -> FindCoordinatorRequest:
            if version >= FIRST_BATCHED_FIND_COORDINATOR:
                return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            return FindCoordinatorRequest(key_type=key_type, key=key)

        answer = await self.ask(ApiKey.FIND_COORDINATOR, request, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        raise_for(found.error_code, f"coordinator of {key!r}", found.error_message)
        self.brokers[found.node_id] = Broker(found.node_id, found.host, found.port)
        return int(found.node_id)

    async def ask(  # noqa: PLR0913 - each keyword says one thing of one request, and few callers say more than one
        self,
        key: ApiKey,
        request: Message | Callable[[int], Message],
        answer_type: type[Answer],
        *,
        node_id: int | None = None,
        to_controller: bool = False,
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> Answer:
        """One request to one broker: `node_id`, the controller, or any. Raises as `BrokerConnection.request` does."""
        if node_id is not None:
            connection = await self.connection(node_id)
        elif to_controller:
            connection = await self.controller()
        else:
            connection = await self.any_connection()
        return await connection.request(key, request, answer_type, highest=highest, timeout_ms=timeout_ms)

    async def retry(
        self,
        attempt: Callable[[], Awaitable[Result]],
        *,
        what: str,
        timeout_ms: int | None = None,
        patience_ms: Mapping[ErrorCode, int] | None = None,
    ) -> Result:
        """Calls `attempt` until it succeeds, for at most `timeout_ms` (`api_timeout_ms` by default).

        It retries after broken connections and retriable `RequestError`s. Codes in `patience_ms` are retried no longer
        than given there. So it must be safe to carry out `attempt` twice. The last failure is raised, with `what` in
        its message.
        """
        loop = asyncio.get_running_loop()
        limit_ms = self.settings.api_timeout_ms if timeout_ms is None else timeout_ms
        began = loop.time()
        failures = 0
        while True:
            try:
                return await attempt()
            except (ConnectionFailed, RequestError) as failure:
                if isinstance(failure, RequestError):
                    if not failure.code.retriable:
                        raise
                    if failure.code == ErrorCode.NOT_CONTROLLER:
                        self.controller_id = -1
                    patience = (patience_ms or {}).get(failure.code, limit_ms)
                elif self._closed:
                    raise
                else:
                    patience = limit_ms
                failures += 1
                pause_s = backoff_ms(self.settings, failures, self.random) / 1000
                if loop.time() + pause_s >= began + min(patience, limit_ms) / 1000:
                    message = f"could not {what} within {min(patience, limit_ms)} ms: {failure}"
                    if isinstance(failure, RequestError):
                        raise RequestError(failure.code, message) from failure
                    raise ConnectionFailed(message) from failure
                await asyncio.sleep(pause_s)

    async def _refresh(self, topics: Sequence[str] | None) -> None:
        asked = list(self._tracked) if topics is None else list(topics)
        connection = await self.any_connection()
        # A request lets the broker create all of its topics or none: what somebody only reads goes in one of its own.
        found = [name for name in asked if name not in self._may_create]
        created = [name for name in asked if name in self._may_create]
        failed: list[MetadataResponseTopic] = []
        for names, may_create in ((found, False), (created, True)):
            if names or not (may_create or created):
                failed += await self._ask_metadata(connection, names, may_create=may_create)
        if topics is None:
            self._refreshed_at = asyncio.get_running_loop().time()
        for name in asked:
            self._refused.pop(name, None)
        self._refused.update((topic.name, topic.error_code) for topic in failed if topic.name is not None)
        for topic in failed:
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and topic.name is not None:
                self.topics.pop(topic.name, None)
        for topic in failed:
            if topic.name not in self.topics:
                raise_for(topic.error_code, f"topic {topic.name!r}")

    async def _ask_metadata(
        self, connection: BrokerConnection, names: Sequence[str], *, may_create: bool
    ) -> list[MetadataResponseTopic]:
        """Takes over what a broker says of these topics; returns those of which it says an error."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=may_create
        )
        answer = await connection.request(ApiKey.METADATA, request, MetadataResponse)
        self.take_metadata(answer)
        return [topic for topic in answer.topics if topic.error_code]

    def take_metadata(self, answer: MetadataResponse) -> None:
        """Updates the metadata from a broker's answer."""
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        brokers = {b.node_id: Broker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers}
        for node_id, broker in brokers.items():
            if node_id in self.brokers and self.brokers[node_id][:3] != broker[:3]:
                self._drop_connections(node_id)
        self.brokers = brokers
        for topic in answer.topics:
            if topic.error_code == ErrorCode.NONE and topic.name is not None:
                self.topics[topic.name] = self._merge(topic)

    def _merge(self, topic: MetadataResponseTopic) -> TopicMetadata:
        assert topic.name is not None
        known = self.topics.get(topic.name)
        same_topic = known is not None and known.topic_id in (topic.topic_id, ZERO_UUID)
        partitions: list[PartitionMetadata] = []
        for described in sorted(topic.partitions, key=lambda p: p.partition_index):
            if described.partition_index != len(partitions):
                # No number, one twice, or one is missing: a partition is found by its place, so what follows waits for
                # an answer that is whole.
                if described.partition_index > len(partitions):
                    break
                continue
            new = PartitionMetadata(
                described.partition_index,
                described.leader_id,
                described.leader_epoch,
                tuple(described.replica_nodes),
                tuple(described.isr_nodes),
                tuple(described.offline_replicas),
            )
            if known is not None and same_topic and new.partition < len(known.partitions):
                old = known.partitions[new.partition]
                if NO_EPOCH != new.leader_epoch < old.leader_epoch:
                    new = old
            partitions.append(new)
        return TopicMetadata(topic.name, topic.topic_id, topic.is_internal, tuple(partitions))

    def _is_stale(self, now_s: float) -> bool:
        return (now_s - self._refreshed_at) * 1000 > self.settings.metadata_max_age_ms

    def _opened(self, key: tuple[int, str], task: asyncio.Task[BrokerConnection]) -> None:
        if self._opening.get(key) is task:
            del self._opening[key]
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None:
            if isinstance(failure, KavkaError):
                self.note_trouble(key[0], failure)
            return
        self._troubles.pop(key[0], None)
        self._troubles.pop(NOBODY, None)
        if self._closed:
            task.result().close()
        else:
            self._connections[key] = task.result()

    def _drop_connections(self, node_id: int) -> None:
        for key in [key for key in self._connections if key[0] == node_id]:
            self._connections.pop(key).close()


def by_leader(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
    """Partitions by their leader's node id; -1 holds those without one."""
    grouped: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        grouped.setdefault(cluster.leader(partition), []).append(partition)
    return grouped


def _retrieve(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
