"""Server: one broker with its disk, its ZooKeeper and its listeners, put together.

Decides in which order they start and stop. Must not know what a broker does, nor whether others share its process.

Start   ports are bound first (a port that is taken should cost nothing) - ZooKeeper - broker - the ports accept
Stop    the broker hands its partitions over while it still serves; no more is accepted, what is in flight is answered,
        the broker stops, the logs are marked clean.
Abort   everything is let go of, nothing is written: what kill -9 does to a process.

ZooKeeper is one of three; a start imports what that one needs (`_open_zookeeper`):
    one that is given     an embedded one that brokers of this process share (runtime/cluster.py)
    zookeeper.connect     an ensemble, through zookeeper/client.py
    neither               an embedded one of its own, kept under `kavka.zookeeper.data.dir`
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kavka.broker.assembly.broker import Broker
from kavka.broker.assembly.ports import NOBODY, OwnTokens, Ports
from kavka.broker.assembly.start import start_broker
from kavka.broker.dispatcher import Dispatcher
from kavka.broker.membership.registration import generate_broker_id
from kavka.broker.metadata.metadata_cache import Endpoint
from kavka.broker.telemetry.broker_metrics import register as register_metrics
from kavka.config.broker import BrokerConfig
from kavka.config.listeners import SASL_PROTOCOLS, TLS_PROTOCOLS
from kavka.errors import ZooKeeperError
from kavka.filesystem import FileSystem
from kavka.log.home_loader import LoadReport, one_by_one
from kavka.logger import Logger
from kavka.metrics import Registry
from kavka.network import Network
from kavka.protocol.api import ApiKey, api
from kavka.protocol.connection import ConnectionContext, Gate, Outcome, Request
from kavka.runtime import process
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.loop import FileShares, raise_file_limit, share_files
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.network.ports import patiently
from kavka.runtime.network.socket_server import IdleShare, SocketAcceptor, SocketServer, SocketServerLimits
from kavka.runtime.process import RESTART_VARIABLE, halt, wall_ms
from kavka.zookeeper.port import ZooKeeper

if TYPE_CHECKING:
    from kavka.broker.authentication.sasl_gate import Gates
    from kavka.runtime.http.metrics_server import MetricsServer
    from kavka.runtime.http.trace_export import TraceExport
    from kavka.runtime.loop_watch import GarbageWatch, LoopWatch
    from kavka.runtime.tls.broker_tls import BrokerTls
    from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperHost
    from kavka.security.key_stores import StoreSettings
    from kavka.zookeeper.client_session import ZooKeeperLogin
    from kavka.zookeeper.embedded import EmbeddedZooKeeper

logger = Logger(__name__)

WORKER_THREADS = 2
"""Threads for what blocks (fsync, removing files); they wait for the disk, so more than cores brings nothing."""

MAX_RATE = 2**31 - 1
"""Of connections a second: as many as come."""
WATCH_AFTER_S = 1.0
"""How long after its start the loop is watched: a start pays neither the module nor the thread."""
METADATA_TIMEOUT_S = 10.0
"""How long a broker that serves is not called ready because it cannot tell clients of anybody yet."""


Prepare: TypeAlias = Callable[[ZooKeeper], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Started:
    """What a server tells when it serves. `endpoints` are the addresses to connect to, by listener."""

    broker_id: int
    cluster_id: str
    endpoints: dict[str, Endpoint]
    log_directories: tuple[str, ...]
    report: LoadReport
    seconds: float


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a server stands on: the machine's own things, unless its host gives it others.

    `zookeeper` is one that brokers of this process share; None: the settings say which. `halt` ends the broker at once.
    """

    zookeeper: EmbeddedZooKeeper | None = None
    filesystem: FileSystem = field(default_factory=LocalFileSystem)
    network: Network = field(default_factory=lambda: SocketNetwork(resets=True))
    halt: Callable[[str], None] = halt
    prepare: Prepare | None = None
    """What is done in ZooKeeper before the broker looks at it."""
    over_tls: Callable[[Network], Network] | None = None
    """What is laid over the network by which a listener with TLS is called: the broker makes that itself, of its
    certificates. None: nothing."""
    restarted: str = ""
    """Why `kavka host` started this process, as it tells it; empty: nothing started it again."""


