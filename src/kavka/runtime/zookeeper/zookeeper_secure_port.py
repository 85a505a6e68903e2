"""SecurePort: a port of ZooKeeper's protocol under TLS, where clients show certificates.

Decides who may begin a handshake, how many may, and what a failed one leaves behind: a log line, a few of each kind in
a minute. It must not know what is said once the handshake is over.

I1  At most MOST_HANDSHAKES are under way, each for HANDSHAKE_S at most. Where all are taken, who comes from an address
    with fewer of them takes the place of the oldest of the address with most; where none has more, that of the oldest
    if it has had STALLED_S. So half-open handshakes keep nobody else out. Addresses of one IPv6 network of 64 bits are
    one.
I2  No handshake is begun for a host that has its share of connections, those in handshakes counted.
I3  Who a client is, its certificate says, after OpenSSL has verified its chain. Where its subject cannot be read, the
    connection is closed.

Source: ZooKeeper's NettyServerCnxnFactory and X509AuthenticationProvider: scheme x509, the subject as Java prints it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.runtime.network.connection_log import ConnectionLog
from kavka.runtime.tls.tls_connection import failure_text
from kavka.security.certificates import subject
from kavka.security.der import MalformedDer
from kavka.security.failed_login_delay import group_of
from kavka.zookeeper.decide.access_control import Identity

if TYPE_CHECKING:
    from kavka.runtime.zookeeper.zookeeper_tls import Certificates

MOST_HANDSHAKES: Final = 100
HANDSHAKE_S: Final = 10.0
STALLED_S: Final = 1.0
"""How long a handshake has its place for sure."""
LOOK_S: Final = 0.05
"""How often it is looked whether a place is free, where none could be made."""
SHUTDOWN_S: Final = 2.0
"""How long the goodbye of a client is waited for."""
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "UNEXPECTED_MESSAGE"})


class _Shaking(NamedTuple):
    """A handshake that is under way."""

    host: str
    group: str
    began_s: float


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, tuple[Identity, ...]], Awaitable[None]]


class SecurePort:
    """Hands connections to `serve` whose handshake is over; `has_room` says whether a host may have one more than so
    many."""

    def __init__(
        self,
        listening: socket.socket,
        certificates: Certificates,
        serve: Serve,
        *,
        has_room: Callable[[str, int], bool],
        read_bytes: int,
    ) -> None:
        self._listening = listening
        self._certificates = certificates
        self._serve = serve
        self._has_room = has_room
        self._read_bytes = read_bytes
        self._log = ConnectionLog()
        self._begun: Counter[str] = Counter()
        self._shaking: dict[asyncio.Task[None], _Shaking] = {}
        """The oldest first."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    @property
    def handshakes(self) -> int:
        """Under way at this moment."""
        return self._begun.total()

    async def close(self) -> None:
        """Accepts no more, and ends the handshakes. Connections are the server's to end."""
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        self._listening.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connected, address = await loop.sock_accept(self._listening)
            except OSError as error:
                # No descriptor is free, or the client has gone already: it must not end the port.
                self._log.warning("connection not accepted", why=error.strerror or str(error))
                await asyncio.sleep(0.1)
                continue
            host = address[0]
            if not self._has_room(host, self._begun[host]):
                connected.close()
                self._log.warning("connection refused", host=host, why="this host has too many connections")
                continue
            group = group_of(host)
            while (  # noqa: ASYNC110  # the oldest is known, and when it gives way
                len(self._shaking) >= MOST_HANDSHAKES and not self._make_room(group, loop.time())
            ):
                await asyncio.sleep(LOOK_S)
            self._begun[host] += 1
            task = loop.create_task(self._shake(connected, host))
            self._shaking[task] = _Shaking(host, group, loop.time())
            self._tasks.add(task)
            task.add_done_callback(self._on_done)
            await asyncio.sleep(0)  # So that it has begun, and closes its socket, before it may have to give way.

    def _make_room(self, group: str, now_s: float) -> bool:
        """Ends a handshake for one of `group`; whether there is one that has to give way."""
        groups = Counter(each.group for each in self._shaking.values())
        most_of, most = groups.most_common(1)[0]
        oldest = next(iter(self._shaking))
        if most > groups[group] + 1:
            oldest = next(task for task, each in self._shaking.items() if each.group == most_of)
        elif now_s - self._shaking[oldest].began_s < STALLED_S:
            return False
        self._log.warning("TLS handshake ended", host=self._shaking[oldest].host, why="others wait for its place")
        self._leave(oldest)
        oldest.cancel()
        return True

    def _leave(self, task: asyncio.Task[None]) -> None:
        """Its handshake is over, whatever came of it."""
        left = self._shaking.pop(task, None)
        if left is None:
            return
        self._begun[left.host] -= 1
        if not self._begun[left.host]:
            del self._begun[left.host]

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            task.get_loop().call_exception_handler({"message": "a ZooKeeper connection failed", "exception": bug})

    async def _shake(self, connected: socket.socket, host: str) -> None:
        me = asyncio.current_task()
        assert me is not None, "_accept makes a task of it"
        try:
            opened = await self._open(connected, host)
        finally:
            self._leave(me)
        if opened is not None:
            await self._serve(*opened)

    async def _open(
        self, connected: socket.socket, host: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, tuple[Identity, ...]] | None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=self._read_bytes)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol,
                connected,
                ssl=self._certificates.context(),
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=SHUTDOWN_S,
            )
        except (OSError, TimeoutError) as error:
            connected.close()
            self._log.warning("TLS handshake failed", host=host, why=_words(error))
            return None
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        try:
            identities = () if encoded is None else (Identity("x509", subject(encoded)),)
        except (MalformedDer, ValueError) as error:
            transport.abort()
            self._log.warning("TLS handshake failed", host=host, why=f"the client's certificate: {error}")
            return None
        return reader, writer, identities


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "no TLS: does the client have zookeeper.ssl.client.enable=true?"
    return failure_text(error) or f"not over in {HANDSHAKE_S:.0f} s, or the client closed the connection"
