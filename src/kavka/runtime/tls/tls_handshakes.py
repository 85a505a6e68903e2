"""Handshakes: the public-key work of TLS, on a thread of its own, and how much of it there may be.

Decides whose turn it is, how many handshakes are under way, and when one has taken too long. It must not know
certificates, nor what a handshake says.

Public-key work takes 0.3 to 1.4 ms for each connection: in the loop, a burst of 16 hellos would hold everybody else up
for 12 to 25 ms. On a thread OpenSSL lets go of the GIL meanwhile.

I1  (T4) At most `most` connections have an SSLObject before their handshake is over; the others wait with their bytes,
    and addresses take turns.
    Where all are taken, who comes from an address with fewer of them takes the place of the oldest of the address with
    most: half-open handshakes of one address keep nobody else out. Addresses of one IPv6 network of 64 bits are one.
    Where no address has more than others, that whose client owes the next step for longest gives way, if that is
    STALLED_S: half-open handshakes of many addresses delay others, and keep them out no more. What a busy broker has
    not answered, or not read yet, nobody owes. Records to which there is no answer, such as a piece of a hello, are no
    step: who sends them owes it still.
I2  A connection is closed `timeout_ms` after it was accepted if its handshake has not begun, and so long after that if
    it is not over. So who waited behind a flood has its whole time once the flood's is over.
I3  A connection has at most one step under way, and its loop touches nothing of OpenSSL's meanwhile.
I4  On the thread addresses take turns, too: who comes alone waits for one step of each other address, however many
    wait of one. Nothing is done for a connection that is closed.
"""

from __future__ import annotations

import asyncio
import contextvars
import ssl
import threading
from collections import Counter, deque
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.security.failed_login_delay import group_of

if TYPE_CHECKING:
    from kavka.runtime.tls.tls_channel import TlsSession
    from kavka.runtime.tls.tls_connection import TlsConnection

LOOK_S: Final = 0.5
"""How often handshakes are looked through for those that took too long."""
STALLED_S: Final = 1.0
"""How long a client may owe the next step where others wait. It answers within one round trip."""
LOOKED_AT: Final = 16
"""Of how many connections it is looked at once whether there is something to be read of them."""


class Outcome(NamedTuple):
    """What a step came to. `failure` None: go on, or `is_over`. `output` is to be sent."""

    is_over: bool
    output: bytes
    failure: ssl.SSLError | None = None


class Step(NamedTuple):
    """What is to be done on the thread, and for whom."""

    loop: asyncio.AbstractEventLoop
    connection: TlsConnection
    session: TlsSession
    records: bytes


class HandshakeThread:
    """Does the steps of handshakes, one after another. Its thread begins with the first and ends with the process."""

    def __init__(self) -> None:
        self._steps: dict[str, deque[Step]] = {}
        """By the group of its address, the next one first."""
        self._tokens: SimpleQueue[None] = SimpleQueue()
        """One for each step."""
        self._is_running = False
        self._lock = threading.Lock()

    def put(self, group: str, step: Step) -> None:
        """Does a step; its connection's `on_step` is called with the outcome on its loop, unless it is closed then."""
        with self._lock:
            self._steps.setdefault(group, deque()).append(step)
            if not self._is_running:
                self._is_running = True
                run = partial(contextvars.copy_context().run, self._run)
                threading.Thread(target=run, name="kavka-handshakes", daemon=True).start()
        self._tokens.put(None)

    def _take(self) -> Step:
        self._tokens.get()
        with self._lock:
            group = next(iter(self._steps))
            queue = self._steps.pop(group)
            taken = queue.popleft()
            if queue:
                self._steps[group] = queue  # behind the other addresses
            return taken

    def _run(self) -> None:
        while True:
            loop, connection, session, records = self._take()
            if connection.closed:
                del loop, connection, session, records
                continue
            outcome = step(session, records)
            with suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
                loop.call_soon_threadsafe(connection.on_step, outcome)
            del loop, connection, session, records, outcome


def step(session: TlsSession, records: bytes) -> Outcome:
    """One step of a handshake, whatever it comes to."""
    try:
        is_over, output = session.step(records)
    except ssl.SSLError as failure:
        return Outcome(False, session.outgoing.read(), failure)
    return Outcome(is_over, output)


