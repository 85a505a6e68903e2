"""Broker: one broker that has started, as its handlers (api/) and its host see it.

Decides nothing about records, groups or topics; it holds the parts that do. It is complete from the start: `parts`
makes all its parts, and `start` returns it when they run.

Source: Kafka's KafkaServer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kavka.broker.late import Late
from kavka.broker.metadata.features import Features, serves_consumer_groups, serves_streams_groups
from kavka.broker.metadata.metadata_cache import (
    MetadataCache,
    PartitionMetadata,
)
from kavka.config.broker import BrokerConfig
from kavka.controller.decide.topic_plans import topic_name_error
from kavka.errors import ErrorCode, RequestError, StorageError
from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znode_paths import partition_state_path
from kavka.zookeeper.znodes import PartitionState

if TYPE_CHECKING:
    from kavka.broker.assembly.authentication import Authentication
    from kavka.broker.assembly.ends import Ends
    from kavka.broker.assembly.following import Following
    from kavka.broker.assembly.group_parts import GroupParts
    from kavka.broker.assembly.tasks import Tasks
    from kavka.broker.assembly.transaction_coordinator import TransactionRoom
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.broker.authentication.sasl_gate import Gates
    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.decisions.request_traces import RequestTraces
    from kavka.broker.membership.registrar import Registrar
    from kavka.broker.metadata.controller_link import ControllerLink
    from kavka.broker.metadata.first_metadata import FirstMetadata
    from kavka.broker.metadata.state_changes import StateChanges
    from kavka.broker.quotas.client_quotas import ClientQuotas
    from kavka.broker.quotas.quota_store import QuotaStore
    from kavka.broker.reads.fetch_session import FetchSessionCache
    from kavka.broker.reads.timestamp_lookups import TimestampLookups
    from kavka.broker.settings.dynamic_configs import DynamicConfigs
    from kavka.broker.share.room import ShareRoom
    from kavka.broker.telemetry.client_telemetry import ClientTelemetry
    from kavka.broker.telemetry.connected_clients import ConnectedClients
    from kavka.broker.topics.auto_creation import AutoCreation
    from kavka.broker.topics.topic_creation import TopicCreation
    from kavka.broker.transactions.producer_ids import ProducerIds
    from kavka.broker.upkeep.flushes import Flushes
    from kavka.broker.upkeep.log_cleaner import LogCleaner
    from kavka.broker.upkeep.log_moves import LogMoves
    from kavka.controller.controller import Controller
    from kavka.controller.work.topic_admin import TopicAdmin
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.coordinator.share_state.coordinator import ShareCoordinator
    from kavka.decisions import RecordDecision
    from kavka.log.home_loader import LoadReport
    from kavka.log.log_manager import LogManager
    from kavka.logger import LogLevels
    from kavka.replication.replica_manager import ReplicaManager
    from kavka.zookeeper.port import ZooKeeper


class Farewell(NamedTuple):
    """What a broker does while it leaves the cluster, beside the hand-over of its partitions."""

    write_ahead: Callable[[], Coroutine[None, None, None]]
    hand_over_decisions: Callable[[], Awaitable[None]]


class Inner(NamedTuple):
    """What the broker's own methods need, and no handler uses."""

    zookeeper: ZooKeeper
    is_alone: bool
    registrar: Registrar
    controller_link: ControllerLink
    following: Following
    on_storage_error: Callable[[StorageError], None]
    tasks: Tasks
    topic_creation: TopicCreation
    ends: Ends
    groups: Late[GroupCoordinator]
    transaction_room: Late[TransactionRoom]
    share: Late[ShareRoom]
    share_states: Late[ShareCoordinator]
    look_for_deleted_topics: Callable[[], Awaitable[None]]
    group_parts: Late[GroupParts]
    moves: Late[LogMoves]
    quota_store: Late[QuotaStore]
    request_traces: Late[RequestTraces]
    connected_clients: Late[ConnectedClients]
    farewell: Farewell


_T = TypeVar("_T")


class _LatePart(Generic[_T]):
    """An attribute that stands for a late part (`broker/late.py`), or for a part of one.

    What `find` found in the first use stays in the broker's own dictionary. Python looks there before it asks a
    descriptor that has no `__set__`, so that all further uses cost what any attribute costs.
    """

    def __init__(self, find: Callable[[Inner], _T]) -> None:
        self._find = find
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, broker: Broker, owner: type) -> _T:
        part = broker.__dict__[self._name] = self._find(broker.inner)
        return part


