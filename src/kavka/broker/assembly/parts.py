"""The parts of a broker: each is made here, from the parts that it needs, and added to the broker's ends.

Decides nothing. `new_base` makes what is needed before anything is read; `join` makes all the rest, once the logs are
open. Nothing here waits and nothing starts. Late parts (`broker/late.py`) are made with their first use. Where a part
must be made before one that it reports to, a `Relay` joins them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.broker.assembly.broker import Broker, Farewell, Inner
from kavka.broker.assembly.ends import Ends, Stage
from kavka.broker.assembly.following import Following
from kavka.broker.assembly.late_parts import (
    late_connected_clients,
    late_group_parts,
    late_groups,
    late_lookups,
    late_moves,
    late_quota_store,
    late_quotas,
    late_request_traces,
    late_telemetry,
    late_transactions,
    quota_listener,
)
from kavka.broker.assembly.late_share import LateShare, LateStates
from kavka.broker.assembly.local_requests import LocalRequests
from kavka.broker.assembly.ports import Ports
from kavka.broker.assembly.relay import Relay
from kavka.broker.assembly.tasks import Tasks
from kavka.broker.decisions.decision_log import DecisionLog, Ring
from kavka.broker.decisions.decision_topic import ReplicatedDecisionTopic
from kavka.broker.late import Late
from kavka.broker.membership.registrar import Registrar
from kavka.broker.metadata.controller_link import ControllerLink, PeerConnector
from kavka.broker.metadata.features import Features
from kavka.broker.metadata.first_metadata import FirstMetadata
from kavka.broker.metadata.metadata_cache import MetadataCache
from kavka.broker.metadata.state_changes import Hosted, StateChangePorts, StateChanges
from kavka.broker.quotas.replication_throttles import Throttles
from kavka.broker.reads.fetch_session import FetchSessionCache
from kavka.broker.settings.dynamic_configs import ConfigListeners, DynamicConfigs
from kavka.broker.topics.auto_creation import AutoCreation
from kavka.broker.topics.topic_creation import TopicCreation, TopicRequests
from kavka.broker.transactions.producer_ids import ProducerIds
from kavka.broker.upkeep.directory_failures import DirectoryFailurePorts, DirectoryFailures
from kavka.broker.upkeep.log_cleaner import LogCleaner
from kavka.broker.upkeep.log_maintenance import LogMaintenance, MaintenancePorts
from kavka.config.broker import BrokerConfig
from kavka.config.effect import RACK_AWARE
from kavka.config.listeners import SASL_PROTOCOLS
from kavka.config.topic import validate_overrides
from kavka.controller.controller import Controller, ControllerPorts, ControllerSettings
from kavka.controller.decide.topic_plans import TopicRules
from kavka.controller.orders.channels import ChannelLimits, ChannelPorts
from kavka.decisions import Decision, DecisionKind
from kavka.errors import StorageError
from kavka.log.home_loader import LoadReport
from kavka.log.log_manager import LogManager
from kavka.logger import current_levels
from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.lag_policy import lag_policy
from kavka.replication.decide.partition_rules import PartitionRules
from kavka.replication.replica_manager import ReplicaManager, ReplicaPorts

if TYPE_CHECKING:
    from kavka.broker.assembly.authentication import Authentication
    from kavka.broker.assembly.transaction_coordinator import TransactionRoom
    from kavka.broker.authentication.delegation_tokens import Tokens
    from kavka.broker.authorization.authorization import Authorization
    from kavka.broker.quotas.client_quotas import ClientQuotas
    from kavka.coordinator.groups.coordinator import GroupCoordinator
    from kavka.flight.recorder import FlightRecorder
    from kavka.network import Network
    from kavka.protocol.peer import PeerConnection
    from kavka.replication.fetcher_manager import FetcherManager

STOP_PATIENCE_S: Final = 3.0
"""How long a broker that stops waits for ZooKeeper to end its term as the controller, and the session."""


@dataclass(frozen=True)
class Base:
    """What is there before anything is read. `config` is what the broker was started with, `configs` what is in force.

    Each of the last four is called by parts that are made early, and calls those that are made later.
    """

    config: BrokerConfig
    broker_id: BrokerId
    began_ms: int
    ports: Ports
    ends: Ends
    tasks: Tasks
    throttles: Throttles
    quotas: Late[ClientQuotas]
    configs: DynamicConfigs
    on_topic_config: Relay[str]
    on_broker_config: Relay[BrokerConfig]
    on_storage_error: Relay[StorageError]
    record: Relay[Decision]

    @cached_property
    def network(self) -> Network:
        """Opens connections to other brokers; they log in where the brokers' listener asks for it."""
        return self._logged_in(self.ports.network, self.config.inter_broker_listener)

    @cached_property
    def commanding_network(self) -> Network:
        """Opens this controller's connections to brokers, which have a listener of their own for it, or not."""
        listener = self.config.control_plane_listener
        if listener is None:
            return self.network
        return self._logged_in(self.ports.control_network or self.ports.network, listener)

    def _logged_in(self, network: Network, listener: str) -> Network:
        if self.config.security_protocols.get(listener) not in SASL_PROTOCOLS:
            return network
        from kavka.broker.assembly.authentication import logging_in

        return logging_in(network, self.config, listener, self.ports)

    async def open_peer(self, host: str, port: int, connect_timeout_ms: int) -> PeerConnection:
        """A connection to another broker."""
        return await self._open(self.network, host, port, connect_timeout_ms)

    async def open_commanded(self, host: str, port: int, connect_timeout_ms: int) -> PeerConnection:
        """A connection of this controller to a broker."""
        return await self._open(self.commanding_network, host, port, connect_timeout_ms)

    async def _open(self, network: Network, host: str, port: int, connect_timeout_ms: int) -> PeerConnection:
        from kavka.protocol.peer import PeerConnection

        return await PeerConnection.open(
            network, host, port, client_id=str(self.broker_id), connect_timeout_ms=connect_timeout_ms
        )


