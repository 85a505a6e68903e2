"""Server: one broker process, put together: disk, embedded ZooKeeper, broker, listeners; signals and the end.

Decides in which order they start and stop, and what ends the process. Must not know what a broker does.

Start   ports are bound first (a port that is taken should cost nothing) - ZooKeeper - broker - the ports accept
Stop    SIGINT or SIGTERM: no more is accepted, what is in flight is answered, the broker stops, the logs are marked
        clean. A second signal ends the process at once; the next start recovers.
Halt    a broken invariant, or no log directory left: the process ends at once, without touching a file.

ZooKeeper is embedded: the tree of zookeeper/tree.py, kept under `kavka.zookeeper.data.dir`. An ensemble behind
`zookeeper.connect` is not connected to yet; the setting is accepted, and a warning says so.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from kavka.broker.broker import Broker, Ports
from kavka.broker.dispatcher import Dispatcher
from kavka.broker.metadata_cache import Endpoint
from kavka.config.broker import BrokerConfig
from kavka.config.listeners import Endpoint as ListenerEndpoint
from kavka.errors import ConfigError, InvariantViolation
from kavka.filesystem import File
from kavka.log.log_manager import LoadReport
from kavka.logger import Logger
from kavka.metrics import Registry
from kavka.protocol.api import ApiKey, api
from kavka.protocol.connection import Outcome, Request
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.listener import Acceptor
from kavka.runtime.loop import FileShares, new_event_loop, raise_file_limit, share_files
from kavka.runtime.network import SocketNetwork
from kavka.runtime.socket_server import SocketServer, SocketServerLimits
from kavka.zookeeper.database import Database, DatabaseSettings, SyncPolicy
from kavka.zookeeper.local import EmbeddedZooKeeper

logger = Logger(__name__)

WORKER_THREADS = 2
"""Threads for what blocks (fsync, removing files); they wait for the disk, so more than cores brings nothing."""
ZOOKEEPER_LOCK = ".zookeeper.lock"
"""Held while the embedded ZooKeeper's directory is in use; not `.lock`, so that it may lie in a log directory."""
HALTED = 70
"""Exit status of a broker that halted (EX_SOFTWARE)."""


@dataclass(frozen=True, slots=True)
class Started:
    """What a server tells when it serves. `endpoints` are the addresses to connect to, by listener."""

    broker_id: int
    cluster_id: str
    endpoints: dict[str, Endpoint]
    log_directories: tuple[str, ...]
    report: LoadReport
    seconds: float


class Server:
    """One broker process. `start` and `stop` run on its event loop."""

    def __init__(self, config: BrokerConfig, files: FileShares) -> None:
        self._config = config
        self._files = files
        self._filesystem = LocalFileSystem()
        self._workers = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="kavka-worker")
        self._random = random.Random()
        self.metrics = Registry()
        self._zookeeper: EmbeddedZooKeeper | None = None
        self._zookeeper_lock: File | None = None
        self._broker: Broker | None = None
        self._sockets: SocketServer | None = None

    async def start(self) -> Started:
        """Serves when it returns. Raises `KavkaError` after letting go of all that it had taken."""
        began = time.perf_counter()
        try:
            return await self._start(began)
        except BaseException:
            if self._sockets is not None:
                await self._sockets.stop(0)
            if self._broker is not None:
                self._broker.abort()
            await self._close_zookeeper()
            self._workers.shutdown(wait=False)
            raise

    async def _start(self, began: float) -> Started:
        config = self._config
        loop = asyncio.get_running_loop()
        handler = _Door()
        sockets = self._sockets = SocketServer(
            loop,
            handler.handle,
            limits=self._socket_limits(config),
            registry=self.metrics,
            api_name=_api_name,
            on_halt=lambda violation: halt(f"an invariant is broken: {violation}"),
        )
        acceptors = [
            sockets.listen(endpoint.listener, endpoint.host, endpoint.port) for endpoint in self._plaintext_endpoints()
        ]
        self._zookeeper = await self._open_zookeeper()
        ports = Ports(
            await self._zookeeper.connect(timeout_ms=config.zookeeper_session_timeout_ms),
            self._filesystem,
            self._random,
            wall_ms,
            self._run_blocking,
            halt,
            self._files.segments,
            lambda changed: sockets.change_limits(self._socket_limits(changed).listener),
            SocketNetwork(),
        )
        broker = self._broker = Broker(config, ports, self._advertised(acceptors))
        report = await broker.start()
        handler.open(Dispatcher(broker))
        for acceptor in acceptors:
            acceptor.start()
        return Started(
            broker.broker_id,
            broker.metadata.cluster_id,
            self._advertised(acceptors),
            config.log_directories,
            report,
            time.perf_counter() - began,
        )

    async def stop(self) -> None:
        """Stops in order; what was acknowledged is on its way to the disk, and the logs are marked clean."""
        assert self._sockets is not None
        assert self._broker is not None
        self._broker.answer_waiting()
        await self._sockets.stop()
        await self._broker.stop()
        await self._close_zookeeper()
        self._workers.shutdown()

    # -- parts

    def _socket_limits(self, config: BrokerConfig) -> SocketServerLimits:
        """The bounds that `config` sets, and no more connections than there are descriptors for."""
        limits = SocketServerLimits.of(config)
        most = min(limits.listener.max_connections, self._files.connections)
        return replace(limits, listener=replace(limits.listener, max_connections=most))

    def _plaintext_endpoints(self) -> tuple[ListenerEndpoint, ...]:
        endpoints = self._config.listener_endpoints
        for endpoint in endpoints:
            if endpoint.security_protocol != "PLAINTEXT":
                raise ConfigError(
                    f"listener {endpoint} wants {endpoint.security_protocol}: this version serves only PLAINTEXT; "
                    "set listener.security.protocol.map or leave the listener out"
                )
        return endpoints

    async def _open_zookeeper(self) -> EmbeddedZooKeeper:
        config = self._config
        if "zookeeper.connect" in config.static:
            logger.warning(
                "zookeeper.connect is not used yet",
                zookeeper_connect=config.zookeeper_connect,
                instead=zookeeper_directory(config),
                why="this version keeps its metadata in the embedded ZooKeeper only",
            )
        directory = zookeeper_directory(config)
        self._filesystem.make_directory(directory)
        # Before anything is read: a second broker would append to the log of the first, and close its session.
        self._zookeeper_lock = self._filesystem.lock(f"{directory}/{ZOOKEEPER_LOCK}")
        policy = SyncPolicy(config.kavka_zookeeper_sync)
        database = Database.open(self._filesystem, directory, DatabaseSettings(sync=policy))
        server = EmbeddedZooKeeper(
            database,
            now_ms=wall_ms,
            rng=self._random,
            run_blocking=self._run_blocking,
            on_failure=lambda failure: halt(f"the embedded ZooKeeper's disk failed: {failure}"),
        )
        await server.start(close_former_sessions=True)
        return server

    async def _close_zookeeper(self) -> None:
        if self._zookeeper is not None:
            await self._zookeeper.stop()
        if self._zookeeper_lock is not None:
            self._zookeeper_lock.close()

    def _advertised(self, acceptors: Sequence[Acceptor]) -> dict[str, Endpoint]:
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
        await asyncio.get_running_loop().run_in_executor(self._workers, work)


