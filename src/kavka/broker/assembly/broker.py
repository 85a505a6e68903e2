"""Broker: joins the rooms below into one broker, starts and stops them in order.

Decides nothing about records, groups or topics; it owns who does, and gives the API handlers (api/) what they ask for.

Start   znodes, topics of an earlier life (adoption.py, where this broker is alone), cluster id, settings - logs
        (recovered where the last stop was not clean) - registration - controller election; if it is won, what this
        broker leads is led and published - maintenance. The listeners open after that: the controller reaches this
        broker through them. Clients that ask about a cluster which nobody told this broker of yet wait a moment.
Stop    what this broker leads is handed over (controlled shutdown) - waiting requests are answered - groups end -
        fetchers and maintenance end - logs are flushed and marked clean - the session ends.
Session When it expires, another one begins and the broker registers anew, with another broker epoch: what was meant
        for its former self is refused. Partitions are served meanwhile as the controller said last.

Source: Kafka's KafkaServer.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kavka.broker.api_table import SERVED
from kavka.broker.assembly.transaction_room import TransactionPorts, TransactionRoom
from kavka.broker.coordinators.consumer_groups import KnownTopics, consumer_group_limits, serves_consumer_groups
from kavka.broker.coordinators.coordinator_log import CoordinatorLog
from kavka.broker.decisions.decision_log import DecisionLog
from kavka.broker.decisions.decision_topic import ReplicatedDecisionTopic
from kavka.broker.membership.adoption import Claims, adopt, offsets_topic_settings, transaction_topic_settings
from kavka.broker.membership.incarnation import (
    NEVER_ACTED_ON,
    former_lives,
    has_untold_loss,
    lost_nothing,
    present_life,
    remember_life,
    sessions_from,
)
from kavka.broker.membership.log_directory_check import remember_directories, require_logs_here
from kavka.broker.membership.registration import cluster_id, make_persistent_paths, register
from kavka.broker.metadata.controller_link import ControllerLink
from kavka.broker.metadata.features import SUPPORTED, Features
from kavka.broker.metadata.metadata_cache import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    TRANSACTION_STATE_TOPIC,
    Endpoint,
    MetadataCache,
    PartitionMetadata,
)
from kavka.broker.metadata.state_changes import StateChanges
from kavka.broker.quotas.throttles import Throttles
from kavka.broker.reads.fetch_session import FetchSessionCache
from kavka.broker.reads.timestamp_lookups import TimestampLookups
from kavka.broker.settings.dynamic_configs import DynamicConfigs
from kavka.broker.settings.topic_settings import log_config
from kavka.broker.telemetry.client_telemetry import ClientTelemetry, Push
from kavka.broker.topics.auto_creation import AutoCreation
from kavka.broker.transactions.markers import MarkerLog
from kavka.broker.transactions.producer_ids import ProducerIds
from kavka.broker.transactions.verification import TransactionVerification
from kavka.broker.upkeep.flushes import Flushes
from kavka.broker.upkeep.log_cleaner import LogCleaner
from kavka.broker.upkeep.log_maintenance import LogMaintenance
from kavka.broker.upkeep.log_moves import LogMoves
from kavka.config.broker import BrokerConfig
from kavka.config.effect import RACK_AWARE
from kavka.config.topic import validate_overrides
from kavka.controller.controller import Controller, ControllerSettings
from kavka.controller.decide.topic_plans import TopicRequest, TopicRules, colliding_topics, topic_name_error
from kavka.controller.orders.channels import ChannelLimits, ChannelPorts
from kavka.controller.term.controller_term import NotController
from kavka.controller.work.topic_admin import TopicAdmin
from kavka.coordinator.groups.classic.decide.membership import GroupLimits
from kavka.coordinator.groups.consumer.flow import Surroundings
from kavka.coordinator.groups.coordinator import GroupCoordinator
from kavka.coordinator.transactions.coordinator import TransactionCoordinator
from kavka.decisions import Decision, DecisionKind, RecordDecision, forget
from kavka.errors import ConfigError, ConnectionFailed, ErrorCode, RequestError, StorageError, ZooKeeperError
from kavka.filesystem import FileSystem
from kavka.log.log_manager import LoadReport, LogManager, LogManagerSettings, RunAll, one_by_one
from kavka.logger import Logger, current_levels
from kavka.model import BrokerId, TopicPartition
from kavka.network import Network
from kavka.protocol.api_keys import ApiKey
from kavka.records.compression import Compression
from kavka.replication.alter_partition_writer import AlterPartitionWriter, stores_isr_through_controller
from kavka.replication.decide.lag_policy import lag_policy
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.replica_manager import ReplicaManager
from kavka.replication.zookeeper_isr_writer import ZooKeeperIsrWriter
from kavka.zookeeper.port import CreateMode, Event, SessionEvent, SessionExpired, SessionState, ZooKeeper
from kavka.zookeeper.znodes import (
    CLIENT_METRICS_ENTITY,
    LOG_DIR_EVENT_PREFIX,
    LOG_DIR_FAILURE,
    TOPICS_PATH,
    BrokerEndpoint,
    BrokerRegistration,
    LogDirEvent,
    MalformedZNode,
    PartitionState,
    UncleanShutdowns,
    partition_state_path,
    random_uuid,
)

if TYPE_CHECKING:
    from kavka.flight.recorder import FlightRecorder
    from kavka.protocol.peer import PeerConnection
    from kavka.replication.decide.fetch_state import FetchState
    from kavka.replication.fetcher_manager import FetcherManager

logger = Logger(__name__)

CONTROLLED_SHUTDOWN_VERSION: Final = 3
CREATE_TOPICS_VERSION: Final = 7
TOPIC_ARRIVAL_S: Final = 1.0
"""How long a topic that another broker created for this one is waited for before its client is told to ask again."""
STOP_PATIENCE_S: Final = 3.0
"""How long a broker that stops waits for ZooKeeper to take the controller's seat and the session back."""
METADATA_PATIENCE_S: Final = 2.0
"""How long after its start a broker lets clients wait that ask about a cluster which nobody told it of yet."""
REJOIN_RETRY_S: Final = 1.0
"""How long after a failure of ZooKeeper what this broker must tell it is tried again."""


