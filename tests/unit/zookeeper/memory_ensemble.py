"""An ensemble in memory behind the Network port, with faults; and an event loop in virtual time, which costs none.

All servers of a `MemoryEnsemble` stand before one `EmbeddedZooKeeper`: an ensemble that always agrees. What runs
between them and a client are kavka's own server side (ServerConnection, RequestHandler) and the real bytes.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kavka.errors import ConnectionFailed, FrameTooLarge, ProtocolViolation
from kavka.zookeeper.client import ClientOptions, ZooKeeperClient
from kavka.zookeeper.database import Database
from kavka.zookeeper.decide.access_control import Identity
from kavka.zookeeper.decide.jute import UNIMPLEMENTED, ConnectRequest, OpCode, ReplyHeader, Request, frame
from kavka.zookeeper.decide.session_protocol import ServerConnection, State, negotiate_timeout
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import ConnectionLoss, Event, SessionEvent, SessionExpired, WatchEvent
from kavka.zookeeper.request_handler import RequestHandler
from tests.unit.zookeeper.memory_disk import MemoryDisk
from tests.unit.zookeeper.tree_support import NOW_MS

HOSTS = ("z1", "z2", "z3")
TICK_MS = 500
SESSION_MS = 6_000


class _JumpingSelector(selectors.SelectSelector):
    """Where nothing is ready, the time until the next timer passes at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everybody waits, and no timer will wake anybody"
            self.now_s += timeout
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def stand_still(self, seconds: float) -> None:
        """As a process that is stopped, or has no processor: nothing runs until the time has passed."""
        self._jumping.now_s += seconds


class MemoryLink:
    """One connection, seen from the client (the port's Connection), and the server's end of it."""

    def __init__(self, ensemble: MemoryEnsemble, host: str, max_frame_bytes: int) -> None:
        self.host = host
        self._ensemble = ensemble
        self._max_frame_bytes = max_frame_bytes
        self._protocol = ServerConnection()
        self._handler: RequestHandler | None = None
        self._session_id = 0
        self._lost = False
        self._frames: deque[bytes] = deque()
        self._held: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        self._failure: ConnectionFailed | FrameTooLarge | None = None
        self._work: asyncio.Queue[bytes] = asyncio.Queue()
        self._answering: set[asyncio.Task[None]] = set()
        self._server = asyncio.get_running_loop().create_task(self._serve())

    # ----------------------------------------------------------------------------------------------- the client's

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        if self._failure is not None:
            raise self._failure
        self._work.put_nowait(b"".join(map(bytes, parts)))

    async def drain(self) -> None:
        return

    async def receive_frame(self) -> bytes:
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._frames.popleft()

    def close(self) -> None:
        self.cut("closed here")

    # ----------------------------------------------------------------------------------------------- the server's

    def cut(self, why: str = "cut") -> None:
        """The connection ends; what is on its way is lost."""
        if self._failure is None:
            self._fail(ConnectionFailed(why))
            self._protocol.close()
            self._ensemble.on_end(self, self._session_id)
            self._server.cancel()

    def _fail(self, failure: ConnectionFailed | FrameTooLarge) -> None:
        self._failure = failure
        self._wake()

    def release(self) -> None:
        """The answers that were held arrive."""
        held, self._held = self._held, []
        for payload in held:
            self._arrive(payload)

    def write(self, payload: bytes) -> None:
        """A frame with its length leaves the server."""
        if self._ensemble.holding:
            self._held.append(payload)
        else:
            self._arrive(payload)

    def _arrive(self, payload: bytes) -> None:
        if len(payload) - 4 > self._max_frame_bytes:
            self._fail(FrameTooLarge(f"a frame of {len(payload)} bytes"))
        elif self._failure is None:
            self._frames.append(payload[4:])
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _serve(self) -> None:
        while True:
            payload = await self._work.get()
            if self._lost or self.host in self._ensemble.silent:
                self._lost = True  # And all that comes behind it: a stream has no holes.
                continue
            try:
                for message in self._protocol.receive(frame(payload)):
                    if isinstance(message, ConnectRequest):
                        await self._greet(message)
                    elif isinstance(message, Request):
                        self._ensemble.requests.append(message)
                        if self._ensemble.before_request is not None:
                            await self._ensemble.before_request(self, message)
                            if self._failure is not None:
                                return
                        if message.op in self._ensemble.unknown:
                            header = ReplyHeader(message.xid, self._ensemble.embedded.tree_zxid, UNIMPLEMENTED)
                            self.write(self._protocol.reply(header, None))
                            self.cut("an unknown request")
                            return
                        answering = asyncio.ensure_future(self._answer(message))
                        self._answering.add(answering)
                        answering.add_done_callback(self._answering.discard)
            except ProtocolViolation as violation:
                self.cut(str(violation))

    async def _greet(self, greeting: ConnectRequest) -> None:
        embedded = self._ensemble.embedded
        self._ensemble.greetings.append((self.host, greeting))
        if greeting.last_zxid_seen > embedded.tree_zxid:
            self.cut("the client has seen more")
            return
        password = greeting.password or b""
        if greeting.session_id:
            try:
                timeout_ms = embedded.resume_session(greeting.session_id, password)
            except SessionExpired:
                self.write(self._protocol.refuse())
                return
            self._session_id = greeting.session_id
        else:
            timeout_ms = negotiate_timeout(greeting.timeout_ms, TICK_MS)
            self._session_id, password = await embedded.open_session(timeout_ms, local=False)
        self._handler = RequestHandler(embedded, self._session_id, (Identity("ip", self.host),))
        embedded.attach(self._session_id, self._deliver)
        self.write(self._protocol.accept(self._session_id, timeout_ms, password))

    def _deliver(self, event: Event) -> None:
        if isinstance(event, SessionEvent):
            self.cut("the session ended")
        elif isinstance(event, WatchEvent) and self._protocol.state is State.OPEN:
            self.write(self._protocol.notify(event))

    async def _answer(self, request: Request) -> None:
        assert self._handler is not None
        try:
            self._ensemble.embedded.touch(self._session_id)
        except SessionExpired:
            pass
        try:
            outcome = await self._handler.handle(request)
        except ConnectionLoss:
            self.cut("the server failed")
            return
        if self._protocol.state is State.OPEN:
            self.write(self._protocol.reply(ReplyHeader(request.xid, outcome.zxid, outcome.error), outcome.record))
            if outcome.last:
                self.cut("goodbye")


