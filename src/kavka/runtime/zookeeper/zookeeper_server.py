"""ZooKeeperServer: ZooKeeper's wire protocol on a port, in front of an `EmbeddedZooKeeper`; and a process of it alone.

Decides what limits a connection: how many from one host, how many requests in flight, how much unread output, how long
until it says who it is; and which connection a session belongs to. It must not know bytes
(zookeeper/decide/session_protocol), or what a request does (zookeeper/request_handler).

asyncio's streams are used here: this is no data path of the broker.

Invariants:
I1  A session has one connection at most: a client that comes back on another one ends the former.
I2  Every message of a client keeps its session alive; a connection that ends leaves the session its time-out to come
    back, and takes its watches with it.
I3  Requests of a connection are carried out and answered in the order in which they came.
"""

from __future__ import annotations

import asyncio
import os
import platform
import random
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from kavka.errors import InvariantViolation, KavkaError, ProtocolViolation
from kavka.filesystem import make_durable_directory
from kavka.logger import Logger
from kavka.runtime.disk import LocalFileSystem
from kavka.runtime.loop import new_event_loop, raise_file_limit
from kavka.runtime.network.connection_log import ConnectionLog
from kavka.runtime.network.ports import listen, patiently
from kavka.runtime.process import on_hangup
from kavka.security.digest_md5 import NONCE_BYTES
from kavka.security.secret import Secret
from kavka.zookeeper.database import Database, DatabaseSettings
from kavka.zookeeper.decide.access_control import Identity
from kavka.zookeeper.decide.four_letter_words import (
    DEFAULT_WHITELIST,
    WORDS,
    ClientReport,
    ServerReport,
    allowed_from,
    answer,
)
from kavka.zookeeper.decide.jute import ConnectRequest, ReplyHeader, Request
from kavka.zookeeper.decide.session_protocol import (
    MAX_SESSION_TIMEOUT_TICKS,
    MIN_SESSION_TIMEOUT_TICKS,
    FourLetterWord,
    ServerConnection,
    State,
    negotiate_timeout,
)
from kavka.zookeeper.embedded import DEFAULT_TICK_MS, EmbeddedZooKeeper
from kavka.zookeeper.port import ConnectionLoss, Event, SessionEvent, SessionExpired, WatchEvent
from kavka.zookeeper.request_handler import Logins, RequestHandler

if TYPE_CHECKING:
    from kavka.runtime.zookeeper.zookeeper_secure_port import SecurePort
    from kavka.runtime.zookeeper.zookeeper_tls import Certificates

logger = Logger(__name__)

READ_BYTES: Final = 64 * 1024
BACKLOG: Final = 100
"""Connections that wait to be accepted; asyncio's own default."""
LOCK: Final = ".zookeeper.lock"
"""Held while the directory is in use, by whichever kind of kavka's servers."""
HALTED: Final = 70


@dataclass(frozen=True, slots=True)
class ZooKeeperServerSettings:
    """`tick_ms`: a session's time-out is 2 to 20 of it. `whitelist`: the four-letter words that are answered.

    `max_connections_per_host` is ZooKeeper's maxClientCnxns (0: no limit), `max_requests_in_flight` counts requests of
    one connection without an answer (ZooKeeper's globalOutstandingLimit), `max_unread_bytes` is output that a client
    does not fetch before its connection is cut, `greeting_ms` the time it has to begin a session.
    """

    tick_ms: int = DEFAULT_TICK_MS
    whitelist: frozenset[str] = DEFAULT_WHITELIST
    max_connections_per_host: int = 60
    max_requests_in_flight: int = 1000
    max_unread_bytes: int = 64 * 1024 * 1024
    greeting_ms: int = 30_000
    users: Mapping[str, Secret] = field(default_factory=dict)
    """Who may log in with DIGEST-MD5. If there are any, nobody may do anything without that, or a certificate."""


@dataclass(slots=True)
class _Traffic:
    """What srvr and mntr count."""

    received: int = 0
    sent: int = 0
    latency_min_s: float = 0.0
    latency_max_s: float = 0.0
    latency_sum_s: float = 0.0

    def on_reply(self, latency_s: float) -> None:
        self.sent += 1
        self.latency_min_s = latency_s if self.sent == 1 else min(self.latency_min_s, latency_s)
        self.latency_max_s = max(self.latency_max_s, latency_s)
        self.latency_sum_s += latency_s