class Ports(NamedTuple):
    """What the host gives a broker.

    `wall_ms` is the time in milliseconds since 1970. `run_blocking` carries a call to a worker thread. `halt` ends the
    process: the broker cannot go on. `max_open_segments` is how many segments' files may be open. `on_config` is told
    of the broker's settings after they changed at run time, so that the host obeys those that are its own. `network`
    opens connections to the other brokers. `is_alone`: the ZooKeeper is embedded and serves no other broker, now or
    later, so that what lies in the log directories is all that the cluster has. `on_decision` is told of each decision
    when it is made, besides what the broker itself does with it. `place` is where no two processes can listen on one
    port (membership/incarnation.py), empty where that is not known. `on_client_metrics` is given the metrics
    that clients push, None where nobody takes them. `run_all` runs jobs that wait for the disk beside each other, while
    nothing else is done.
    """

    zookeeper: ZooKeeper
    filesystem: FileSystem
    random: random.Random
    wall_ms: Callable[[], int]
    run_blocking: Callable[[Callable[[], None]], Awaitable[None]]
    halt: Callable[[str], None]
    max_open_segments: int
    on_config: Callable[[BrokerConfig], None]
    network: Network
    is_alone: bool = True
    on_decision: RecordDecision = forget
    place: str = "here"
    on_client_metrics: Callable[[Push], None] | None = None
    run_all: RunAll = one_by_one


