"""Links between simulated nodes: the Network port of each, who listens where, and what a network can do to frames.

Decides when a frame arrives, or that it never does. A connection behaves as TCP does: frames of one direction arrive in
order or not at all, and a broken connection is noticed at once, late, or never. It must not know what a frame says.

    delay       drawn for each frame from the link's range; a clogged link holds everything for a while
    cut         one way or both: nothing arrives while it lasts; what was sent waits (the kernel sends it again), new
                connections do not come about. Healed, all of it arrives
    reset       both ends fail; what was on its way arrives at a server all the same, or is lost, by lot
    node death  a killed process resets its connections (its kernel lives); a lost machine is silent for ever

    I1  frames of one direction of a connection arrive in the order in which they were sent, each once
    I2  a node that does not run receives nothing; what arrives waits in its kernel, up to QUEUED_BYTES a connection
    I3  every failure is a ConnectionFailed, and ends the connection for the side that sees it

Source: TigerBeetle's packet simulator for the kinds of faults; RFC 9293 for what a stream does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from kavka.errors import ConnectionFailed, ConnectionRefused, FrameTooLarge
from kavka.simulator.host.scheduler import NodeLoop, Scheduler
from kavka.simulator.host.trace import Trace

QUEUED_BYTES: Final = 4 * 1024 * 1024
"""`drain` waits while more than this has not arrived: the buffers of two kernels, and the port's own queue."""
RESET_LOSES_FRAMES: Final = 0.5
"""How often what is on its way is lost when a connection breaks."""
EPHEMERAL_PORTS: Final = 40_000

OnConnection = Callable[["Endpoint"], None]
Address = tuple[str, int]


@dataclass(slots=True)
class Link:
    """One direction between two nodes. Delays in seconds."""

    least_delay_s: float = 0.000_05
    mean_delay_s: float = 0.000_1
    cut: bool = False
    is_cut_for_good: bool = False
    """Until `let_go`, whoever heals it meanwhile."""
    clogged_until_s: float = 0.0

    def delay_s(self, now_s: float, random: Random) -> float:
        delay = self.least_delay_s + random.expovariate(1 / self.mean_delay_s)
        return max(delay, self.clogged_until_s - now_s)


class Endpoint:
    """One end of a connection: the Network port's `Connection`, and what a server reads from.

    `node` names the machine that the end belongs to; `loop` is the process on it.
    """

    def __init__(self, network: SimulatedNetwork, node: str, loop: NodeLoop, address: Address, limit: int) -> None:
        self._network = network
        self.node = node
        self.loop = loop
        self.address = address
        """Of the other side."""
        self.peer: Endpoint
        self._limit = limit
        self._inbox: deque[bytes] = deque()
        self._outbox: deque[bytes] = deque()
        """Sent and not arrived, in order."""
        self._scheduled = 0
        """How many of the outbox have a time of arrival."""
        self._last_arrival_s = 0.0
        self._outbox_bytes = 0
        self.is_held = False
        """What is sent from here waits until it is let go: a link that is cut, for one connection and one way."""
        self._failure: ConnectionFailed | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._drainers: deque[asyncio.Future[None]] = deque()

    # -- the port

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        if self._failure is not None or self.loop.is_killed:
            return  # As with a socket: the next receive tells.
        frame = b"".join(parts)
        self._outbox.append(frame)
        self._outbox_bytes += len(frame)
        self._network.carry(self)

    async def drain(self) -> None:
        while self._failure is None and self._outbox_bytes > QUEUED_BYTES:
            waiter = self.loop.create_future()
            self._drainers.append(waiter)
            await waiter
        if self._failure is not None:
            raise self._failure

    async def receive_frame(self) -> bytes:
        while not self._inbox:
            if self._failure is not None:
                raise self._failure
            waiter = self.loop.create_future()
            self._waiters.append(waiter)
            await waiter
        frame = self._inbox.popleft()
        if len(frame) > self._limit:
            self.close()
            raise FrameTooLarge(f"a frame of {len(frame)} bytes, {self._limit} are allowed")
        return frame

    def close(self) -> None:
        """Closes this side. The other side sees it after everything that was sent before has arrived."""
        if self._failure is None:
            self.fail(ConnectionFailed("closed here"))
            self._network.on_closed(self)

    # -- the network's side

    def arrive(self) -> None:
        """Delivers the oldest frame on its way to the other side."""
        frame = self._outbox.popleft()
        self._scheduled -= 1
        self._outbox_bytes -= len(frame)
        _wake(self._drainers)
        peer = self.peer
        if peer._failure is None:
            peer._inbox.append(frame)
            _wake(peer._waiters)

    def fail(self, failure: ConnectionFailed) -> None:
        if self._failure is None:
            self._failure = failure
            _wake(self._waiters)
            _wake(self._drainers)

    def lose_all(self) -> None:
        """What was on its way from here never arrives."""
        while len(self._outbox) > self._scheduled:
            self._outbox_bytes -= len(self._outbox.pop())

    @property
    def has_failed(self) -> bool:
        return self._failure is not None

    def arrival_times(self, now_s: float, link: Link, random: Random) -> Iterator[float]:
        """Delays, in seconds, of the frames that have none yet, in order (I1)."""
        while self._scheduled < len(self._outbox):
            arrival_s = max(self._last_arrival_s, now_s + link.delay_s(now_s, random))
            self._last_arrival_s = arrival_s
            self._scheduled += 1
            yield arrival_s - now_s