def _looked_up(rates: Mapping[str, int]) -> Mapping[str, int]:
    return _by_address(rates, setting="connection_creation_rate")


def _has_names(bounds: Mapping[str, int]) -> bool:
    """Whether it takes an answer of somebody else to know whom they are for."""
    if not bounds:
        return False
    from kavka.runtime.network.connection_limits_by_host import has_names  # late: few brokers have such bounds

    return has_names(bounds)


def _by_address(bounds: Mapping[str, int], setting: str = "max.connections.per.ip.overrides") -> Mapping[str, int]:
    if not bounds:
        return {}
    from kavka.runtime.network.connection_limits_by_host import by_address  # late, as above

    return by_address(bounds, setting=setting)


class Server:
    """One broker with all that it stands on. `start`, `stop` and `abort` run on its event loop."""

    def __init__(self, config: BrokerConfig, files: FileShares, surroundings: Surroundings | None = None) -> None:
        self._config = config
        self._files = files
        self._surroundings = surroundings or Surroundings()
        self._workers = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="kavka-worker")
        self._random = random.Random()
        self.metrics = Registry()
        self._zookeeper_host: ZooKeeperHost | None = None
        self._session: ZooKeeper | None = None
        self._broker: Broker | None = None
        self._sockets: SocketServer | None = None
        self._metrics_server: MetricsServer | None = None
        self._rates_of_addresses: dict[str, int] = {}
        """As quotas name them: addresses, and names of hosts."""
        self._rate_of_any_address = MAX_RATE
        self._tls: BrokerTls | None = None
        self._loop_watch: LoopWatch | None = None
        self._garbage: GarbageWatch | None = None
        self._ended = False
        self._trace_export: TraceExport | None = None
        self._limited_by = config
        """The settings whose bounds on connections hold, or are about to."""

    @property
    def broker(self) -> Broker:
        """The broker; there after `start`."""
        assert self._broker is not None, "the server was not started"
        return self._broker

    @property
    def zookeeper(self) -> ZooKeeper:
        """The broker's session; there after `start`."""
        assert self._session is not None, "the server was not started"
        return self._session

    async def start(self) -> Started:
        """Serves when it returns. Raises `KavkaError` after letting go of all that it had taken."""
        began = time.perf_counter()
        try:
            return await self._start(began)
        except BaseException:
            self._let_go()
            if self._session is not None:
                with suppress(ZooKeeperError):
                    await self._session.close()
            if self._zookeeper_host is not None:
                await self._zookeeper_host.stop()
            # Last: the embedded ZooKeeper wrote with them until here.
            self._workers.shutdown(cancel_futures=True)
            raise

    async def _start(self, began: float) -> Started:
        door = _Door()
        acceptors = await self._bind(door)
        await self._show_metrics()
        session = self._session = await self._open_zookeeper()
        if self._surroundings.prepare is not None:
            await self._surroundings.prepare(session)
        await self._take_broker_id(session)
        config = self._config
        if self._config.kavka_otlp_traces_endpoint:
            from kavka.runtime.http.trace_export import TraceExport  # late: few brokers export traces

            self._trace_export = TraceExport(self._config, self.metrics)
        broker = await start_broker(config, self._ports(session), self._advertised(acceptors))
        register_metrics(broker, self.metrics)
        # Requests are handled on this very thread: what it does not compute it is idle.
        idle = IdleShare(threading.get_ident())
        self.metrics.gauge("kafka.server", "KafkaRequestHandlerPool", "RequestHandlerAvgIdlePercent", idle.read)
        door.open(Dispatcher(broker), broker.gates)
        assert self._sockets is not None, "they were bound"
        self._sockets.watch.open(lambda: broker.request_traces)
        self._watch_requests(broker.config)
        if self._tls is not None:
            broker.spawn(self._tls.watch(broker.record))
            for name, counts in () if broker.gates is None else broker.gates.counts.items():
                counts.failed_before = partial(self._tls.failed, name)
        for acceptor in acceptors:
            acceptor.start()
        if self._surroundings.restarted:
            from kavka.broker.decisions.restarts import restart  # late: a start that nothing went before has none

            broker.record(restart(self._surroundings.restarted, wall_ms(), broker.broker_id))
        asyncio.get_running_loop().call_later(WATCH_AFTER_S, self._watch_loop)
        # The controller tells a broker of the cluster through its listener: only now can it.
        if not await broker.first_metadata.wait_for(METADATA_TIMEOUT_S):
            logger.warning("no controller has told this broker of the cluster yet", waited_s=METADATA_TIMEOUT_S)
        return Started(
            broker.broker_id,
            broker.metadata.cluster_id,
            self._advertised(acceptors),
            config.log_directories,
            broker.report,
            time.perf_counter() - began,
        )

    async def _bind(self, door: _Door) -> list[SocketAcceptor]:
        """Takes the ports; what accepts on them starts later. Requests will come to `door`."""
        config, surroundings = self._config, self._surroundings
        if any(endpoint.security_protocol in TLS_PROTOCOLS for endpoint in config.listener_endpoints):
            from kavka.runtime.tls.broker_tls import BrokerTls  # late: OpenSSL costs a start 10 ms and more

            self._tls = BrokerTls(config)
            self._tls.register(self.metrics)
        sockets = self._sockets = SocketServer(
            asyncio.get_running_loop(),
            door.handle,
            limits=self._socket_limits(config, await self._addresses(config)),
            registry=self.metrics,
            api_name=_api_name,
            on_halt=lambda violation: surroundings.halt(f"an invariant is broken: {violation}"),
        )
        return [
            await patiently(
                partial(
                    sockets.listen,
                    endpoint.listener,
                    endpoint.host,
                    endpoint.port,
                    is_control_plane=endpoint.listener == config.control_plane_listener,
                    new_gate=door.new_gate if endpoint.security_protocol in SASL_PROTOCOLS else None,
                    connect=None if self._tls is None else self._tls.connect_of(endpoint.listener),
                )
            )
            for endpoint in config.listener_endpoints
        ]

    async def _show_metrics(self) -> None:
        config = self._config
        if config.kavka_metrics_port:
            from kavka.runtime.http.metrics_server import MetricsServer  # late: few brokers show metrics

            self._metrics_server = MetricsServer(self.metrics)
            host = config.kavka_metrics_host or config.listener_endpoints[0].host
            await self._metrics_server.start(host, config.kavka_metrics_port)

    async def _take_broker_id(self, session: ZooKeeper) -> None:
        """Where the settings name none, ZooKeeper gives the broker its id."""
        if self._config.broker_id < 0:
            new_id = await generate_broker_id(session, self._config.reserved_broker_max_id)
            self._config = self._config.with_broker_id(new_id)

    def _ports(self, session: ZooKeeper) -> Ports:
        surroundings, tls = self._surroundings, self._tls
        return Ports(
            session,
            surroundings.filesystem,
            self._random,
            wall_ms,
            self._run_blocking,
            surroundings.halt,
            self._files.segments,
            self._on_config,
            self._network_of(self._config.inter_broker_listener),
            is_alone=self._zookeeper_host is not None,
            place=_place(),
            run_all=run_all,
            on_made=self._on_made,
            on_rate_of_address=self._change_rate_of_address,
            control_network=self._network_of(self._config.control_plane_listener or self._config.inter_broker_listener),
            own_principal=NOBODY if tls is None else tls.principal_of(self._config.inter_broker_listener),
            clients_have_names=tls is not None and tls.asks_for_certificates,
            fetch=_fetch_document,
            own_tokens=_own_tokens,
            on_request_trace=None if self._trace_export is None else self._trace_export.take,
            stalled=lambda since_ns: (0, "") if self._loop_watch is None else self._loop_watch.stalled(since_ns),
        )

    def _network_of(self, listener: str) -> Network:
        """How brokers are called that have this listener."""
        network = None if self._tls is None else self._tls.network_of(listener)
        if network is None:
            return self._surroundings.network
        over = self._surroundings.over_tls
        return network if over is None else over(network)

    def _on_made(self, broker: Broker) -> None:
        self._broker = broker

    def _watch_loop(self) -> None:
        """From now on it is known when the loop stands still, and in what."""
        if self._ended:
            return
        from kavka.runtime.loop_watch import GarbageWatch, LoopWatch  # late: see WATCH_AFTER_S

        self._loop_watch, self._garbage = LoopWatch(asyncio.get_running_loop()), GarbageWatch()
        self._loop_watch.register(self.metrics)
        self._garbage.register(self.metrics)
        self._loop_watch.start()

    def _watch_no_more(self) -> None:
        self._ended = True
        if self._loop_watch is not None and self._garbage is not None:
            self._loop_watch.stop()
            self._garbage.close()
            self._loop_watch = self._garbage = None

    async def stop(self, *, hand_over: bool = True) -> None:
        """Stops in order; what was acknowledged is on its way to the disk, and the logs are marked clean.

        `hand_over` False: whoever asks knows that no other broker is left that could take the partitions.
        """
        assert self._sockets is not None
        assert self._broker is not None
        if hand_over:
            await self._broker.leave_cluster()
        self._broker.answer_waiting()
        self._watch_no_more()
        if self._metrics_server is not None:
            self._metrics_server.close()
        await self._sockets.stop()
        await self._broker.stop()
        if self._zookeeper_host is not None:
            await self._zookeeper_host.stop()
        if self._trace_export is not None:
            await self._run_blocking(self._trace_export.close)
        self._workers.shutdown()

    def abort_sockets(self) -> None:
        """Closes every socket at once, as the kernel does when a process has ended."""
        if self._sockets is not None:
            self._sockets.abort()

    def abort(self) -> None:
        """Lets go of sockets, tasks and locks, and writes nothing."""
        self.abort_sockets()
        # Before the broker is taken apart: a worker may be about to add to what is walked through there.
        self._workers.shutdown(cancel_futures=True)
        self._let_go()

    def _let_go(self) -> None:
        self.abort_sockets()
        self._watch_no_more()
        if self._metrics_server is not None:
            self._metrics_server.close()
        if self._broker is not None:
            self._broker.abort()
        if self._trace_export is not None:
            self._trace_export.abandon()

    def reload(self) -> None:
        """Reads again, at once, what may change in files: certificates. What is wrong with new ones is logged."""
        if self._tls is not None:
            self._tls.look_now()

    # -- parts

    def _socket_limits(self, config: BrokerConfig, of_addresses: Mapping[str, int]) -> SocketServerLimits:
        """The bounds that `config` sets, those `of_addresses`, and no more connections than there are descriptors."""
        limits = SocketServerLimits.of(config)
        listener = replace(
            limits.listener, descriptors=self._files.connections, max_connections_per_ip_overrides=of_addresses
        )
        return replace(limits, listener=listener)

    def _on_config(self, config: BrokerConfig) -> None:
        """The broker's settings changed at run time, or were set again to what they were."""
        self._change_limits(config)
        self._watch_requests(config)
        if self._tls is not None:
            self._tls.reload(config)

    def _watch_requests(self, config: BrokerConfig) -> None:
        """Takes over which requests are looked at closer."""
        assert self._sockets is not None
        self._sockets.watch.set(config.kavka_slow_request_ms, config.kavka_request_trace_sample)

    def _change_limits(self, config: BrokerConfig) -> None:
        """Takes over what changed at run time: at once, or when the names of hosts in it were looked up."""
        assert self._sockets is not None
        self._limited_by = config
        overrides = config.connections_per_ip_overrides
        if not _has_names(overrides):
            self._sockets.change_limits(self._socket_limits(config, _by_address(overrides)).listener)
        elif self._broker is not None:
            self._broker.spawn(self._change_limits_by_name(config))

    async def _change_limits_by_name(self, config: BrokerConfig) -> None:
        addresses = await self._addresses(config)
        if self._sockets is not None and self._limited_by is config:  # Else they have changed again meanwhile.
            self._sockets.change_limits(self._socket_limits(config, addresses).listener)

    def _change_rate_of_address(self, address: str | None, rate: int | None) -> None:
        """Takes over how fast an address, or any other one, may make connections."""
        if address is None:
            self._rate_of_any_address = MAX_RATE if rate is None else rate
        elif rate is None:
            self._rates_of_addresses.pop(address, None)
        else:
            self._rates_of_addresses[address] = rate
        rates = dict(self._rates_of_addresses)
        if _has_names(rates):
            asyncio.get_running_loop().run_in_executor(self._workers, _looked_up, rates).add_done_callback(
                lambda found: self._take_rates(found.result(), rates)
            )
        else:
            self._take_rates(_by_address(rates), rates)

    def _take_rates(self, by_address: Mapping[str, int], rates: Mapping[str, int]) -> None:
        if self._sockets is not None and rates == self._rates_of_addresses:  # Else they have changed meanwhile.
            self._sockets.change_rates_of_addresses(by_address, self._rate_of_any_address)

    async def _addresses(self, config: BrokerConfig) -> Mapping[str, int]:
        overrides = config.connections_per_ip_overrides
        if not _has_names(overrides):
            return _by_address(overrides)
        return await asyncio.get_running_loop().run_in_executor(self._workers, _by_address, overrides)

    async def _open_zookeeper(self) -> ZooKeeper:
        """A session of the ZooKeeper that the module's docstring says."""
        config, surroundings = self._config, self._surroundings
        timeout_ms = config.zookeeper_session_timeout_ms
        if surroundings.zookeeper is not None:
            return await surroundings.zookeeper.connect(timeout_ms=timeout_ms)
        if config.zookeeper_connect:
            from kavka.zookeeper.client import ClientOptions, ZooKeeperClient
            from kavka.zookeeper.znode_acls import open_acl, secure_acl

            return await ZooKeeperClient.connect(
                self._zookeeper_network(),
                config.zookeeper_connect,
                session_timeout_ms=timeout_ms,
                connection_timeout_ms=config.zookeeper_connection_time_ms,
                rng=self._random,
                options=ClientOptions(
                    config.zookeeper_requests_in_flight,
                    secure_acl if config.zookeeper_set_acl else open_acl,
                    self._zookeeper_login(),
                ),
            )
        from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperHost, ZooKeeperPlace

        host = self._zookeeper_host = ZooKeeperHost(
            ZooKeeperPlace.of(config),
            surroundings.filesystem,
            run_blocking=self._run_blocking,
            rng=self._random,
            halt=surroundings.halt,
        )
        await host.start()
        return await host.embedded.connect(timeout_ms=timeout_ms)

    def _zookeeper_login(self) -> ZooKeeperLogin | None:
        """Who the broker is to ZooKeeper, by SASL."""
        if self._config.kavka_zookeeper_sasl_jaas_config is None:
            return None
        # Late: few brokers need it.
        from kavka.config.zookeeper import Password, zookeeper_login
        from kavka.security.digest_md5 import NONCE_BYTES, DigestLogin

        found = zookeeper_login(self._config)
        assert found is not None, "there is a login"
        if not isinstance(found, Password):
            from kavka.runtime.zookeeper.zookeeper_tickets import ZooKeeperTickets

            return ZooKeeperTickets(found)
        if not self._config.zookeeper_ssl_client_enable:
            logger.warning(
                "login on ZooKeeper without TLS",
                why="whoever listens can guess the password from DIGEST-MD5",
                next="set zookeeper.ssl.client.enable",
            )
        return DigestLogin(*found, lambda: secrets.token_hex(NONCE_BYTES))

    def _zookeeper_network(self) -> Network:
        """How the servers of zookeeper.connect are called."""
        if not self._config.zookeeper_ssl_client_enable:
            return self._surroundings.network
        # Late: OpenSSL costs a start 10 ms and more.
        from kavka.config.zookeeper import zookeeper_tls
        from kavka.runtime.zookeeper.zookeeper_tls import ZooKeeperTls

        settings = zookeeper_tls(self._config)
        assert settings is not None, "TLS is enabled"
        return ZooKeeperTls(settings).network()

    def _advertised(self, acceptors: Sequence[SocketAcceptor]) -> dict[str, Endpoint]:
        """Where clients reach each listener: as advertised, with the port that was really bound."""
        bound = {
            endpoint.listener: acceptor.port
            for endpoint, acceptor in zip(self._config.listener_endpoints, acceptors, strict=True)
        }
        return {
            endpoint.listener: Endpoint(
                endpoint.host or socket.gethostname(), endpoint.port or bound.get(endpoint.listener, 0)
            )
            for endpoint in self._config.advertised_endpoints
        }

    async def _run_blocking(self, work: Callable[[], None]) -> None:
        # With the context, so that lines of a worker are told apart as the broker's others are.
        context = contextvars.copy_context()
        await asyncio.get_running_loop().run_in_executor(self._workers, context.run, work)


