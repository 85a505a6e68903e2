"""start_broker: reads what was there before, makes the parts of a broker, joins and starts them.

Start   znodes, topics of an earlier life (adoption, where this broker is alone), cluster id, settings - logs (recovered
        where the last stop was not clean) - the parts are made and joined (parts.py) - registration - controller
        election; if it is won, what this broker leads is led and published - upkeep. The listeners open after that: the
        controller reaches this broker through them. Clients that ask about a cluster of which nobody has informed this
        broker yet wait a moment, and are sent elsewhere.
Stop    what this broker leads is handed over (controlled shutdown) - waiting requests are answered - and all ends in
        the order of `Stage` (ends.py): logs are flushed and marked clean, then the session ends.

    I1  a start that fails, at whatever step, has ended all that it began, as an abort does: no lock is held, no task
        runs, nothing was written that says the logs are clean. The session is the host's to end
    I2  a host whose process is gone (a coroutine that is thrown away, not cancelled) ends nothing more
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kavka.broker.assembly.broker import Broker
from kavka.broker.assembly.ends import Ends, Stage
from kavka.broker.assembly.parts import Base, Opened, Running, join, new_base
from kavka.broker.assembly.ports import Ports
from kavka.broker.late import every
from kavka.broker.membership.adoption import Claims, adopt
from kavka.broker.membership.log_directory_check import remember_directories, require_logs_here
from kavka.broker.membership.registrar import Registrar, RegistrarPorts
from kavka.broker.membership.registration import cluster_id
from kavka.broker.metadata.metadata_cache import Endpoint
from kavka.broker.settings.topic_settings import log_config
from kavka.config.broker import BrokerConfig
from kavka.log.log_manager import LogManager, LogManagerSettings
from kavka.replication.alter_partition_writer import AlterPartitionWriter, stores_isr_through_controller
from kavka.replication.zookeeper_isr_writer import ZooKeeperIsrWriter
from kavka.zookeeper.persistent_paths import make_persistent_paths
from kavka.zookeeper.znode_paths import TOPICS_PATH

if TYPE_CHECKING:
    from kavka.coordinator.groups.coordinator import GroupCoordinator


async def start_broker(config: BrokerConfig, ports: Ports, advertised: Mapping[str, Endpoint]) -> Broker:
    """A broker that has started. `advertised` is where clients of each listener reach it.

    Raises ConfigError, StorageError (LogDirectoryLocked, InconsistentMetadata) or ZooKeeperError; what was begun has
    ended then (I1).
    """
    ends = Ends()
    try:
        base = new_base(config, ports, ends)
        found = await _read_cluster(base)
        opened = _open_logs(base, found, advertised)
        running = join(base, opened)
        ports.on_made(running.broker)
        await _run(base, found, opened, running)
    except (Exception, asyncio.CancelledError):
        ends.abort()
        raise
    return running.broker


class _Found(NamedTuple):
    """What ZooKeeper has. `log_directories` are those that this broker had when it last started."""

    cluster_id: str
    topics: list[str]
    claims: Claims
    log_directories: tuple[str, ...]


async def _read_cluster(base: Base) -> _Found:
    """Takes part in the settings' changes, and reads the cluster's id, its topics and their settings."""
    config, ports, configs = base.config, base.ports, base.configs
    zookeeper = ports.zookeeper
    stats = await make_persistent_paths(zookeeper)
    if ports.is_alone:
        await adopt(zookeeper, ports.filesystem, config, base.broker_id, ports.random)
    found_id = await cluster_id(zookeeper, ports.random)
    await configs.start()
    await configs.load_broker()
    await configs.load_clients(stats)
    topics = await zookeeper.children(TOPICS_PATH)
    await configs.load_topics(topics)
    claims = await Claims.read(zookeeper, base.broker_id, topics)
    former = await require_logs_here(zookeeper, ports.filesystem, config, broker_id=base.broker_id, claims=claims)
    return _Found(found_id, topics, claims, former)


def _open_logs(base: Base, found: _Found, advertised: Mapping[str, Endpoint]) -> Opened:
    """Locks the log directories, and opens or recovers the logs in them."""
    config, ports, configs = base.config, base.ports, base.configs
    logs = LogManager(
        ports.filesystem,
        config.log_directories,
        LogManagerSettings(
            broker_id=base.broker_id,
            cluster_id=found.cluster_id,
            producer_id_expiration_ms=configs.broker.producer_id_expiration_ms,
            recovery_threads=configs.broker.num_recovery_threads_per_data_dir,
            max_open_segments=ports.max_open_segments,
        ),
        lambda topic: log_config(configs.topic(topic)),
        draw=ports.random.randrange,
        is_claimed=found.claims.include,
        run_all=ports.run_all,
    )
    registrar = Registrar(
        config,
        RegistrarPorts(
            ports.zookeeper,
            ports.filesystem,
            ports.wall_ms,
            ports.place,
            ports.halt,
            base.tasks.spawn,
            base.record,
        ),
        logs,
        advertised,
    )
    base.ends.add_instant(
        Stage.STORES,
        stop=lambda: logs.close(ports.wall_ms(), broker_epoch=registrar.broker_epoch),
        abort=logs.release,
    )
    report = logs.load(ports.wall_ms())
    return Opened(found.cluster_id, bool(found.topics), logs, report, registrar)


async def _run(base: Base, found: _Found, opened: Opened, running: Running) -> None:
    """Registers the broker, and starts its parts."""
    config, zookeeper, registrar = base.config, base.ports.zookeeper, opened.registrar
    authentication = running.broker.authentication
    if authentication is not None:
        await authentication.start()
    if running.broker.authorization is not None:
        await running.broker.authorization.start()
    if running.broker.tokens is not None:
        await running.broker.tokens.store.start()
        base.tasks.spawn(running.broker.tokens.expiry.run())
    await registrar.look_back(opened.report)
    if running.recorder is not None:
        running.recorder.start()
    await registrar.register_first()
    if found.log_directories != config.log_directories:
        await remember_directories(zookeeper, base.broker_id, config.log_directories)
    base.ends.add_instant(Stage.INPUTS, stop=zookeeper.subscribe(registrar.on_session_event))
    broker = running.broker
    await broker.controller.start()
    await broker.features.start()
    running.maintenance.start()
    _expire_offsets(base, running)
    _prune_share_states(base, running)
    _watch_isrs(base, running)
    _watch_transactions(base, running)
    running.decisions.start()
    await broker.controller.carried_out_here()


def _expire_offsets(base: Base, running: Running) -> None:
    """Has committed offsets deleted that are over their retention."""
    retention_ms = base.config.offsets_retention_minutes * 60_000

    def expire(groups: GroupCoordinator) -> Awaitable[None]:
        return groups.offsets.expire(retention_ms)

    base.tasks.spawn(every(base.config.offsets_retention_check_interval_ms, running.broker.inner.groups, expire))


def _prune_share_states(base: Base, running: Running) -> None:
    """Removes what is no longer needed from the log of share groups' states."""
    config, states, spawn = base.configs.broker, running.broker.inner.share_states, base.tasks.spawn
    cold_ms = config.share_coordinator_cold_partition_snapshot_interval_ms
    spawn(every(cold_ms, states, lambda states: states.renew_cold(cold_ms)))
    spawn(every(config.share_coordinator_state_topic_prune_interval_ms, states, lambda states: states.prune()))
    spawn(_look_for_deleted_topics(config.share_coordinator_state_topic_prune_interval_ms, running.broker))