class Opened(NamedTuple):
    """The logs, and what was found on the way to them. `has_topics`: the cluster has topics."""

    cluster_id: str
    has_topics: bool
    logs: LogManager
    report: LoadReport
    registrar: Registrar


class Serving(NamedTuple):
    """What clients are served with."""

    metadata: MetadataCache
    features: Features
    replicas: ReplicaManager
    recorder: FlightRecorder | None
    producer_ids: ProducerIds
    groups: Late[GroupCoordinator]
    transaction_room: Late[TransactionRoom]
    share: LateShare


class Control(NamedTuple):
    """What joins this broker with the controller, which may be this broker."""

    local: LocalRequests
    controller_link: ControllerLink
    isr_link: ControllerLink
    following: Following
    state_changes: StateChanges
    controller: Controller
    controller_changes: Relay[BrokerId]


class Security(NamedTuple):
    """Who asks, and what they may do: most brokers have none of it."""

    authorization: Authorization | None = None
    authentication: Authentication | None = None
    tokens: Tokens | None = None


class Running(NamedTuple):
    """A broker, and the parts that only its start uses."""

    broker: Broker
    recorder: FlightRecorder | None
    maintenance: LogMaintenance
    isr_link: ControllerLink
    decisions: DecisionLog


def new_base(config: BrokerConfig, ports: Ports, ends: Ends) -> Base:
    loop = asyncio.get_running_loop()
    broker_id = BrokerId(config.broker_id)
    tasks = Tasks(ports.halt)
    throttles = Throttles(broker_id, config, now_ms=lambda: int(loop.time() * 1000))
    on_topic_config = Relay[str]()
    on_broker_config = Relay[BrokerConfig]()
    record = Relay[Decision]()
    quotas = late_quotas(config, ports, record)
    configs = DynamicConfigs(
        ports.zookeeper,
        config,
        broker_id,
        ConfigListeners(on_topic_config, on_broker_config, throttles.set_topic, quota_listener(quotas, ports)),
        wall_ms=ports.wall_ms,
        spawn=tasks.spawn,
    )
    # Without ZooKeeper the session ends by itself; nothing on the disk depends on it. An abort leaves it to the host.
    ends.add(Stage.STORES, stop=lambda: _patiently(ports.zookeeper.close()), abort=lambda: None)
    ends.add(Stage.CONNECTIONS, stop=configs.stop, abort=configs.abort)
    ends.add(Stage.TASKS, stop=tasks.stop, abort=tasks.abort)
    return Base(
        config,
        broker_id,
        ports.wall_ms(),
        ports,
        ends,
        tasks,
        throttles,
        quotas,
        configs,
        on_topic_config,
        on_broker_config,
        Relay(),
        record,
    )


