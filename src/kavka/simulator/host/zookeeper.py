"""A simulated ZooKeeper server: the embedded server's tree, database and sessions behind simulated links.

Decides only how frames become requests; what they do is `zookeeper.request_handler`'s, as in production. Sessions of
brokers come in through `ZooKeeperClient` and the network, so that they expire, are cut off, and leave writes whose
outcome nobody knows.

One server stands for an ensemble: that an ensemble agrees is ZooKeeper's own promise, not what is tested here. Killed
and started again it plays an ensemble that had no leader for a while; its disk keeps what it acknowledged.
"""

from __future__ import annotations

from typing import Final

from kavka.errors import ConnectionFailed, ProtocolViolation
from kavka.filesystem import make_durable_directory
from kavka.simulator.host.disk import SimulatedDisk
from kavka.simulator.host.network import Endpoint, SimulatedNetwork
from kavka.simulator.host.scheduler import Scheduler
from kavka.simulator.host.trace import Trace
from kavka.zookeeper.database import Database, DatabaseSettings
from kavka.zookeeper.decide.access_control import Identity
from kavka.zookeeper.decide.jute import ConnectRequest, ReplyHeader, Request
from kavka.zookeeper.decide.session_protocol import ServerConnection, State
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.port import ConnectionLoss, Event, SessionEvent, SessionExpired, WatchEvent
from kavka.zookeeper.request_handler import RequestHandler

NODE: Final = "zookeeper"
PORT: Final = 2181
DIRECTORY: Final = "/zookeeper"
WALL_CLOCK_START_MS: Final = 1_767_225_600_000
"""Wall clocks of a simulation begin at 2026-01-01T00:00Z."""


class SimulatedZooKeeper:
    """The server of a simulation, through its lives."""

    def __init__(self, scheduler: Scheduler, network: SimulatedNetwork, *, tick_ms: int = 200) -> None:
        self._scheduler = scheduler
        self._network = network
        self._tick_ms = tick_ms
        self.disk = SimulatedDisk(scheduler.new_random())
        self._life = 0
        self._owners: dict[int, _Client] = {}
        self.embedded: EmbeddedZooKeeper
        self.trace: Trace | None = None
        self.start()

    @property
    def connect_string(self) -> str:
        return f"{NODE}:{PORT}"

    @property
    def is_up(self) -> bool:
        """Whether there is a process, serving or about to."""
        return not self.loop.is_killed

    def start(self) -> None:
        """Begins to serve, from its disk; sessions in it have their time-out to come back."""
        self._life += 1
        self._tell("started", f"life {self._life}")
        self.loop = self._scheduler.node(f"{NODE}.{self._life}")
        self._owners = {}
        self.is_serving = False
        self.loop.create_task(self._start())

    async def _start(self) -> None:
        filesystem = self.disk.port(self.loop)
        make_durable_directory(filesystem, DIRECTORY)
        self.embedded = EmbeddedZooKeeper(
            Database.open(filesystem, DIRECTORY, DatabaseSettings()),
            now_ms=lambda: WALL_CLOCK_START_MS + self._scheduler.now_ms,
            rng=self._scheduler.new_random(),
            tick_ms=self._tick_ms,
        )
        await self.embedded.start(close_former_sessions=False)
        self._network.port_of(NODE, self.loop).listen(PORT, self._on_connection)
        self.is_serving = True
        self._tell("serves")

    def kill(self) -> None:
        """As SIGKILL; `start` begins another life."""
        self.is_serving = False
        self._tell("killed")
        self.loop.kill()
        self.disk.process_died(self.loop)
        self._network.process_died(self.loop)

    def expire(self, session_id: int) -> None:
        """The session ends now, as if nothing had been heard of it for too long."""
        self._tell("session ended", f"{session_id:#x}")
        self.loop.create_task(self.embedded.expire(session_id))

    def _tell(self, kind: str, text: str = "") -> None:
        if self.trace is not None:
            self.trace.on_node(NODE, kind, text)

    def _on_connection(self, endpoint: Endpoint) -> None:
        self.loop.create_task(_Client(self, endpoint).run())

    # -- for connections

    def own(self, session_id: int, client: _Client) -> None:
        former = self._owners.get(session_id)
        if former is not None:
            former.close()
            self.embedded.detach(session_id)
        self._owners[session_id] = client
        self.embedded.attach(session_id, client.deliver)

    def owns(self, session_id: int, client: _Client) -> bool:
        return self._owners.get(session_id) is client

    def disown(self, session_id: int, client: _Client) -> None:
        if self.owns(session_id, client):
            del self._owners[session_id]
            self.embedded.detach(session_id)


class _Client:
    """One connection."""

    def __init__(self, server: SimulatedZooKeeper, endpoint: Endpoint) -> None:
        self._server = server
        self._endpoint = endpoint
        self._protocol = ServerConnection()
        self._handler: RequestHandler | None = None
        self._session_id = 0

    async def run(self) -> None:
        try:
            while self._protocol.state is not State.CLOSED:
                frame = await self._endpoint.receive_frame()
                for message in self._protocol.receive(len(frame).to_bytes(4, "big") + frame):
                    if isinstance(message, ConnectRequest):
                        await self._greet(message)
                    elif isinstance(message, Request):
                        self._on_request(message)
        except (ConnectionFailed, ProtocolViolation, ConnectionLoss):
            pass  # The session has its time-out to come back.
        finally:
            self.close()

    async def _greet(self, greeting: ConnectRequest) -> None:
        embedded = self._server.embedded
        password = greeting.password or b""
        if greeting.last_zxid_seen > embedded.tree_zxid:
            raise ProtocolViolation("the client has seen what this server has not")
        if greeting.session_id:
            try:
                timeout_ms = embedded.resume_session(greeting.session_id, password)
            except SessionExpired:
                self._send(self._protocol.refuse())
                return
            session_id = greeting.session_id
        else:
            timeout_ms = greeting.timeout_ms
            session_id, password = await embedded.open_session(timeout_ms, local=False)
        self._session_id = session_id
        self._server.own(session_id, self)
        self._handler = RequestHandler(embedded, session_id, (Identity("ip", self._endpoint.address[0]),))
        self._send(self._protocol.accept(session_id, timeout_ms, password))

    def _on_request(self, request: Request) -> None:
        try:
            self._server.embedded.touch(self._session_id)
        except SessionExpired:
            pass  # The request is answered with just that.
        self._server.loop.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        if self._handler is None or not self._server.owns(self._session_id, self):
            return
        try:
            outcome = await self._handler.handle(request)
        except ConnectionLoss:
            self.close()
            return
        if self._protocol.state is not State.OPEN:
            return
        header = ReplyHeader(request.xid, outcome.zxid, outcome.error)
        self._send(self._protocol.reply(header, outcome.record))
        if outcome.last:
            self.close()

    def deliver(self, event: Event) -> None:
        if isinstance(event, SessionEvent):
            self.close()
        elif isinstance(event, WatchEvent) and self._protocol.state is State.OPEN:
            self._send(self._protocol.notify(event))

    def _send(self, framed: bytes) -> None:
        self._endpoint.send_frame((framed[4:],))

    def close(self) -> None:
        self._protocol.close()
        self._endpoint.close()
        if self._session_id:
            self._server.disown(self._session_id, self)