def run_all(jobs: Sequence[Callable[[], None]], at_a_time: int) -> None:
    """Runs jobs on so many threads; returns when all have ended. Raises what one of them raises."""
    if at_a_time == 1 or len(jobs) < 2:
        one_by_one(jobs, 1)
        return
    with ThreadPoolExecutor(min(at_a_time, len(jobs)), thread_name_prefix="kavka-recovery") as threads:
        running = [threads.submit(job) for job in jobs]
    for job_running in running:
        job_running.result()


async def _fetch_document(url: str, trust_store: StoreSettings) -> bytes:
    from kavka.runtime.http.documents import fetch_document  # Late: few brokers fetch any.

    return await fetch_document(url, trust_store)


def _own_tokens(settings: Mapping[str, str]) -> OwnTokens:
    from kavka.client.login import sasl_settings  # Late: few brokers have tokens of their own.

    tokens = sasl_settings(settings, lambda path: Path(path).read_bytes()).tokens
    assert tokens is not None, "the mechanism is OAUTHBEARER"
    return tokens


class _Door:
    """Stands between the listeners, which are bound first, and the dispatcher, which is there last."""

    def __init__(self) -> None:
        self._dispatcher: Dispatcher | None = None
        self._gates: Gates | None = None

    def open(self, dispatcher: Dispatcher, gates: Gates | None) -> None:
        self._dispatcher, self._gates = dispatcher, gates

    def new_gate(self, context: ConnectionContext) -> Gate:
        """The gate of a connection on a listener that authenticates by SASL."""
        assert self._gates is not None, "a broker with such a listener has gates"
        return self._gates.new(context)

    def handle(self, request: Request) -> Outcome:
        assert self._dispatcher is not None, "a connection was accepted before the broker had started"
        gate = request.context.gate
        return self._dispatcher.handle(request) if gate is None else gate.handle(request, self._dispatcher.handle)