class Handshakes:
    """The handshakes of one processor."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread: HandshakeThread, *, most: int, timeout_ms: int) -> None:
        self._loop = loop
        self._thread = thread
        self._most = most
        self._timeout_s = timeout_ms / 1000
        self._deadlines: dict[TlsConnection, float] = {}
        """Connections whose handshake is not over, the earliest deadline first."""
        self._begun: dict[TlsConnection, str] = {}
        """With the group of its address, the oldest first."""
        self._begun_of: Counter[str] = Counter()
        self._owing: dict[TlsConnection, float] = {}
        """Those whose client owes the next step, and since when: the longest first, but for those that were busy."""
        self._waiting: dict[str, deque[tuple[TlsConnection, bytes]]] = {}
        """By the group of its address, the next one first."""
        self._looking: asyncio.TimerHandle | None = None

    @property
    def under_way(self) -> int:
        """How many connections have an SSLObject and no end of their handshake."""
        return len(self._begun)

    def enter(self, connection: TlsConnection) -> None:
        """A connection was accepted."""
        self._deadlines[connection] = self._loop.time() + self._timeout_s
        if self._looking is None:
            self._looking = self._loop.call_later(min(LOOK_S, self._timeout_s), self._look)

    def go_on(self, connection: TlsConnection, records: bytes) -> None:
        """Whole records came: a step is done, at once or when it is this connection's turn."""
        if connection in self._begun:
            self._put(self._begun[connection], connection, records)
            return
        group = group_of(connection.address)
        if len(self._begun) < self._most or self._make_room(group):
            self._begin(group, connection, records)
        else:
            self._waiting.setdefault(group, deque()).append((connection, records))

    def answered(self, connection: TlsConnection, *, is_step: bool) -> None:
        """A step is done, and what it gave is sent: it is the client's turn. Where it gave nothing, it was before."""
        if connection in self._begun and (is_step or connection not in self._owing):
            self._owing.pop(connection, None)
            self._owing[connection] = self._loop.time()

    def leave(self, connection: TlsConnection) -> None:
        """The handshake is over, or the connection closed."""
        self._deadlines.pop(connection, None)
        if self._end(connection):
            self._begin_next()

    def _make_room(self, group: str) -> bool:
        """Ends a handshake of an address that has more of them under way, or a stalled one; whether there is any."""
        most_of, most = self._begun_of.most_common(1)[0]
        if most <= self._begun_of[group] + 1:
            return self._end_stalled()
        oldest = next(one for one, its_group in self._begun.items() if its_group == most_of)
        self._end(oldest)  # First: nobody who waits is to take the place.
        oldest.close()
        return True

    def _end_stalled(self) -> bool:
        """Ends the handshake that waits for its client for longest, if that is long; whether it did."""
        now = self._loop.time()
        for connection, since in list(islice(self._owing.items(), LOOKED_AT)):
            if now - since < STALLED_S:
                return False
            if not connection.is_stepping and not connection.has_unread():
                self._end(connection)
                connection.close()
                return True
            del self._owing[connection]  # Its step has come, and it is this broker that has not done or read it.
            self._owing[connection] = since
        return False

    def _end(self, connection: TlsConnection) -> bool:
        """Whether it was under way."""
        group = self._begun.pop(connection, None)
        if group is None:
            return False
        self._owing.pop(connection, None)
        self._begun_of[group] -= 1
        if not self._begun_of[group]:
            del self._begun_of[group]
        return True

    def _begin_next(self) -> None:
        while self._waiting and len(self._begun) < self._most:
            group = next(iter(self._waiting))
            queue = self._waiting.pop(group)
            connection, records = queue.popleft()
            if queue:
                self._waiting[group] = queue  # behind the other addresses
            if not connection.closed:
                self._begin(group, connection, records)

    def _begin(self, group: str, connection: TlsConnection, records: bytes) -> None:
        self._begun[connection] = group
        self._begun_of[group] += 1
        self._deadlines.pop(connection, None)
        self._deadlines[connection] = self._loop.time() + self._timeout_s
        self._put(group, connection, records)

    def _put(self, group: str, connection: TlsConnection, records: bytes) -> None:
        self._thread.put(group, Step(self._loop, connection, connection.session(), records))

    def _look(self) -> None:
        now = self._loop.time()
        while self._deadlines:
            connection, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                break
            connection.on_late()
        while self._waiting and self._begun and self._end_stalled():
            self._begin_next()
        self._looking = self._loop.call_later(min(LOOK_S, self._timeout_s), self._look) if self._deadlines else None