def join(base: Base, opened: Opened) -> Running:
    """Makes all other parts, from those below to those above, and joins them."""
    config, ports, configs, logs = base.config, base.ports, base.configs, opened.logs
    serving = _new_serving(base, opened)
    control = _new_control(base, opened, serving)
    creation = serving.share.topic.creation = _new_topic_creation(base, serving, control)
    decision_topic, decisions = _new_decision_log(base, serving, creation)
    maintenance = _new_maintenance(base, logs, serving.replicas, control.following)
    _join_reports(base, opened, serving, control, maintenance)
    _add_ends(base, serving, control, maintenance, decision_topic, decisions)
    lookups, security = late_lookups(base, logs), _new_security(base, control, serving.replicas)
    fetch_sessions = FetchSessionCache(config.max_incremental_fetch_session_cache_slots, ports.random)
    broker = Broker(
        broker_id=base.broker_id,
        wall_ms=ports.wall_ms,
        report=opened.report,
        log_levels=current_levels(),
        configs=configs,
        features=serving.features,
        metadata=serving.metadata,
        first_metadata=FirstMetadata(control.state_changes.informed),
        state_changes=control.state_changes,
        controller=control.controller,
        replicas=serving.replicas,
        logs=logs,
        flushes=maintenance.flushes,
        cleaner=maintenance.cleaner,
        fetch_sessions=fetch_sessions,
        timestamp_lookups=lookups,
        producer_ids=serving.producer_ids,
        auto_creation=AutoCreation(refusal=creation.refusal, create=creation.create_named, spawn=base.tasks.spawn),
        telemetry=late_telemetry(base),
        quotas=base.quotas,
        authorization=security.authorization,
        authentication=security.authentication,
        tokens=security.tokens,
        record=base.record,
        inner=Inner(
            ports.zookeeper,
            ports.is_alone,
            opened.registrar,
            control.controller_link,
            control.following,
            base.on_storage_error,
            base.tasks,
            creation,
            base.ends,
            serving.groups,
            serving.transaction_room,
            *serving.share.parts(lookups),
            late_group_parts(base, serving, creation),
            late_moves(base, logs),
            late_quota_store(base),
            late_request_traces(base, serving.metadata),
            late_connected_clients(fetch_sessions, serving.metadata, serving.replicas),
            Farewell(maintenance.write_ahead, decisions.hand_over),
        ),
    )
    control.local.open(broker)
    return Running(broker, serving.recorder, maintenance, control.isr_link, decisions)


def _new_topic_creation(base: Base, serving: Serving, control: Control) -> TopicCreation:
    return TopicCreation(
        TopicRequests(base.config, is_alone=base.ports.is_alone),
        base.configs,
        serving.metadata,
        control.controller,
        control.controller_link,
        control.state_changes.await_topic,
        record=base.record,
        wall_ms=base.ports.wall_ms,
    )


def _join_reports(base: Base, opened: Opened, serving: Serving, control: Control, maintenance: LogMaintenance) -> None:
    """Passes failures of directories and changes of settings to the parts that must hear of them."""
    base.on_storage_error.add(_new_directory_failures(base, opened, serving, control).on_storage_error)
    _join_settings(base, opened.logs, control, maintenance)