@dataclass(frozen=True, kw_only=True, eq=False)
class Broker:
    """One broker. `report` says what happened to its logs when they were opened. `cleaner` compacts logs; None where
    log.cleaner.enable is false. `authorization` says who may do what; None without an authorizer: everybody may do
    everything. `authentication` says who clients are; None without a listener that asks by SASL. `tokens` are the
    delegation tokens; None without delegation.token.secret.key. `quotas` limits what
    clients may use up; made with the first one that is set. `record` takes down what the host decides for it."""

    broker_id: BrokerId
    wall_ms: Callable[[], int]
    report: LoadReport
    log_levels: LogLevels
    configs: DynamicConfigs
    features: Features
    metadata: MetadataCache
    first_metadata: FirstMetadata
    state_changes: StateChanges
    controller: Controller
    replicas: ReplicaManager
    logs: LogManager
    flushes: Flushes
    cleaner: LogCleaner | None
    fetch_sessions: FetchSessionCache
    timestamp_lookups: Late[TimestampLookups]
    producer_ids: ProducerIds
    auto_creation: AutoCreation
    telemetry: Late[ClientTelemetry]
    authorization: Authorization | None
    quotas: Late[ClientQuotas]
    authentication: Authentication | None
    tokens: Tokens | None
    record: RecordDecision
    inner: Inner

    # -- late parts

    groups = _LatePart(lambda inner: inner.groups())
    transactions = _LatePart(lambda inner: inner.transaction_room().coordinator)
    marker_log = _LatePart(lambda inner: inner.transaction_room().marker_log)
    verification = _LatePart(lambda inner: inner.transaction_room().verification)
    share = _LatePart(lambda inner: inner.share())
    share_states = _LatePart(lambda inner: inner.share_states())
    streams_topics = _LatePart(lambda inner: inner.group_parts().topics)
    group_census = _LatePart(lambda inner: inner.group_parts().census)
    moves = _LatePart(lambda inner: inner.moves())
    quota_store = _LatePart(lambda inner: inner.quota_store())
    request_traces = _LatePart(lambda inner: inner.request_traces())
    connected_clients = _LatePart(lambda inner: inner.connected_clients())

    # -- how it stands

    @property
    def has_groups(self) -> bool:
        """Whether its part for groups was made: before that, this broker coordinates none."""
        return self.inner.groups.made is not None

    @property
    def has_transactions(self) -> bool:
        """Whether its part for transactions was made: before that, this broker coordinates none."""
        return self.inner.transaction_room.made is not None

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings as they are in force, with what was set at run time."""
        return self.configs.broker

    @property
    def broker_epoch(self) -> int:
        """The broker epoch of the present registration; -1 before the first."""
        return self.inner.registrar.broker_epoch

    @property
    def session_id(self) -> int:
        """The present session with ZooKeeper."""
        return self.inner.zookeeper.session_id

    @property
    def topics(self) -> TopicAdmin:
        """What clients may ask of the controller. Raises NotController while this broker is not it."""
        return self.controller.topics

    @property
    def gates(self) -> Gates | None:
        """What stands before the handlers on listeners that authenticate by SASL; None without such listeners."""
        return None if self.authentication is None else self.authentication.gates

    def serves_consumer_groups(self) -> bool:
        """Whether groups of the newer protocol (KIP-848) are served."""
        return serves_consumer_groups(self.config, self.features.group_version())

    def serves_share_groups(self) -> bool:
        """Whether share groups (KIP-932) are served."""
        return self.features.share_version() >= 1

    def serves_streams_groups(self) -> bool:
        """Whether streams groups (KIP-1071) are served."""
        return serves_streams_groups(self.config, self.features.streams_version())

    # -- what handlers have done

    def invalid_topic_name(self, name: str) -> ErrorCode | None:
        """INVALID_TOPIC_EXCEPTION where no topic can have this name."""
        return ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) is not None else None

    async def ensure_internal_topic(self, name: str) -> None:
        """Creates a coordinator's topic if it is missing. Raises `RequestError` (COORDINATOR_NOT_AVAILABLE)."""
        await self.inner.topic_creation.ensure_internal_topic(name)

    def coordinator_partition(self, topic: str, index: int) -> PartitionMetadata:
        """A partition of a coordinator's topic. Raises `RequestError` (COORDINATOR_NOT_AVAILABLE) without one."""
        partition = self.metadata.partition(topic, index)
        if partition is None:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition

    async def read_partition_states(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The partitions' states as ZooKeeper has them now, of those that have one. Raises ZooKeeperError."""
        found = await self.inner.zookeeper.get_many([partition_state_path(partition) for partition in partitions])
        return {
            partition: PartitionState.decode(partition, node[0])
            for partition, node in zip(partitions, found, strict=True)
            if node is not None
        }

    def on_storage_error(self, failure: StorageError) -> None:
        """Takes the directory of a failed file offline, with all partitions in it; the last one halts the broker."""
        self.inner.on_storage_error(failure)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Runs `work` in a task that ends with the broker."""
        self.inner.tasks.spawn(work)

    # -- its end

    async def leave_cluster(self) -> None:
        """Controlled shutdown: asks the controller to move leaders from this broker to others, while it still serves.
        Returns when nothing can be moved any more, or after controlled.shutdown.max.retries more attempts. Then the
        others get the why-records that they do not have yet. The last live broker has nobody to hand anything over to.
        """

        def has_others() -> bool:
            return self.metadata.has_other_than(self.broker_id)

        if self.inner.is_alone or not has_others():
            return
        if self.config.controlled_shutdown_enable:
            # The controller has more to do meanwhile than this broker.
            self.inner.tasks.spawn(self.inner.farewell.write_ahead())
            from kavka.broker.membership.controlled_shutdown import leave_cluster

            await leave_cluster(
                self.inner.controller_link, self.config, self.broker_id, lambda: self.broker_epoch, has_others
            )
        await self.inner.farewell.hand_over_decisions()

    def answer_waiting(self) -> None:
        """Answers all requests that wait, so that their connections can end: the broker is about to stop."""
        self.replicas.shut_down()
        groups, transaction_room = self.inner.groups.made, self.inner.transaction_room.made
        if (share := self.inner.share.made) is not None:
            share.leaders.close()
        if groups is not None:
            groups.shut_down()
        if transaction_room is not None:
            transaction_room.coordinator.shut_down()

    async def stop(self) -> None:
        """Stops in order (ends.py); afterwards the log directories are marked clean."""
        await self.inner.ends.stop()

    def abort(self) -> None:
        """Releases everything without writing anything, as a kill would."""
        self.inner.ends.abort()