class MemoryEnsemble:
    """The Network port's servers `HOSTS`, and what is wrong with them.

    down            connections are refused
    silent          connections are taken, nothing is carried out or answered; those that lost a frame stay silent
    holding         requests are carried out, answers wait for `release`
    before_request  is awaited with each request before it is carried out
    unknown         ops that the servers are too old for: as ZooKeeper does they say so, and end the connection
    """

    def __init__(self) -> None:
        self.embedded = EmbeddedZooKeeper(
            Database.open(MemoryDisk(), "/zk"), now_ms=lambda: NOW_MS, rng=random.Random(1), tick_ms=TICK_MS
        )
        self.down: set[str] = set()
        self.silent: set[str] = set()
        self.holding = False
        self.before_request: Callable[[MemoryLink, Request], Awaitable[None]] | None = None
        self.unknown: set[int] = set()
        self.requests: list[Request] = []
        self.greetings: list[tuple[str, ConnectRequest]] = []
        self.attempts: list[str] = []
        self.links: list[MemoryLink] = []

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 1 << 28) -> MemoryLink:
        self.attempts.append(host)
        await asyncio.sleep(0)
        if host in self.down:
            raise ConnectionFailed(f"{host}:{port} refuses")
        link = MemoryLink(self, host, max_frame_bytes)
        self.links.append(link)
        return link

    def cut(self) -> None:
        """All connections end."""
        for link in tuple(self.links):
            link.cut()

    def release(self) -> None:
        """Held answers arrive, and no more are held."""
        self.holding = False
        for link in self.links:
            link.release()

    def on_end(self, link: MemoryLink, session_id: int) -> None:
        """A connection is gone."""
        if link in self.links:
            self.links.remove(link)
        if not any(other._session_id == session_id for other in self.links):
            self.embedded.detach(session_id)

    def ops(self) -> list[OpCode]:
        """Of the requests so far, without pings."""
        return [OpCode(request.op) for request in self.requests if request.op != OpCode.PING]

    async def client(self, **settings: Any) -> ZooKeeperClient:
        """A session; settings are `connect`'s."""
        chosen: dict[str, Any] = {
            "connect_string": ",".join(f"{host}:2181" for host in HOSTS),
            "session_timeout_ms": SESSION_MS,
            "connection_timeout_ms": SESSION_MS,
            "rng": random.Random(1),
        }
        if "max_in_flight" in settings:
            chosen["options"] = ClientOptions(settings.pop("max_in_flight"))
        return await ZooKeeperClient.connect(self, **{**chosen, **settings})


def run(scenario: Callable[[MemoryEnsemble], Awaitable[None]]) -> None:
    """Runs it in virtual time, at most an hour of it."""

    async def main() -> None:
        ensemble = MemoryEnsemble()
        await ensemble.embedded.start(close_former_sessions=False)
        async with asyncio.timeout(3600):
            await scenario(ensemble)
        ensemble.cut()
        await ensemble.embedded.stop()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(main())