def _join_settings(base: Base, logs: LogManager, control: Control, maintenance: LogMaintenance) -> None:
    """Passes a change of settings to the parts that follow them."""

    def obeyed_by_logs(config: BrokerConfig) -> None:
        logs.producer_id_expiration_ms = config.producer_id_expiration_ms
        logs.recovery_threads = config.num_recovery_threads_per_data_dir
        logs.cordoned = frozenset(config.cordoned_log_directories)

    base.on_topic_config.add(
        control.state_changes.apply_topic_config,
        lambda name: control.controller.topic_config_changed([name]),
    )
    base.on_broker_config.add(
        lambda config: control.state_changes.apply_broker_config(),
        lambda config: control.controller.topic_config_changed(None),
        base.throttles.set_rates,
        obeyed_by_logs,
        maintenance.reconfigure,
        control.following.configure,
        base.ports.on_config,
    )
    # What was set at run time before this start, or while it went on, is in force from now on.
    for obey in (base.throttles.set_rates, obeyed_by_logs, maintenance.reconfigure, base.ports.on_config):
        obey(base.configs.broker)


def _add_ends(
    base: Base,
    serving: Serving,
    control: Control,
    maintenance: LogMaintenance,
    decision_topic: ReplicatedDecisionTopic,
    decisions: DecisionLog,
) -> None:
    """Within a stage, what is added last ends first."""

    async def stop_controller() -> None:
        if not await _patiently(control.controller.stop()):
            control.controller.abort()

    def close_transactions() -> None:
        room = serving.transaction_room.made
        if room is not None:
            room.close()

    ends, recorder = base.ends, serving.recorder
    if recorder is not None:
        ends.add_instant(Stage.STORES, stop=recorder.stop, abort=recorder.abort)
    ends.add(Stage.STORES, stop=decisions.stop, abort=decisions.abort)
    ends.add(Stage.WORKERS, stop=stop_controller, abort=control.controller.abort)
    ends.add(Stage.WORKERS, stop=maintenance.stop, abort=maintenance.abort)
    for link in (decision_topic, control.isr_link, control.controller_link):
        ends.add_instant(Stage.CONNECTIONS, stop=link.close)
    ends.add(Stage.CONNECTIONS, stop=control.following.stop, abort=control.following.abort)
    ends.add_instant(Stage.INPUTS, stop=close_transactions)
    ends.add_instant(Stage.INPUTS, stop=serving.features.stop)


# -- what clients are served with


def _new_serving(base: Base, opened: Opened) -> Serving:
    metadata = MetadataCache(opened.cluster_id)
    features = Features(base.ports.zookeeper, base.tasks.spawn)
    replicas = _new_replicas(base, metadata)
    producer_ids = ProducerIds(base.ports.zookeeper, base.broker_id)
    for log in opened.logs:
        producer_ids.stay_above(max((entry.producer_id for entry in log.producers.entries()), default=0))
    share = LateShare(
        base, asyncio.get_running_loop(), metadata, replicas, features, lambda: opened.registrar.broker_epoch
    )
    groups = share.groups = late_groups(base, metadata, replicas, features, LateStates(share.persister))
    transaction_room = late_transactions(base, metadata, replicas, features, producer_ids, groups)
    recorder = _new_recorder(base, replicas)
    return Serving(metadata, features, replicas, recorder, producer_ids, groups, transaction_room, share)


def _new_security(base: Base, control: Control, replicas: ReplicaManager) -> Security:
    config = base.config
    asks_by_sasl = any(endpoint.security_protocol in SASL_PROTOCOLS for endpoint in config.listener_endpoints)
    if not (asks_by_sasl or config.authorizer_class_name or config.delegation_token_secret):
        return Security()
    from kavka.broker.assembly.security_parts import new_security  # late: most brokers have none

    return new_security(base, control, replicas, asks_by_sasl=asks_by_sasl)