class _Door:
    """Stands between the listeners, which are bound first, and the dispatcher, which is there last."""

    def __init__(self) -> None:
        self._dispatcher: Dispatcher | None = None

    def open(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def handle(self, request: Request) -> Outcome:
        assert self._dispatcher is not None, "a connection was accepted before the broker had started"
        return self._dispatcher.handle(request)


def run(config: BrokerConfig, *, on_started: Callable[[Started], None]) -> int:
    """Runs a broker until a signal ends it; returns the exit status.

    `on_started` is called once it serves. Raises `KavkaError` where it cannot start.
    """
    files = share_files(raise_file_limit())
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_run(config, files, on_started))


async def _run(config: BrokerConfig, files: FileShares, on_started: Callable[[Started], None]) -> int:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_loop_exception)
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            os._exit(128 + signal.SIGTERM)
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    server = Server(config, files)
    starting = loop.create_task(server.start())
    stop_asked = loop.create_task(stopping.wait())
    await asyncio.wait((starting, stop_asked), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return 128 + signal.SIGTERM
    started = starting.result()
    # What the start made lives as long as the process: later collections need not look at it.
    gc.collect()
    gc.freeze()
    on_started(started)
    _log_recovery(started.report)
    await stopping.wait()
    await server.stop()
    return 0


def zookeeper_directory(config: BrokerConfig) -> str:
    """Where the embedded ZooKeeper keeps its tree: as set, else beside the first log directory."""
    if config.kavka_zookeeper_data_dir:
        return config.kavka_zookeeper_data_dir
    return f"{os.path.dirname(os.path.abspath(config.log_directories[0]))}/kavka-zookeeper"


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _on_loop_exception(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What a timer or a task let through: nobody waits for its outcome, so it ends here."""
    failure = context.get("exception")
    if isinstance(failure, InvariantViolation):
        halt(f"an invariant is broken: {failure}")
    logger.error("unexpected failure", what=context.get("message"), exc_info=failure)


def halt(why: str) -> None:
    """Ends the process at once: what is durable stays as it is, and the next start recovers."""
    logger.error("broker halted", why=why, next_step="look at the cause, then start it again: the logs are recovered")
    os._exit(HALTED)


def _log_recovery(report: LoadReport) -> None:
    for partition, reason in report.reasons:
        logger.warning("log recovered", partition=str(partition), what=reason.what, why=reason.why)
    for directory, failure in report.offline.items():
        logger.error("log directory offline", directory=directory, why=str(failure))


def _api_name(api_key: int) -> str:
    """Kafka's name of an API, as its metrics carry it."""
    return api(ApiKey(api_key)).name if api_key in ApiKey._value2member_map_ else str(api_key)