def run(config: BrokerConfig, *, on_started: Callable[[Started], None], prepare: Prepare | None = None) -> int:
    """Runs a broker until a signal ends it; returns the exit status.

    `prepare` works in ZooKeeper before the broker does; `on_started` is called once it serves. Raises `KavkaError`
    where it cannot start.
    """
    files = share_files(raise_file_limit())

    def tell(started: Started) -> None:
        on_started(started)
        log_recovery(started.report)

    # Not handed on: what this process starts was not started by a host.
    restarted = os.environ.pop(RESTART_VARIABLE, "")
    return process.run(lambda _end: Server(config, files, Surroundings(prepare=prepare, restarted=restarted)), tell)


def log_recovery(report: LoadReport) -> None:
    """Lines about what the logs went through: after a start's ready message, for the first line is dear (logger.py)."""
    for partition, reason in report.reasons:
        logger.warning("log recovered", partition=str(partition), what=reason.what, why=reason.why)
    for directory, failure in report.offline.items():
        logger.error("log directory offline", directory=directory, why=str(failure))


def _place() -> str:
    """The running system and the network namespace in it; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot_id:
            return f"{boot_id.read().strip()}/{os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return ""


def _api_name(api_key: int) -> str:
    """Kafka's name of an API, as its metrics carry it."""
    return api(ApiKey(api_key)).name if api_key in ApiKey._value2member_map_ else str(api_key)
