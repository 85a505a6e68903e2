"""Cuts: which links between the members of a cluster are cut, and a Network port that drops their traffic.

What a member sends over a cut way does not arrive, and neither side gets an error. A switch that drops packets does
the same. (A killed process is different: its peers see their connections reset.) Ways have a direction: a cut may be
one-way.

    connect        waits for the way to heal, both directions of it (a handshake needs both), until its time is over
    a frame sent   is kept and arrives when the way heals, as TCP sends again what was not acknowledged
    a frame that   was sent before the cut may have arrived; one that had not is received when the way heals
    the end of a   is not noticed by the other side before the way heals
    connection

Each connection is held up at the member that opened it, in both directions: what that member sends before it is sent,
what it is sent before it takes it. Connections of clients are not cut.

I1  Frames of one direction arrive in order, each once.
I2  No more than QUEUED_BYTES are kept for a cut way before `drain` holds the sender back.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from kavka.errors import ConnectionFailed, KavkaError
from kavka.network import Connection, Network
from kavka.testing.life import Life

Member = int | str
"""A broker by its id, or ZOOKEEPER."""
ZOOKEEPER = "zookeeper"
CONNECT_TIMEOUT_S = 10.0
"""socket.connection.setup.timeout.ms"""
QUEUED_BYTES = 1024 * 1024


class Cuts:
    """The cut ways of one cluster, from a member to another. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut: frozenset[tuple[Member, Member]] = frozenset()
        self._listeners: list[Callable[[], None]] = []

    def is_cut(self, source: Member, target: Member) -> bool:
        return (source, target) in self._cut

    @property
    def any(self) -> bool:
        """Whether any way is cut."""
        return bool(self._cut)

    def cut(self, ways: Sequence[tuple[Member, Member]]) -> None:
        with self._lock:
            self._cut |= frozenset(ways)

    def heal(self, ways: Sequence[tuple[Member, Member]] | None = None) -> None:
        """Heals these ways, or all."""
        with self._lock:
            self._cut = self._cut - frozenset(ways) if ways is not None else frozenset()
            listeners = list(self._listeners)
        for tell in listeners:
            tell()

    def on_heal(self, tell: Callable[[], None]) -> Callable[[], None]:
        """`tell` is called, on whichever thread, after ways healed; returns what ends that."""
        with self._lock:
            self._listeners.append(tell)

        def end() -> None:
            with self._lock:
                if tell in self._listeners:
                    self._listeners.remove(tell)

        return end


class CuttableNetwork:
    """The Network port of one member; made and used on its event loop. `members` says who listens on which port."""

    def __init__(self, life: Life, inner: Network, cuts: Cuts, member: Member, members: Mapping[int, Member]) -> None:
        self._life = life
        self._inner = inner
        self._cuts = cuts
        self._member = member
        self._members = members
        self._loop = asyncio.get_running_loop()
        self._healed: asyncio.Event = asyncio.Event()
        self._connections: dict[CuttableConnection, None] = {}
        self._end = cuts.on_heal(self._tell)

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> Connection:
        self._life.require()
        peer = self._members.get(port)
        if peer is None or peer == self._member:
            return await self._inner.connect(host, port, max_frame_bytes=max_frame_bytes)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self.passable((self._member, peer), (peer, self._member))
        except TimeoutError as error:
            raise ConnectionFailed(f"no answer from {host}:{port} in {CONNECT_TIMEOUT_S} s") from error
        inner = await self._inner.connect(host, port, max_frame_bytes=max_frame_bytes)
        connection = CuttableConnection(self, inner, (self._member, peer))
        self._connections[connection] = None
        return connection

    def abort(self) -> None:
        """Closes every connection at once, as the kernel does when a process has ended."""
        self._end()
        for connection in list(self._connections):
            connection.abort()

    # -- what its connections use

    def is_cut(self, way: tuple[Member, Member]) -> bool:
        return self._cuts.is_cut(*way)

    async def passable(self, *ways: tuple[Member, Member]) -> None:
        """Returns when none of the ways is cut."""
        while any(self._cuts.is_cut(*way) for way in ways):
            await self._healed.wait()

    def forget(self, connection: CuttableConnection) -> None:
        self._connections.pop(connection, None)

    def _tell(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_heal)

    def _on_heal(self) -> None:
        self._healed.set()
        self._healed = asyncio.Event()
        for connection in list(self._connections):
            connection.on_heal()


class CuttableConnection:
    """See `kavka.network.Connection`."""

    def __init__(self, network: CuttableNetwork, inner: Connection, way: tuple[Member, Member]) -> None:
        self._network = network
        self._inner = inner
        self._out, self._in = way, (way[1], way[0])
        self._kept: deque[Sequence[bytes | bytearray | memoryview]] = deque()
        self._kept_bytes = 0
        self._received: deque[bytes] = deque()
        self._failure: KavkaError | None = None
        self._closed = False
        self._room = asyncio.Event()
        self._turn = asyncio.Event()

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        if self._closed:
            raise ConnectionFailed("the connection was closed here")
        if self._kept or self._network.is_cut(self._out):
            self._kept.append(parts)
            self._kept_bytes += sum(map(len, parts))
        else:
            self._inner.send_frame(parts)

    async def drain(self) -> None:
        while self._kept_bytes > QUEUED_BYTES and not self._closed:
            self._room.clear()
            await self._room.wait()
        await self._inner.drain()

    async def receive_frame(self) -> bytes:
        # What arrives stays here until the way is passable, also when whoever waits for it gives up meanwhile.
        if not self._received and self._failure is None:
            try:
                self._received.append(await self._inner.receive_frame())
            except KavkaError as failure:
                self._failure = failure
        while self._network.is_cut(self._in) and not self._closed:
            self._turn.clear()
            await self._turn.wait()
        if self._received and not self._closed:
            return self._received.popleft()
        raise self._failure or ConnectionFailed("the connection was closed here")

    def close(self) -> None:
        """The other side notices when the way is passable."""
        if self._closed:
            return
        self._closed = True
        self._room.set()
        self._turn.set()
        if not self._network.is_cut(self._out):
            self.abort()

    def abort(self) -> None:
        self._closed = True
        self._room.set()
        self._turn.set()
        self._kept.clear()
        self._kept_bytes = 0
        self._network.forget(self)
        self._inner.close()

    def on_heal(self) -> None:
        """Sends what was kept, and lets go of what was received."""
        self._turn.set()
        if self._network.is_cut(self._out):
            return
        try:
            while self._kept:
                self._inner.send_frame(self._kept.popleft())
        except KavkaError:
            pass  # The other side is gone; whoever receives hears of it.
        self._kept_bytes = 0
        self._room.set()
        if self._closed:
            self.abort()