async def _look_for_deleted_topics(interval_ms: int, broker: Broker) -> None:
    """Has states of topics deleted whose deletion was missed, until cancelled."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        await broker.inner.look_for_deleted_topics()


def _watch_transactions(base: Base, running: Running) -> None:
    """Aborts transactions that timed out, and forgets ids that are not used."""
    config, room, spawn = base.configs.broker, running.broker.inner.transaction_room, base.tasks.spawn
    time_outs_ms = config.transaction_abort_timed_out_transaction_cleanup_interval_ms
    expiration_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
    spawn(every(time_outs_ms, room, lambda transactions: transactions.coordinator.abort_timed_out()))
    spawn(every(expiration_ms, room, lambda transactions: transactions.coordinator.forget_expired()))


def _watch_isrs(base: Base, running: Running) -> None:
    """Has followers that lag taken out of the ISRs, and those that caught up taken in."""
    broker, spawn = running.broker, base.tasks.spawn
    if stores_isr_through_controller(base.config.inter_broker_protocol_version):
        alter_partition = AlterPartitionWriter(running.isr_link.send, broker.broker_id, lambda: broker.broker_epoch)
        spawn(broker.replicas.run_isr_changes(alter_partition))
    else:
        writer = ZooKeeperIsrWriter(base.ports.zookeeper)
        spawn(broker.replicas.run_isr_changes(writer))
        spawn(writer.propagation.run())
    spawn(broker.replicas.run_isr_expiration(base.config.replica_lag_time_max_ms))