class Broker:
    """One broker. `advertised` is where clients of each listener reach it.

    API handlers use the attributes; all of them are there after `start`.
    """

    def __init__(self, config: BrokerConfig, ports: Ports, advertised: Mapping[str, Endpoint]) -> None:
        loop = asyncio.get_running_loop()
        self._ports = ports
        self._advertised = advertised
        self._static_config = config
        self._tasks: set[asyncio.Task[Any]] = set()
        self._creating_internal_topic = asyncio.Lock()
        self._former_sessions: list[int] = []
        self._is_unclean = False
        """Whether registrations say that the last stop was not clean; only with eligible leader replicas."""
        self._predecessors: list[int] = []
        self._announced_directories: dict[str, None] = {}
        self._fetchers: FetcherManager | None = None
        self._patient_until = 0.0
        self._unsubscribe: Callable[[], None] = lambda: None
        self.broker_id = BrokerId(config.broker_id)
        self.broker_epoch = -1
        self.wall_ms = ports.wall_ms
        self._recorder: FlightRecorder | None = None
        if config.kavka_flight_recorder_enable:
            from kavka.flight.recorder import FlightRecorder

            self._recorder = FlightRecorder(
                ports.filesystem,
                config,
                wall_ms=ports.wall_ms,
                clock_ms=lambda: self.replicas.now_ms(),
                record=lambda decision: self._decisions.record(decision),
            )
        self.throttles = Throttles(self.broker_id, config, now_ms=lambda: int(loop.time() * 1000))
        self.configs = DynamicConfigs(
            ports.zookeeper,
            config,
            self.broker_id,
            wall_ms=ports.wall_ms,
            on_topic_change=self._on_topic_config,
            on_broker_change=self._on_broker_config,
            on_topic_read=self.throttles.set_topic,
            spawn=self.spawn,
        )
        self.features = Features(ports.zookeeper, self.spawn)
        self.timestamp_lookups = TimestampLookups(
            ports.run_blocking, lambda log: self.logs.get(log.topic_partition) is log
        )
        self.telemetry = ClientTelemetry(
            lambda: [self.configs.client_metrics(name) for name in self.configs.named(CLIENT_METRICS_ENTITY)],
            lambda: self.configs.changes_of_client_metrics,
            max_bytes=lambda: self.config.telemetry_max_bytes,
            new_id=lambda: random_uuid(ports.random.randbytes(16)),
            on_push=ports.on_client_metrics,
        )
        self.metadata = MetadataCache("")
        self.replicas = ReplicaManager(
            loop,
            on_storage_error=self.on_storage_error,
            record=lambda decision: self._decisions.record(decision),
            rules=self._partition_rules(),
            wall_ms=ports.wall_ms,
            rack_of=self._rack_of if config.replica_selector_class == RACK_AWARE else None,
            throttle=self.throttles,
            is_elsewhere=lambda topic, index: self.metadata.partition(topic, index) is not None,
        )
        self.log_levels = current_levels()
        self.auto_creation = AutoCreation(refusal=self._why_not_creatable, create=self._create_named, spawn=self.spawn)
        self.fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots, ports.random)
        self.producer_ids = ProducerIds(ports.zookeeper, self.broker_id)
        group_limits = GroupLimits(
            config.group_min_session_timeout_ms,
            config.group_max_session_timeout_ms,
            config.group_initial_rebalance_delay_ms,
            config.group_max_size,
        )
        self.groups = GroupCoordinator(
            loop,
            CoordinatorLog(
                GROUP_METADATA_TOPIC,
                self.replicas,
                wall_ms=ports.wall_ms,
                load_bytes=config.offsets_load_buffer_size,
                commit_timeout_ms=config.offsets_commit_timeout_ms,
                on_storage_error=self.on_storage_error,
                compression=Compression(config.offsets_topic_compression_codec),
            ),
            Surroundings(
                KnownTopics(self.metadata),
                limits=lambda group_id: consumer_group_limits(self.config, self.configs.group(group_id)),
                classic_limits=group_limits,
                is_enabled=self.serves_consumer_groups,
                wall_ms=ports.wall_ms,
                random=ports.random,
                on_rebalance=lambda rebalance: self.record(rebalance.as_decision(self.wall_ms(), self.broker_id)),
            ),
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        )
        self._transaction_room = TransactionRoom(
            self.broker_id,
            self.metadata,
            self.replicas,
            self.producer_ids,
            TransactionPorts(
                config=lambda: self.config,
                wall_ms=ports.wall_ms,
                open_peer=self._open_peer,
                partition_count=self.configs.partition_count,
                transaction_version=self.features.transaction_version,
                on_group_transaction_ended=lambda partition, producer_id, epoch, committed: (
                    self.groups.on_transaction_ended(partition, producer_id, epoch, committed=committed)
                ),
                on_storage_error=self.on_storage_error,
                on_bug=self._on_bug,
            ),
        )
        self.controller_link = self._new_controller_link(config)
        # Answers of one connection leave in order: an ISR change would wait behind a topic's creation, and with it
        # every acks=all write of its partition.
        self._isr_link = self._new_controller_link(config)
        self._decision_topic = ReplicatedDecisionTopic(
            ports.network,
            self.metadata,
            self.replicas,
            broker_id=self.broker_id,
            listener_name=config.inter_broker_listener,
            config=lambda: self.config,
            create_topic=self._create_one,
            wall_ms=ports.wall_ms,
        )
        self._decisions = DecisionLog(
            self._decision_topic,
            ports.filesystem,
            config.log_directories[0],
            id_prefix=f"{self.broker_id}-{ports.wall_ms():x}",
            ring_bytes=config.kavka_decisions_ring_bytes,
            quiet=(DecisionKind.CONTROLLER_ELECTED, DecisionKind.BROKER_CAME) if ports.is_alone else (),
            on_decision=self._on_decision,
        )
        self.logs: LogManager
        self.moves: LogMoves
        self.state_changes: StateChanges
        self._controller: Controller | None = None
        self._maintenance: LogMaintenance

    def _new_controller_link(self, config: BrokerConfig) -> ControllerLink:
        return ControllerLink(
            self._ports.network,
            self.metadata,
            broker_id=self.broker_id,
            listener_name=config.inter_broker_listener,
            answer_locally=self._answer_locally,
        )

    @property
    def flushes(self) -> Flushes:
        """Makes logs durable before their records are acknowledged, where a topic's flush.messages wants that."""
        return self._maintenance.flushes

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids that this broker coordinates."""
        return self._transaction_room.coordinator

    @property
    def marker_log(self) -> MarkerLog:
        """Ends transactions in partitions that are led here."""
        return self._transaction_room.marker_log

    @property
    def verification(self) -> TransactionVerification:
        """Asks coordinators about transactions."""
        return self._transaction_room.verification

    @property
    def cleaner(self) -> LogCleaner | None:
        """Compacts logs; None where log.cleaner.enable is false."""
        return self._maintenance.cleaner

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings as they are in force, with what was set at run time."""
        return self.configs.broker

    # -- life

    async def start(self) -> LoadReport:
        """Starts in the order of the module's docstring. Returns what the logs went through.

        Raises ConfigError, StorageError (LogDirectoryLocked, InconsistentMetadata) or ZooKeeperError; `abort` then.
        """
        zookeeper = self._ports.zookeeper
        await make_persistent_paths(zookeeper)
        if self._ports.is_alone:
            await adopt(zookeeper, self._ports.filesystem, self._static_config, self.broker_id, self._ports.random)
        self.metadata.cluster_id = await cluster_id(zookeeper, self._ports.random)
        await self.configs.start()
        await self.configs.load_broker()
        topics = await zookeeper.children(TOPICS_PATH)
        await self.configs.load_topics(topics)
        claims = await Claims.read(zookeeper, self.broker_id, topics)
        former = await require_logs_here(
            zookeeper, self._ports.filesystem, self._static_config, broker_id=self.broker_id, claims=claims
        )
        report = self._open_logs(claims)
        lives = former_lives(self._ports.filesystem, self._static_config.log_directories)
        if self._static_config.kavka_eligible_leader_replicas_enable:
            kept = report.was_clean or (not report.offline and lost_nothing(lives, self._ports.place))
            self._is_unclean = not kept or has_untold_loss(lives, await self._unclean_stop_acted_on())
        if self._recorder is not None:
            self._recorder.start()
        self._predecessors = sessions_from(lives, self._ports.place)
        self.moves = LogMoves(
            self.logs,
            rate=lambda: self.throttles.move_rate,
            wall_ms=self._ports.wall_ms,
            run_blocking=self._ports.run_blocking,
            on_storage_error=self.on_storage_error,
            spawn=self.spawn,
        )
        self.state_changes = StateChanges(
            self.broker_id,
            metadata=self.metadata,
            replicas=self.replicas,
            logs=self.logs,
            groups=self.groups,
            transactions=self.transactions,
            topics=self.configs,
            new_fetchers=self._new_fetchers,
            inter_broker_listener=self._static_config.inter_broker_listener,
            broker_epoch=lambda: self.broker_epoch,
            wall_ms=self._ports.wall_ms,
            on_storage_error=self.on_storage_error,
            spawn=self.spawn,
            recorder=self._recorder,
        )
        self.state_changes.expects_topics = bool(topics)
        await self._register_first()
        if former != self._static_config.log_directories:
            await remember_directories(zookeeper, self.broker_id, self._static_config.log_directories)
        self._unsubscribe = zookeeper.subscribe(self._on_session_event)
        config = self._static_config
        self._controller = Controller(
            zookeeper,
            self.broker_id,
            settings=ControllerSettings(
                TopicRules(
                    config.num_partitions,
                    config.default_replication_factor,
                    lambda overrides: validate_overrides(overrides, self.config),
                ),
                unclean_allowed=lambda topic: self.configs.topic(topic).unclean_leader_election_enable,
                min_insync_replicas=(
                    (lambda topic: self.configs.topic(topic).min_insync_replicas)
                    if config.kavka_eligible_leader_replicas_enable
                    else None
                ),
                deletion_enabled=config.delete_topic_enable,
                fast_failover=config.kavka_controller_fast_failover,
                auto_rebalance=config.auto_leader_rebalance_enable,
                rebalance_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
                rebalance_limit_percent=lambda: self.config.leader_imbalance_per_broker_percentage,
                limits=ChannelLimits(socket_timeout_ms=config.controller_socket_timeout_ms),
            ),
            channels=ChannelPorts(
                self._open_peer, config.inter_broker_listener, self._deliver_locally, config.control_plane_listener
            ),
            record=self.record,
            input_recorder=self._recorder,
            now_ms=self._ports.wall_ms,
            rng=self._ports.random,
            on_controller_changed=self._on_controller_changed,
        )
        await self.controller.start()
        await self.features.start()
        self._maintenance = LogMaintenance(
            self.logs,
            self.config,
            cleaner=self._new_cleaner(),
            wall_ms=self._ports.wall_ms,
            on_storage_error=self.on_storage_error,
            on_bug=self._on_bug,
            run_blocking=self._ports.run_blocking,
        )
        self._maintenance.start()
        self.spawn(
            self.groups.keep_expiring(
                config.offsets_retention_check_interval_ms, config.offsets_retention_minutes * 60_000
            )
        )
        self._watch_isrs()
        self._transaction_room.start(self.spawn)
        self._decisions.start()
        await self.controller.carried_out_here()
        self._patient_until = asyncio.get_running_loop().time() + METADATA_PATIENCE_S
        return report

    def serves_consumer_groups(self) -> bool:
        """Whether groups of the newer protocol (KIP-848) are served."""
        return serves_consumer_groups(self.config, self.features.group_version())

    @property
    def is_informed(self) -> bool:
        """Whether this broker was told of the cluster, or had time enough to be."""
        return self.state_changes.informed.is_set() or asyncio.get_running_loop().time() >= self._patient_until

    async def await_first_metadata(self) -> None:
        """Returns when `is_informed`: a client that is told of no brokers and no topics may believe it."""
        await self.await_metadata(self._patient_until - asyncio.get_running_loop().time())

    async def await_metadata(self, timeout_s: float) -> bool:
        """Whether this broker was told who is alive within `timeout_s`; until then it can tell clients of nobody."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.state_changes.informed.wait()
        except TimeoutError:
            return False
        return True

    async def leave_cluster(self) -> None:
        """Has the controller move what this broker leads to others, while it still serves: controlled shutdown.

        Returns when nothing is left that could be moved, or after controlled.shutdown.max.retries more attempts. A
        broker that is the last one alive has nobody to move anything to.
        """
        config = self.config
        others = [broker for broker in self.metadata.brokers() if broker.broker_id != self.broker_id]
        if not config.controlled_shutdown_enable or self._ports.is_alone or not others:
            return
        for attempt in range(config.controlled_shutdown_max_retries + 1):
            if attempt:
                await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
            why = await self._ask_to_leave()
            if why is None:
                return
            logger.warning("controlled shutdown not complete", attempt=attempt + 1, why=why)
        logger.warning(
            "controlled shutdown given up", next_step="the controller elects other leaders when this broker is gone"
        )

    async def _ask_to_leave(self) -> str | None:
        """None when nothing that this broker leads could be moved any more; else why not."""
        from kavka.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
        from kavka.protocol.messages.controlled_shutdown_response import ControlledShutdownResponse

        try:
            answer = await self.controller_link.send(
                ApiKey.CONTROLLED_SHUTDOWN,
                CONTROLLED_SHUTDOWN_VERSION,
                ControlledShutdownRequest(broker_id=self.broker_id, broker_epoch=self.broker_epoch),
                ControlledShutdownResponse,
                timeout_ms=self.config.controller_socket_timeout_ms,
            )
        except ConnectionFailed as failure:
            return str(failure)
        if answer.error_code != ErrorCode.NONE:
            return ErrorCode(answer.error_code).name
        if answer.remaining_partitions:
            return f"{len(answer.remaining_partitions)} partitions have no other replica that could lead"
        return None

    def answer_waiting(self) -> None:
        """Answers all requests that wait, so that their connections can end: the broker is about to stop."""
        self.replicas.shut_down()
        self.groups.shut_down()
        self.transactions.shut_down()

    async def stop(self) -> None:
        """Stops in order; afterwards the log directories are marked clean."""
        self._unsubscribe()
        self.features.stop()
        self._transaction_room.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._fetchers is not None:
            await self._fetchers.stop()
        self.controller_link.close()
        self._isr_link.close()
        self._decision_topic.close()
        await self.configs.stop()
        await self._maintenance.stop()
        if not await _within(STOP_PATIENCE_S, self.controller.stop()):
            self.controller.abort()
        await self._decisions.stop()
        if self._recorder is not None:
            self._recorder.stop()
        self.logs.close(self._ports.wall_ms(), broker_epoch=self.broker_epoch)
        # Without ZooKeeper the session ends by itself; nothing on the disk depends on it.
        await _within(STOP_PATIENCE_S, self._ports.zookeeper.close())

    def abort(self) -> None:
        """Lets go of all that was taken, without writing anything: after a start that failed, or as a kill would."""
        self._unsubscribe()
        self.features.stop()
        self._transaction_room.close()
        for task in list(self._tasks):
            task.cancel()
        if self._fetchers is not None:
            self._fetchers.abort()
        self.controller_link.close()
        self._isr_link.close()
        self._decision_topic.close()
        self._decisions.abort()
        if self._recorder is not None:
            self._recorder.abort()
        self.configs.abort()
        if self._controller is not None:
            self._controller.abort()
        if hasattr(self, "_maintenance"):
            self._maintenance.abort()
        if hasattr(self, "logs"):
            self.logs.release()

    @property
    def session_id(self) -> int:
        """The present session with ZooKeeper."""
        return self._ports.zookeeper.session_id

    def _open_logs(self, claims: Claims) -> LoadReport:
        config = self._static_config
        self.logs = LogManager(
            self._ports.filesystem,
            config.log_directories,
            LogManagerSettings(
                broker_id=self.broker_id,
                cluster_id=self.metadata.cluster_id,
                producer_id_expiration_ms=self.config.producer_id_expiration_ms,
                recovery_threads=self.config.num_recovery_threads_per_data_dir,
                max_open_segments=self._ports.max_open_segments,
            ),
            lambda topic: log_config(self.configs.topic(topic)),
            draw=self._ports.random.randrange,
            is_claimed=claims.include,
            run_all=self._ports.run_all,
        )
        report = self.logs.load(self._ports.wall_ms())
        for log in self.logs:
            self.producer_ids.stay_above(max(log.producer_ids(), default=0))
        return report

    def _new_cleaner(self) -> LogCleaner | None:
        if not self._static_config.log_cleaner_enable:
            return None
        return LogCleaner(
            self.logs,
            self._ports.filesystem,
            lambda: self.config,
            wall_ms=self._ports.wall_ms,
            run_blocking=self._ports.run_blocking,
        )

    def _registration(self) -> BrokerRegistration:
        protocols = self._static_config.security_protocols
        return BrokerRegistration(
            self.broker_id,
            tuple(
                BrokerEndpoint(name, protocols[name], endpoint.host, endpoint.port)
                for name, endpoint in self._advertised.items()
            ),
            self._ports.wall_ms(),
            self._static_config.broker_rack,
            features=SUPPORTED,
            is_unclean=self._is_unclean,
        )

    def _partition_rules(self) -> PartitionRules:
        config = self._static_config
        return PartitionRules(
            lag_policy(
                config.kavka_replica_lag_policy,
                max_ms=config.replica_lag_time_max_ms,
                max_messages=config.kavka_replica_lag_max_messages,
            ),
            eligibility=self.metadata,
            holds_under_min_isr=config.kavka_eligible_leader_replicas_enable,
        )

    async def read_partition_states(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionState]:
        """The partitions' states as ZooKeeper has them now, of those that have one. Raises ZooKeeperError."""
        found = await self._ports.zookeeper.get_many([partition_state_path(partition) for partition in partitions])
        return {
            partition: PartitionState.decode(partition, node[0])
            for partition, node in zip(partitions, found, strict=True)
            if node is not None
        }

    def _rack_of(self, broker_id: BrokerId) -> str | None:
        """The rack of a live broker, as consumers are to choose among replicas."""
        return self.metadata.rack(broker_id)

    def _watch_isrs(self) -> None:
        """Has followers that lag taken out of the ISRs, and those that caught up taken in."""
        zookeeper = self._ports.zookeeper
        if stores_isr_through_controller(self._static_config.inter_broker_protocol_version):
            self.spawn(
                self.replicas.run_isr_changes(
                    AlterPartitionWriter(self._isr_link.send, self.broker_id, lambda: self.broker_epoch)
                )
            )
        else:
            writer = ZooKeeperIsrWriter(zookeeper)
            self.spawn(self.replicas.run_isr_changes(writer))
            self.spawn(writer.propagation.run())
        self.spawn(self.replicas.run_isr_expiration(self._static_config.replica_lag_time_max_ms))

    # -- the session with ZooKeeper

    async def _register_first(self) -> None:
        """Registers after the logs were loaded, which may take longer than a session lives that nobody keeps alive."""
        while True:
            try:
                await self._register()
            except SessionExpired:
                await self._ports.zookeeper.renew()
            else:
                return

    async def _register(self) -> None:
        zookeeper = self._ports.zookeeper
        if self._is_unclean and self._former_sessions:
            self._is_unclean = await self._unclean_stop_acted_on() != self.broker_epoch
        self.broker_epoch = await register(
            zookeeper,
            self._registration(),
            session_timeout_ms=self._static_config.zookeeper_session_timeout_ms,
            former_sessions=self._former_sessions,
            predecessors=self._predecessors,
        )
        self._former_sessions.append(zookeeper.session_id)
        self._remember_life(self.logs.live_directories)

    def _remember_life(self, directories: Iterable[str]) -> None:
        life = present_life(
            self._ports.zookeeper.session_id,
            self._ports.place,
            self.broker_epoch,
            is_unclean=self._is_unclean,
            has_failed_directory=bool(self.logs.offline_directories),
        )
        remember_life(self._ports.filesystem, directories, life)

    async def _unclean_stop_acted_on(self) -> int:
        """For which of this broker's epochs a controller acted on its unclean stop last; NEVER_ACTED_ON for none."""
        found = (await self._ports.zookeeper.get_many([UncleanShutdowns.PATH]))[0]
        try:
            acted_on = {} if found is None else UncleanShutdowns.decode(found[0]).acted_on
        except MalformedZNode:
            return NEVER_ACTED_ON
        return acted_on.get(self.broker_id, NEVER_ACTED_ON)

    def _on_session_event(self, event: Event) -> None:
        if event == SessionEvent(SessionState.EXPIRED):
            self.record(
                Decision(
                    DecisionKind.SESSION_EXPIRED,
                    self.wall_ms(),
                    self.broker_id,
                    "ZooKeeper did not hear of this broker in zookeeper.session.timeout.ms; it registers anew",
                    about_broker=self.broker_id,
                    before={"broker_epoch": self.broker_epoch},
                    evidence={"zookeeper.session.timeout.ms": self._static_config.zookeeper_session_timeout_ms},
                )
            )
            self.spawn(self._rejoin())

    async def _rejoin(self) -> None:
        """Begins another session and registers anew: what was meant for the former registration is refused then."""
        while True:
            try:
                await self._ports.zookeeper.renew()
                # At once, with no await between: this broker must be registered before it may be elected.
                await self._register()
            except ConfigError as taken:
                self._ports.halt(str(taken))
            except SessionExpired:
                return  # That session is over too, and has its own event.
            except ZooKeeperError as failure:
                logger.warning("not registered yet", why=str(failure))
                await asyncio.sleep(REJOIN_RETRY_S)
                continue
            logger.info("registered again", broker_epoch=self.broker_epoch)
            return

    # -- the controller's orders

    async def _deliver_locally(self, key: ApiKey, message: Any) -> Any:
        """What this broker answers to its own controller.

        In a task of its own: a reign that ends meanwhile leaves no message half carried out, and a bug ends the broker.
        """
        task = asyncio.get_running_loop().create_task(self._answer_locally(key, SERVED[key].max_version, message))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return await asyncio.shield(task)

    async def _answer_locally(self, key: ApiKey, version: int, message: Any) -> Any:
        """What the handler of the API answers to a request that does not come over the network."""
        from kavka.broker.api.loader import local_answer

        return await local_answer(key)(self, message, version)

    @property
    def record(self) -> RecordDecision:
        """Takes note of decisions."""
        return self._decisions.record

    def _on_decision(self, decision: Decision) -> None:
        if self._recorder is not None:
            self._recorder.on_decision(decision)
        self._ports.on_decision(decision)

    @property
    def controller(self) -> Controller:
        """This broker's part in controlling the cluster; there since `start`."""
        assert self._controller is not None
        return self._controller

    @property
    def topics(self) -> TopicAdmin:
        """What clients may ask of the controller. Raises NotController while this broker is not it."""
        return self.controller.topics

    async def _open_peer(self, host: str, port: int, connect_timeout_ms: int) -> PeerConnection:
        """A connection to another broker."""
        from kavka.protocol.peer import PeerConnection

        return await PeerConnection.open(
            self._ports.network, host, port, client_id=str(self.broker_id), connect_timeout_ms=connect_timeout_ms
        )

    def following(self, topic_partition: TopicPartition) -> FetchState | None:
        """How a partition that is followed here stands with its leader; None if it is not followed."""
        return None if self._fetchers is None else self._fetchers.state(topic_partition)

    def _new_fetchers(self) -> FetcherManager:
        """What fetches the partitions that this broker follows; a broker alone never needs it."""
        from kavka.replication.fetcher_manager import FetcherManager, FetcherPorts, LocalPorts, fetcher_settings

        local = LocalPorts(
            logs=self.logs,
            broker_id=self.broker_id,
            broker_epoch=lambda: self.broker_epoch,
            wall_ms=self._ports.wall_ms,
            throttle=self.throttles.follower,
            on_high_watermark_advanced=self.replicas.on_follower_advanced,
            on_storage_error=self.on_storage_error,
            record=self.record,
        )
        ports = FetcherPorts(asyncio.get_running_loop(), self._ports.network, local, on_bug=self._on_bug)
        self._fetchers = FetcherManager(ports, fetcher_settings(self.config))
        return self._fetchers

    def _on_topic_config(self, name: str) -> None:
        self.state_changes.apply_topic_config(name)
        self._tell_controller_of_topics([name])

    def _on_broker_config(self, config: BrokerConfig) -> None:
        self.state_changes.apply_broker_config()
        self._tell_controller_of_topics(None)
        self.throttles.set_rates(config)
        if hasattr(self, "logs"):
            self.logs.producer_id_expiration_ms = config.producer_id_expiration_ms
            self.logs.recovery_threads = config.num_recovery_threads_per_data_dir
        if hasattr(self, "_maintenance"):
            self._maintenance.reconfigure(config)
        if self._fetchers is not None:
            from kavka.replication.fetcher_manager import fetcher_settings

            self._fetchers.configure(fetcher_settings(config))
        self._ports.on_config(config)

    def _tell_controller_of_topics(self, names: Sequence[str] | None) -> None:
        """A setting may change while this broker starts: a controller that is not made yet knows it when its reign
        begins."""
        if self._controller is not None:
            self._controller.topic_config_changed(names)

    def _on_controller_changed(self, controller_id: BrokerId) -> None:
        self.metadata.controller_id = controller_id
        self.controller_link.on_controller_changed()
        self._isr_link.on_controller_changed()

    # -- topics that nobody asked for by CreateTopics

    def is_internal(self, topic: str) -> bool:
        return topic in INTERNAL_TOPICS

    def invalid_topic_name(self, name: str) -> ErrorCode | None:
        """INVALID_TOPIC_EXCEPTION where no topic can have this name."""
        return ErrorCode.INVALID_TOPIC_EXCEPTION if topic_name_error(name) is not None else None

    def _why_not_creatable(self, name: str) -> ErrorCode | None:
        """What is known beforehand to be in the way of creating a topic that a client named."""
        if self.invalid_topic_name(name) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if colliding_topics(name, (topic.name for topic in self.metadata.topics())):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        wish = self._topic_wish(name)
        replicas = self.config.default_replication_factor if wish.replication_factor < 0 else wish.replication_factor
        return ErrorCode.INVALID_REPLICATION_FACTOR if replicas > len(self.metadata.brokers()) else None

    async def _create_named(self, names: Sequence[str]) -> Mapping[str, ErrorCode]:
        return await self._create([self._topic_wish(name) for name in names])

    def _topic_wish(self, name: str) -> TopicRequest:
        return self._internal_topic(name) if self.is_internal(name) else TopicRequest(name)

    async def ensure_internal_topic(self, name: str) -> None:
        """Creates a coordinator's topic if it is missing. Raises `RequestError` (COORDINATOR_NOT_AVAILABLE)."""
        if self.metadata.topic(name) is not None:
            return
        async with self._creating_internal_topic:
            if self.metadata.topic(name) is not None:
                return
            errors = await self._create([self._internal_topic(name)])
            error = errors.get(name, ErrorCode.NONE)
            if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                logger.warning("internal topic not created", topic=name, why=error.name)
                raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.name)

    def offsets_partition(self, group_id: str) -> PartitionMetadata:
        """The partition that keeps a group. Raises `RequestError` where it is not there."""
        partition = self.metadata.partition(GROUP_METADATA_TOPIC, self.groups.partition_for(group_id))
        if partition is None:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition

    def transactions_partition(self, transactional_id: str) -> PartitionMetadata:
        """The partition that keeps a transactional id. Raises `RequestError` where it is not there."""
        partition = self.metadata.partition(TRANSACTION_STATE_TOPIC, self.transactions.partition_for(transactional_id))
        if partition is None:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition

    def _internal_topic(self, name: str) -> TopicRequest:
        """Of one broker alone nobody can expect more replicas; in a cluster, as in Kafka, the others are waited for."""
        config, alone = self._static_config, self._ports.is_alone
        if name == TRANSACTION_STATE_TOPIC:
            return TopicRequest(
                name,
                config.transaction_state_log_num_partitions,
                1 if alone else config.transaction_state_log_replication_factor,
                config=transaction_topic_settings(config),
            )
        return TopicRequest(
            name,
            config.offsets_topic_num_partitions,
            1 if alone else config.offsets_topic_replication_factor,
            config=offsets_topic_settings(config),
        )

    async def _create_one(self, wish: TopicRequest) -> ErrorCode:
        """NONE where the topic is there now."""
        return (await self._create([wish])).get(wish.name, ErrorCode.NONE)

    async def _create(self, wishes: Sequence[TopicRequest]) -> dict[str, ErrorCode]:
        """Creates topics here or, where another broker is the controller, there; errors but for what is there now."""
        try:
            if self.controller.is_active:
                outcomes = await self.topics.create_topics(wishes)
                errors = {outcome.name: outcome.code for outcome in outcomes}
            else:
                errors = await self._create_at_controller(wishes)
        except (NotController, ConnectionFailed, ZooKeeperError) as failure:
            logger.warning("topics not created", topics=[wish.name for wish in wishes], why=str(failure))
            return {wish.name: ErrorCode.LEADER_NOT_AVAILABLE for wish in wishes}
        # Somebody else created it meanwhile: it is there.
        there = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return {name: error for name, error in errors.items() if error not in there}

    async def _create_at_controller(self, wishes: Sequence[TopicRequest]) -> dict[str, ErrorCode]:
        from kavka.protocol.messages.create_topics_request import (
            CreatableTopic,
            CreatableTopicConfig,
            CreateTopicsRequest,
        )
        from kavka.protocol.messages.create_topics_response import CreateTopicsResponse

        timeout_ms = self.config.request_timeout_ms
        answer = await self.controller_link.send(
            ApiKey.CREATE_TOPICS,
            CREATE_TOPICS_VERSION,
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=wish.name,
                        num_partitions=wish.partition_count,
                        replication_factor=wish.replication_factor,
                        assignments=[],
                        configs=[CreatableTopicConfig(name=name, value=value) for name, value in wish.config.items()],
                    )
                    for wish in wishes
                ],
                timeout_ms=timeout_ms,
            ),
            CreateTopicsResponse,
            timeout_ms=timeout_ms,
        )
        errors = {topic.name: ErrorCode(topic.error_code) for topic in answer.topics}
        for name, error in errors.items():
            if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                # The controller has told the brokers, and may have waited for a slow one no longer.
                await self.state_changes.await_topic(name, TOPIC_ARRIVAL_S)
        return errors

    # -- failures and tasks

    def on_storage_error(self, failure: StorageError) -> None:
        """Takes the directory of a failed file offline, with all partitions in it; the last one halts the broker.

        The controller hears of it, and has others lead what was led from there.
        """
        failed_before = len(self.logs.offline_directories)
        self.logs.on_storage_error(failure.path, failure)
        if self._former_sessions and len(self.logs.offline_directories) > failed_before:
            self._remember_life(self._static_config.log_directories)
        gone = [partition.topic_partition for partition in self.replicas.partitions() if partition.log.failure]
        self.state_changes.take_offline(gone)
        if self.logs.is_released:
            return  # It was closed under who used it, at a stop.
        if not self.logs.live_directories:
            self._ports.halt(f"no log directory is left: {failure}")
            return
        for directory, why in self.logs.offline_directories.items():
            if directory not in self._announced_directories:
                self._announced_directories[directory] = None
                self._record_offline_directory(directory, why)
                self.spawn(self._announce_offline_directory())

    def _record_offline_directory(self, directory: str, why: StorageError) -> None:
        self.record(
            Decision(
                DecisionKind.LOG_DIRECTORY_OFFLINE,
                self.wall_ms(),
                self.broker_id,
                f"log directory {directory} failed, and is used no more until this broker is restarted: {why}",
                about_broker=self.broker_id,
                evidence={"directory": directory, "left": tuple(self.logs.live_directories)},
            )
        )

    async def _announce_offline_directory(self) -> None:
        """Has the controller ask which replicas are gone. To announce it twice does no harm, so every failure is tried
        again."""
        event = LogDirEvent(self.broker_id, LOG_DIR_FAILURE).encode()
        while True:
            try:
                await self._ports.zookeeper.create(LOG_DIR_EVENT_PREFIX, event, mode=CreateMode.PERSISTENT_SEQUENTIAL)
            except ZooKeeperError as failure:
                logger.warning("failed log directory not announced yet", why=str(failure))
                await asyncio.sleep(REJOIN_RETRY_S)
            else:
                return

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Runs `work` beside; it ends with the broker."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._on_bug(bug)

    def _on_bug(self, bug: BaseException) -> None:
        logger.error("task failed", exc_info=bug)
        self._ports.halt(f"a task of the broker failed: {bug!r}")


async def _within(timeout_s: float, work: Awaitable[None]) -> bool:
    """Whether `work` came to its end in time; if not, it is given up."""
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except TimeoutError:
        return False
    return True