class ZooKeeperServer:
    """A port of ZooKeeper's wire protocol. `directory` is only told, to those who ask for conf."""

    def __init__(
        self,
        embedded: EmbeddedZooKeeper,
        *,
        directory: str = "",
        settings: ZooKeeperServerSettings | None = None,
        on_bug: Callable[[InvariantViolation], None] | None = None,
    ) -> None:
        self.embedded = embedded
        self.settings = settings or ZooKeeperServerSettings()
        self.traffic = _Traffic()
        self.host = ""
        self.port = 0
        self.secure_port = 0
        self._directory = directory
        self._on_bug = on_bug
        self._listener: asyncio.Server | None = None
        self._secure: SecurePort | None = None
        self._log = ConnectionLog()
        self._clients: dict[_Client, None] = {}
        self._by_session: dict[int, _Client] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._started_s = time.monotonic()

    @property
    def connection_count(self) -> int:
        """Connections at this moment, with and without a session."""
        return len(self._clients)

    async def listen(self, host: str, port: int) -> int:
        """Accepts connections from now on; returns the port. Raises AddressUnavailable where it cannot be had."""
        listening = await patiently(lambda: listen(host, port, backlog=BACKLOG, what="ZooKeeper"))
        self._listener = await asyncio.start_server(self._on_connection, sock=listening, limit=READ_BYTES)
        self.host, self.port = self._listener.sockets[0].getsockname()[:2]
        return self.port

    async def listen_securely(self, host: str, port: int, certificates: Certificates) -> int:
        """As `listen`, on a port of its own where clients use TLS and are who their certificates say."""
        from kavka.runtime.zookeeper.zookeeper_secure_port import (
            SecurePort,  # late: OpenSSL costs a start 10 ms and more
        )

        listening = await patiently(lambda: listen(host, port, backlog=BACKLOG, what="ZooKeeper"))
        self._secure = SecurePort(listening, certificates, self._serve, has_room=self._has_room, read_bytes=READ_BYTES)
        self.secure_port = int(listening.getsockname()[1])
        return self.secure_port

    async def stop(self) -> None:
        """Closes the ports and every connection; sessions stay. The embedded server goes on."""
        if self._listener is not None:
            self._listener.close()
        for client in list(self._clients):
            client.cut()
        if self._secure is not None:
            await self._secure.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    # --------------------------------------------------------------------------------------- what connections use

    def own(self, session_id: int, client: _Client) -> None:
        """The session's messages come from `client` from now on."""
        former = self._by_session.get(session_id)
        if former is not None:
            logger.info("session moved", session_id=hex(session_id), to=client.host)
            former.cut()
            self.embedded.detach(session_id)
        self._by_session[session_id] = client
        self.embedded.attach(session_id, client.deliver)

    def owns(self, session_id: int, client: _Client) -> bool:
        return self._by_session.get(session_id) is client

    def disown(self, session_id: int, client: _Client) -> None:
        """The connection is gone."""
        if self.owns(session_id, client):
            del self._by_session[session_id]
            self.embedded.detach(session_id)

    def spawn(self, client: _Client, request: Request) -> None:
        """Carries out a request; tasks run in the order of their making."""
        task = asyncio.get_running_loop().create_task(client.serve(request))
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (bug := task.exception()) is None:
            return
        if isinstance(bug, InvariantViolation) and self._on_bug is not None:
            self._on_bug(bug)
        else:
            task.get_loop().call_exception_handler({"message": "a ZooKeeper connection failed", "exception": bug})

    def _has_room(self, host: str, others: int) -> bool:
        """Whether a host that has `others` on their way may have one more connection."""
        limit = self.settings.max_connections_per_host
        return not limit or sum(client.host == host for client in self._clients) + others < limit

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._serve(reader, writer, ())

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, identities: tuple[Identity, ...]
    ) -> None:
        client = _Client(self, reader, writer, identities)
        if not self._has_room(client.host, 0):
            limit = self.settings.max_connections_per_host
            logger.warning("connection refused", host=client.host, why=f"max_connections_per_host={limit} reached")
            client.cut()
            return
        self._clients[client] = None
        try:
            await client.run()
        except InvariantViolation as bug:
            if self._on_bug is None:
                raise
            self._on_bug(bug)
        finally:
            del self._clients[client]

    def logins(self, host: str) -> Logins | None:
        """What a client at `host` must say; None where nothing is asked."""
        if not self.settings.users:
            return None
        failed = partial(self._log.warning, "login failed", host=host)
        return Logins(self.settings.users, partial(secrets.token_hex, NONCE_BYTES), lambda why: failed(why=why))

    # ---------------------------------------------------------------------------------------- four-letter words

    def tell(self, word: str, host: str) -> str:
        """The text for a four-letter word that came from `host`."""
        return answer(word, self._report(), allowed_from(host, self.settings.whitelist))

    def _report(self) -> ServerReport:
        tree, settings, traffic = self.embedded.database.tree, self.settings, self.traffic
        watches = tree.watches.summary()
        return ServerReport(
            zxid=tree.zxid,
            nodes=tree.node_count,
            ephemerals={number: sorted(session.ephemerals) for number, session in tree.sessions.items()},
            clients=[client.report() for client in self._clients],
            watching_sessions=watches.sessions,
            watched_paths=watches.paths,
            watches=watches.watches,
            received=traffic.received,
            sent=traffic.sent,
            latency_min_ms=traffic.latency_min_s * 1000,
            latency_mean_ms=traffic.latency_sum_s * 1000 / max(traffic.sent, 1),
            latency_max_ms=traffic.latency_max_s * 1000,
            uptime_ms=int((time.monotonic() - self._started_s) * 1000),
            host=self.host,
            port=self.port,
            directory=self._directory,
            tick_ms=settings.tick_ms,
            max_connections_per_host=settings.max_connections_per_host,
            min_session_timeout_ms=settings.tick_ms * MIN_SESSION_TIMEOUT_TICKS,
            max_session_timeout_ms=settings.tick_ms * MAX_SESSION_TIMEOUT_TICKS,
            data_bytes=sum(len(path) + len(node.data or b"") for path, node in tree.nodes()),
            environment={
                "host.name": platform.node(),
                "python.version": platform.python_version(),
                "python.implementation": sys.implementation.name,
                "os.name": platform.system(),
                "os.arch": platform.machine(),
                "os.version": platform.release(),
            },
        )