def _new_replicas(base: Base, metadata: MetadataCache) -> ReplicaManager:
    config = base.config
    return ReplicaManager(
        asyncio.get_running_loop(),
        ReplicaPorts(
            on_storage_error=base.on_storage_error,
            record=base.record,
            wall_ms=base.ports.wall_ms,
            rack_of=metadata.rack if config.replica_selector_class == RACK_AWARE else None,
            throttle=base.throttles,
            is_elsewhere=lambda topic, index: metadata.is_empty or metadata.partition(topic, index) is not None,
        ),
        PartitionRules(
            lag_policy(
                config.kavka_replica_lag_policy,
                max_ms=config.replica_lag_time_max_ms,
                max_messages=config.kavka_replica_lag_max_messages,
            ),
            eligibility=metadata,
            holds_under_min_isr=config.kavka_eligible_leader_replicas_enable,
        ),
    )


def _new_recorder(base: Base, replicas: ReplicaManager) -> FlightRecorder | None:
    if not base.config.kavka_flight_recorder_enable:
        return None
    from kavka.flight.recorder import FlightRecorder

    return FlightRecorder(
        base.ports.filesystem,
        base.config,
        wall_ms=base.ports.wall_ms,
        clock_ms=replicas.now_ms,
        record=base.record,
    )


# -- what joins the broker with the controller


def _new_control(base: Base, opened: Opened, serving: Serving) -> Control:
    config, ports, metadata = base.config, base.ports, serving.metadata
    local = LocalRequests(base.tasks)
    controller_link = _new_controller_link(base, metadata, local)
    # Answers of one connection leave in order: an ISR change would wait behind a topic's creation, and with it every
    # acks=all write of its partition.
    isr_link = _new_controller_link(base, metadata, local)
    following = Following(lambda: _new_fetchers(base, opened, serving.replicas))
    state_changes = StateChanges(
        base.broker_id,
        config.inter_broker_listener,
        Hosted(
            metadata,
            serving.replicas,
            opened.logs,
            serving.groups,
            Late(lambda: serving.transaction_room().coordinator),
            serving.share.states,
        ),
        StateChangePorts(
            topics=base.configs,
            new_fetchers=following.begin,
            broker_epoch=lambda: opened.registrar.broker_epoch,
            wall_ms=ports.wall_ms,
            on_storage_error=base.on_storage_error,
            spawn=base.tasks.spawn,
            on_topics_deleted=serving.share.on_topics_deleted,
        ),
        recorder=serving.recorder,
        expects_topics=opened.has_topics,
    )

    controller_changes = Relay[BrokerId]()

    def on_controller_changed(controller_id: BrokerId) -> None:
        metadata.controller_id = controller_id
        controller_link.on_controller_changed()
        isr_link.on_controller_changed()

    controller_changes.add(on_controller_changed)
    controller = Controller(
        ports.zookeeper,
        base.broker_id,
        _controller_settings(base),
        ControllerPorts(
            ChannelPorts(
                base.open_commanded, config.inter_broker_listener, local.deliver, config.control_plane_listener
            ),
            now_ms=ports.wall_ms,
            rng=ports.random,
            record=base.record,
            input_recorder=serving.recorder,
            on_controller_changed=controller_changes,
        ),
    )
    return Control(local, controller_link, isr_link, following, state_changes, controller, controller_changes)


def _new_controller_link(base: Base, metadata: MetadataCache, local: LocalRequests) -> ControllerLink:
    return ControllerLink(_new_peer_connector(base, metadata), metadata, local.answer)


def _new_peer_connector(base: Base, metadata: MetadataCache) -> PeerConnector:
    return PeerConnector(base.network, metadata, base.broker_id, base.config.inter_broker_listener)


def _controller_settings(base: Base) -> ControllerSettings:
    config, configs = base.config, base.configs
    return ControllerSettings(
        TopicRules(
            config.num_partitions,
            config.default_replication_factor,
            lambda overrides: validate_overrides(overrides, configs.broker),
        ),
        unclean_allowed=lambda topic: configs.topic(topic).unclean_leader_election_enable,
        min_insync_replicas=(
            (lambda topic: configs.topic(topic).min_insync_replicas)
            if config.kavka_eligible_leader_replicas_enable
            else None
        ),
        deletion_enabled=config.delete_topic_enable,
        fast_failover=config.kavka_controller_fast_failover,
        auto_rebalance=config.auto_leader_rebalance_enable,
        rebalance_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
        rebalance_limit_percent=lambda: config.leader_imbalance_per_broker_percentage,
        limits=ChannelLimits(socket_timeout_ms=config.controller_socket_timeout_ms),
    )