class NodeNetwork:
    """The Network port of one process on a node."""

    def __init__(self, network: SimulatedNetwork, node: str, loop: NodeLoop) -> None:
        self._network = network
        self._node = node
        self._loop = loop

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> Endpoint:
        return await self._network.connect(self._node, self._loop, (host, port), max_frame_bytes)

    def listen(self, port: int, on_connection: OnConnection, *, max_frame_bytes: int = 256 * 1024 * 1024) -> None:
        """Connections to this node's `port` are given to `on_connection`, on this process's loop."""
        self._network.listen(self._node, self._loop, port, on_connection, max_frame_bytes)

    def close_listener(self, port: int) -> None:
        self._network.close_listener(self._node, port)


@dataclass(frozen=True, slots=True)
class _Listener:
    loop: NodeLoop
    on_connection: OnConnection
    max_frame_bytes: int


class SimulatedNetwork:
    """All links and connections. A node's host name is the node's name."""

    def __init__(self, scheduler: Scheduler, *, link: Link | None = None) -> None:
        """`link` is the default for links."""
        self._scheduler = scheduler
        self._random = scheduler.new_random()
        self._default = link or Link()
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[Address, _Listener] = {}
        self._endpoints: dict[Endpoint, None] = {}
        self._lingering: dict[Endpoint, str] = {}
        """Ended on a link that was cut, and why: what they had sent arrives when it is healed, long after their end."""
        self._down: dict[str, None] = {}
        self._next_port = EPHEMERAL_PORTS
        self.frames = 0
        self.trace: Trace | None = None

    def port_of(self, node: str, loop: NodeLoop) -> NodeNetwork:
        return NodeNetwork(self, node, loop)

    def link(self, source: str, target: str) -> Link:
        """The link of one direction, to be changed."""
        key = (source, target)
        found = self._links.get(key)
        if found is None:
            default = self._default
            found = self._links[key] = Link(default.least_delay_s, default.mean_delay_s)
        return found

    # -- connections

    def listen(self, node: str, loop: NodeLoop, port: int, on_connection: OnConnection, max_frame_bytes: int) -> None:
        self._listeners[node, port] = _Listener(loop, on_connection, max_frame_bytes)

    def close_listener(self, node: str, port: int) -> None:
        self._listeners.pop((node, port), None)

    async def connect(self, node: str, loop: NodeLoop, address: Address, max_frame_bytes: int) -> Endpoint:
        """A connection, after a round trip. Raises ConnectionRefused without a listener. Waits until a cut ends."""
        await self._cross(loop, node, address[0])
        listener = self._listeners.get(address)
        await self._cross(loop, address[0], node)
        if listener is None or listener.loop.is_killed or self._listeners.get(address) is not listener:
            raise ConnectionRefused(f"{address[0]}:{address[1]} refused the connection")
        self._next_port += 1
        near = Endpoint(self, node, loop, address, max_frame_bytes)
        far = Endpoint(self, address[0], listener.loop, (node, self._next_port), listener.max_frame_bytes)
        near.peer, far.peer = far, near
        self._endpoints[near] = self._endpoints[far] = None
        listener.loop.call_soon(listener.on_connection, far)
        return near

    async def _cross(self, loop: NodeLoop, source: str, target: str) -> None:
        """One packet's way; asked again at intervals, as a kernel sends a lost packet again."""
        again_s = 0.2
        while self.link(source, target).cut or target in self._down:
            await asyncio.sleep(again_s)
            again_s = min(2 * again_s, 3.0)
        await asyncio.sleep(self.link(source, target).delay_s(self._scheduler.now_ns / 1e9, self._random))

    def carry(self, source: Endpoint) -> None:
        """Gives times of arrival to what `source` has sent."""
        link = self.link(source.node, source.peer.node)
        if link.cut or source.is_held or source.peer.node in self._down:
            return
        if source.peer.has_failed:
            # The other side closed or died and could not say so: this packet is answered by a reset.
            self._tell_end(source.peer, "connection reset by the other side")
            return
        now_s = self._scheduler.now_ns / 1e9
        for delay_s in source.arrival_times(now_s, link, self._random):
            self.frames += 1
            self._scheduler.after(delay_s, source.arrive)

    def on_closed(self, source: Endpoint) -> None:
        """One side closed. The other sees it after the frames that are still on their way."""
        self._endpoints.pop(source, None)
        self._end(source, "closed by the other side")

    def _end(self, source: Endpoint, why: str) -> None:
        if source.is_held or self.link(source.node, source.peer.node).cut:
            self._lingering[source] = why
        else:
            self._tell_end(source, why)

    def _tell_end(self, source: Endpoint, why: str) -> None:
        peer = source.peer
        link = self.link(source.node, peer.node)
        if link.cut or peer.has_failed or source.node in self._down:
            return  # The other side does not hear of it: half open until it sends something.
        now_s = self._scheduler.now_ns / 1e9
        behind_s = max(source._last_arrival_s - now_s, link.delay_s(now_s, self._random))

        def end() -> None:
            peer.fail(ConnectionFailed(why))
            self._endpoints.pop(peer, None)

        self._scheduler.after(behind_s, end)

    # -- faults

    def reset(self, endpoint: Endpoint) -> None:
        """The connection breaks: both sides see it."""
        for side in (endpoint, endpoint.peer):
            if self._random.random() < RESET_LOSES_FRAMES:
                side.lose_all()
            side.fail(ConnectionFailed("connection reset"))
            self._endpoints.pop(side, None)

    def reset_some(self, probability: float) -> int:
        """Breaks each connection with this probability; returns how many."""
        chosen = [each for each in self._endpoints if self._random.random() < probability]
        for endpoint in chosen:
            if not endpoint.has_failed:
                self.reset(endpoint)
        return len(chosen)

    def process_died(self, loop: NodeLoop) -> None:
        """A process was killed: its kernel ends its connections and refuses new ones."""
        self._close_listeners(loop)
        for endpoint in [each for each in self._endpoints if each.loop is loop]:
            if self._random.random() < RESET_LOSES_FRAMES:
                endpoint.lose_all()
            endpoint.fail(ConnectionFailed("the process is dead"))
            self._endpoints.pop(endpoint, None)
            self._end(endpoint, "connection reset by the other side")

    def machine_died(self, node: str, loop: NodeLoop) -> None:
        """The machine lost power: no connection is closed, and what the network had not taken yet is gone. Until
        `machine_up` it does not answer, not even with a refusal.
        """
        self._close_listeners(loop)
        self._down[node] = None
        for endpoint in [each for each in self._endpoints if each.loop is loop]:
            endpoint.lose_all()
            endpoint.fail(ConnectionFailed("the machine is dead"))
            self._endpoints.pop(endpoint, None)

    def machine_up(self, node: str) -> None:
        self._down.pop(node, None)

    def _close_listeners(self, loop: NodeLoop) -> None:
        for address in [address for address, listener in self._listeners.items() if listener.loop is loop]:
            del self._listeners[address]

    def cut(self, source: str, target: str, *, both: bool = True) -> None:
        """Nothing goes from `source` to `target` (and back, if `both`) until `heal`."""
        self.link(source, target).cut = True
        if both:
            self.link(target, source).cut = True
        if self.trace is not None:
            self.trace.on_node("network", "cut", f"{source} {'<->' if both else '-->'} {target}")

    def heal(self, source: str, target: str, *, both: bool = True) -> None:
        for one, other in ((source, target), (target, source)) if both else ((source, target),):
            link = self.link(one, other)
            if not link.cut or link.is_cut_for_good:
                continue
            link.cut = False
            if self.trace is not None:
                self.trace.on_node("network", "healed", f"{one} --> {other}")
            self._carry_all(one, other)

    def hold(self, source: str, target: str, *, answers: bool) -> None:
        """What `source` sends to `target` waits until `release`, and nothing else on that link does: its `answers` on
        connections that the other one opened, or its requests on those that it opened itself."""
        for endpoint in self._endpoints:
            if (endpoint.node, endpoint.peer.node) == (source, target):
                endpoint.is_held = answers is (endpoint.address[1] >= EPHEMERAL_PORTS)
        if self.trace is not None:
            self.trace.on_node("network", "held", f"{'answers' if answers else 'requests'} {source} --> {target}")

    def release(self, source: str, target: str) -> None:
        """Releases what was held on its way from `source` to `target`."""
        for endpoint in self._all_ends():
            if (endpoint.node, endpoint.peer.node) == (source, target):
                endpoint.is_held = False
        if self.trace is not None:
            self.trace.on_node("network", "let go", f"{source} --> {target}")
        self._carry_all(source, target)

    def _all_ends(self) -> list[Endpoint]:
        return [*self._endpoints, *self._lingering]

    def _carry_all(self, one: str, other: str) -> None:
        """Sends what waited on this link, also from ends that no longer exist."""
        for endpoint in list(self._endpoints):
            if endpoint.node == one and endpoint.peer.node == other:
                self.carry(endpoint)
        for endpoint in [each for each in self._lingering if each.node == one and each.peer.node == other]:
            why = self._lingering.pop(endpoint)
            self.carry(endpoint)
            self._tell_end(endpoint, why)

    def cut_for_good(self, one: str, other: str) -> None:
        """Nothing goes between the two until one of them is let go."""
        self.cut(one, other)
        self.link(one, other).is_cut_for_good = self.link(other, one).is_cut_for_good = True

    def let_go(self, node: str) -> None:
        """What was cut for good from or to the node may be healed again."""
        for key, link in self._links.items():
            if node in key:
                link.is_cut_for_good = False

    def heal_all(self) -> None:
        for source, target in [key for key, link in self._links.items() if link.cut]:
            self.heal(source, target, both=False)
        for source, target in {(each.node, each.peer.node): None for each in self._all_ends() if each.is_held}:
            self.release(source, target)
        for link in self._links.values():
            link.clogged_until_s = 0.0


def _wake(waiters: deque[asyncio.Future[None]]) -> None:
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