class _Client:
    """One connection."""

    def __init__(
        self,
        server: ZooKeeperServer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        identities: tuple[Identity, ...],
    ) -> None:
        self._identities = identities
        peer = writer.get_extra_info("peername")
        self.host: str = peer[0] if peer else ""
        self._port: int = peer[1] if peer else 0
        self._server = server
        self._reader = reader
        self._writer = writer
        self._protocol = ServerConnection(
            words=WORDS, max_frame_bytes=server.embedded.database.settings.max_request_bytes
        )
        self._handler: RequestHandler | None = None
        self._session_id = 0
        self._timeout_ms = 0
        self._received = 0
        self._sent = 0
        self._room = asyncio.Event()
        self._room.set()

    async def run(self) -> None:
        """Reads until the connection ends."""
        try:
            async with asyncio.timeout(self._server.settings.greeting_ms / 1000):
                while self._protocol.state is State.GREETING:
                    await self._read()
            while self._protocol.state is State.OPEN:
                await self._room.wait()
                await self._writer.drain()
                await self._read()
        except ProtocolViolation as violation:
            logger.warning("connection closed", host=self.host, port=self._port, why=str(violation))
        except (OSError, EOFError, TimeoutError, ConnectionLoss):
            pass  # The client went away, said nothing, or the disk failed: its session has its time-out to come back.
        finally:
            self._close()

    async def _read(self) -> None:
        data = await self._reader.read(READ_BYTES)
        if not data:
            raise EOFError
        received = self._protocol.receive(data)
        while received:
            for message in received:
                await self._on_message(message)
            received = self._protocol.receive(b"")

    async def _on_message(self, message: ConnectRequest | Request | FourLetterWord) -> None:
        self._received += 1
        self._server.traffic.received += 1
        if isinstance(message, Request):
            self._on_request(message)
        elif isinstance(message, ConnectRequest):
            await self._begin_session(message)
        else:
            self._writer.write(self._server.tell(message.word, self.host).encode())

    # ---------------------------------------------------------------------------------------------------- session

    async def _begin_session(self, greeting: ConnectRequest) -> None:
        embedded = self._server.embedded
        if greeting.last_zxid_seen > embedded.tree_zxid:
            raise ProtocolViolation(
                f"the client has seen {greeting.last_zxid_seen:#x}, this server is at {embedded.tree_zxid:#x}: "
                "it belongs to another server, or this one lost its data"
            )
        password = greeting.password or b""
        if greeting.session_id:
            try:
                timeout_ms = embedded.resume_session(greeting.session_id, password)
            except SessionExpired:
                self._writer.write(self._protocol.refuse())
                return
            session_id = greeting.session_id
        else:
            timeout_ms = negotiate_timeout(greeting.timeout_ms, self._server.settings.tick_ms)
            session_id, password = await embedded.open_session(timeout_ms, local=False)
            if self._writer.is_closing():
                return  # The connection ended while the session was written: nobody has it, and it expires.
        self._session_id, self._timeout_ms = session_id, timeout_ms
        self._server.own(session_id, self)
        identities = (Identity("ip", self.host), *self._identities)
        self._handler = RequestHandler(embedded, session_id, identities, self._server.logins(self.host))
        self._writer.write(self._protocol.accept(session_id, timeout_ms, password))

    def deliver(self, event: Event) -> None:
        """An event of the session: watch events go out; its end is the end of the connection."""
        if isinstance(event, SessionEvent):
            self.cut()
        elif isinstance(event, WatchEvent):
            self._write(lambda: self._protocol.notify(event))

    # --------------------------------------------------------------------------------------------------- requests

    def _on_request(self, request: Request) -> None:
        try:
            self._server.embedded.touch(self._session_id)
        except SessionExpired:
            pass  # The request is answered with just that.
        if self._protocol.unanswered >= self._server.settings.max_requests_in_flight:
            self._room.clear()
        self._server.spawn(self, request)

    async def serve(self, request: Request) -> None:
        """Carries out one request and writes its reply."""
        began_s = time.monotonic()
        if self._handler is None or not self._server.owns(self._session_id, self):
            return  # The session moved on: what this connection still had to say has no effect.
        try:
            outcome = await self._handler.handle(request)
        except ConnectionLoss:
            self.cut()
            return
        header = ReplyHeader(request.xid, outcome.zxid, outcome.error)
        self._write(lambda: self._protocol.reply(header, outcome.record))
        self._server.traffic.on_reply(time.monotonic() - began_s)
        if self._protocol.unanswered < self._server.settings.max_requests_in_flight:
            self._room.set()
        if outcome.last:
            self._close()

    def _write(self, encode: Callable[[], bytes]) -> None:
        if self._protocol.state is not State.OPEN or self._writer.is_closing():
            return
        self._sent += 1
        self._writer.write(encode())
        if self._writer.transport.get_write_buffer_size() > self._server.settings.max_unread_bytes:
            logger.warning("connection closed", host=self.host, port=self._port, why="it does not read its answers")
            self.cut()

    # -------------------------------------------------------------------------------------------------------- end

    def cut(self) -> None:
        """Ends the connection at once; what was not sent yet is dropped."""
        self._writer.transport.abort()
        self._close()

    def _close(self) -> None:
        """Ends the connection; what was written still leaves."""
        self._protocol.close()
        self._room.set()
        self._writer.close()
        if self._session_id:
            self._server.disown(self._session_id, self)

    def report(self) -> ClientReport:
        return ClientReport(
            self.host,
            self._port,
            self._session_id,
            self._timeout_ms,
            self._protocol.unanswered,
            self._received,
            self._sent,
        )