def _new_fetchers(base: Base, opened: Opened, replicas: ReplicaManager) -> FetcherManager:
    """What fetches the partitions that this broker follows."""
    from kavka.replication.fetcher_manager import FetcherManager, FetcherPorts, LocalPorts, fetcher_settings

    local = LocalPorts(
        logs=opened.logs,
        broker_id=base.broker_id,
        broker_epoch=lambda: opened.registrar.broker_epoch,
        wall_ms=base.ports.wall_ms,
        throttle=base.throttles.follower,
        on_high_watermark_advanced=replicas.on_follower_advanced,
        on_storage_error=base.on_storage_error,
        record=base.record,
    )
    ports = FetcherPorts(asyncio.get_running_loop(), base.network, local, on_bug=base.tasks.on_bug)
    return FetcherManager(ports, fetcher_settings(base.configs.broker))


# -- upkeep, and what is written down of decisions


def _new_directory_failures(base: Base, opened: Opened, serving: Serving, control: Control) -> DirectoryFailures:
    ports = base.ports
    return DirectoryFailures(
        base.broker_id,
        opened.logs,
        serving.replicas,
        DirectoryFailurePorts(
            ports.zookeeper,
            ports.wall_ms,
            take_offline=control.state_changes.take_offline,
            on_directory_failed=opened.registrar.on_directory_failed,
            halt=ports.halt,
            spawn=base.tasks.spawn,
            record=base.record,
        ),
    )


def _new_maintenance(base: Base, logs: LogManager, replicas: ReplicaManager, following: Following) -> LogMaintenance:
    ports, configs, moved = base.ports, base.configs, Relay[TopicPartition]()
    moved.add(replicas.on_log_start_moved, following.on_log_start_moved)
    cleaner = None
    if base.config.log_cleaner_enable:
        cleaner = LogCleaner(
            logs, ports.filesystem, lambda: configs.broker, wall_ms=ports.wall_ms, run_blocking=ports.run_blocking
        )
    return LogMaintenance(
        logs,
        configs.broker,
        MaintenancePorts(ports.wall_ms, base.on_storage_error, base.tasks.on_bug, ports.run_blocking, moved),
        cleaner=cleaner,
    )


def _new_decision_topic(base: Base, serving: Serving, creation: TopicCreation) -> ReplicatedDecisionTopic:
    return ReplicatedDecisionTopic(
        _new_peer_connector(base, serving.metadata),
        serving.metadata,
        serving.replicas,
        settings=base.configs,
        create_topic=creation.create_one,
        wall_ms=base.ports.wall_ms,
    )


def _new_decision_log(
    base: Base, serving: Serving, creation: TopicCreation
) -> tuple[ReplicatedDecisionTopic, DecisionLog]:
    config, ports, topic = base.config, base.ports, _new_decision_topic(base, serving, creation)
    on_decision = Relay[Decision]()
    if serving.recorder is not None:
        on_decision.add(serving.recorder.on_decision)
    on_decision.add(ports.on_decision)
    decisions = DecisionLog(
        topic,
        Ring(ports.filesystem, config.log_directories[0], config.kavka_decisions_ring_bytes),
        id_prefix=f"{base.broker_id}-{base.began_ms:x}",
        quiet=(DecisionKind.CONTROLLER_ELECTED, DecisionKind.BROKER_CAME) if ports.is_alone else (),
        on_decision=on_decision,
    )
    base.record.add(decisions.record)
    return topic, decisions


async def _patiently(work: Awaitable[None]) -> bool:
    """Waits up to STOP_PATIENCE_S for `work`, then cancels it. Returns whether it ended in time."""
    try:
        async with asyncio.timeout(STOP_PATIENCE_S):
            await work
    except TimeoutError:
        return False
    return True