# ------------------------------------------------------------------------------------------------- a process of it


@dataclass(frozen=True, slots=True)
class ZooKeeperProcess:
    """A ZooKeeper server to run alone. `port` and `secure_port` are None where there is none."""

    directory: str
    host: str
    port: int | None
    settings: ZooKeeperServerSettings = field(default_factory=ZooKeeperServerSettings)
    secure_port: int | None = None
    certificate: str = ""
    authority: str = ""


OnStarted = Callable[[int | None, int | None], None]


def run(plan: ZooKeeperProcess, *, on_started: OnStarted) -> int:
    """Runs the server until a signal ends it; returns the exit status.

    `on_started` is told its ports once it serves, the secure one last. Raises `KavkaError` where it cannot start.
    """
    raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_run(plan, on_started))


async def _run(plan: ZooKeeperProcess, on_started: OnStarted) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    on_hangup(loop, lambda: None, stopping.set)
    filesystem = LocalFileSystem()
    make_durable_directory(filesystem, plan.directory)
    lock = filesystem.lock(f"{plan.directory}/{LOCK}")
    workers = ThreadPoolExecutor(1, thread_name_prefix="kavka-zookeeper")

    async def run_blocking(work: Callable[[], None]) -> None:
        await loop.run_in_executor(workers, work)

    try:
        embedded = EmbeddedZooKeeper(
            Database.open(filesystem, plan.directory, DatabaseSettings()),
            now_ms=lambda: time.time_ns() // 1_000_000,
            rng=random.SystemRandom(),
            run_blocking=run_blocking,
            tick_ms=plan.settings.tick_ms,
            on_failure=_halt,
        )
        server = ZooKeeperServer(embedded, directory=plan.directory, settings=plan.settings, on_bug=_halt)
        await embedded.start(close_former_sessions=False)
        try:
            on_started(*await _listen(server, plan))
            await stopping.wait()
        finally:
            await server.stop()
            await embedded.stop()
    finally:
        workers.shutdown()
        lock.close()
    return 0


async def _listen(server: ZooKeeperServer, plan: ZooKeeperProcess) -> tuple[int | None, int | None]:
    secure = None
    if plan.secure_port is not None:
        from kavka.runtime.zookeeper.zookeeper_tls import (
            server_certificates,  # late: OpenSSL costs a start 10 ms and more
        )

        certificates = server_certificates(plan.certificate, plan.authority, required=not plan.settings.users)
        secure = await server.listen_securely(plan.host, plan.secure_port, certificates)
    return None if plan.port is None else await server.listen(plan.host, plan.port), secure


def _halt(why: KavkaError | InvariantViolation) -> None:
    """Ends the process at once: what is durable stays as it is, and the next start recovers."""
    logger.error("ZooKeeper halted", why=str(why), next_step="check the cause, then start it again: it recovers")
    os._exit(HALTED)
