"""TLS of one listener: its certificates as they are now, and who a client's certificate says it is.

Decides which OpenSSL context new connections get, and their principals. It must not know connections.

I1  A context is never changed: new certificates are a new context, for new connections. The old one's tickets are void.
I2  A certificate that expired since its session began does not come in again with that session.
"""

from __future__ import annotations

import ssl
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kavka.config.tls import java_name
from kavka.runtime.tls.tls_connection import TlsConnection, TlsRoom
from kavka.runtime.tls.tls_handshakes import Handshakes, HandshakeThread
from kavka.security.certificates import read_certificate
from kavka.security.principals import ANONYMOUS, USER
from kavka.security.ssl_principal_rules import PrincipalRules

if TYPE_CHECKING:
    import socket

    from kavka.config.tls import HandshakeLimits, TlsSettings
    from kavka.protocol.connection import ConnectionContext
    from kavka.runtime.network.processor import Processor
    from kavka.runtime.network.socket_connection import SocketConnection


class Spoken(NamedTuple):
    """The cipher suite of a connection, by Java's name, and the version of TLS."""

    cipher: str
    protocol: str

    @property
    def tags(self) -> tuple[tuple[str, str], ...]:
        """Of a metric."""
        return tuple(self._asdict().items())

    @classmethod
    def on(cls, tls: ssl.SSLObject) -> Spoken:
        """After the handshake."""
        found = tls.cipher()
        assert found is not None, "the handshake is over"
        return cls(java_name(found[0]), tls.version() or "")


class HandshakeCounts:
    """How handshakes of one listener ended on one processor, and what the connections speak that are open."""

    __slots__ = ("failed", "open", "succeeded")

    def __init__(self) -> None:
        self.succeeded = self.failed = 0
        self.open: Counter[Spoken] = Counter()


class TlsListener:
    """TLS of one listener. `rooms` holds what the connections of each processor share, over all listeners."""

    def __init__(self, settings: TlsSettings, context: ssl.SSLContext, rooms: TlsRooms) -> None:
        self.settings = settings
        self.context = context
        self._rules = PrincipalRules(settings.principal_rules)
        self._rooms = rooms
        self._counts: dict[Processor, HandshakeCounts] = {}
        """Each is counted up on its processor's thread alone."""

    def connect(self, processor: Processor, connected: socket.socket, context: ConnectionContext) -> SocketConnection:
        """A connection of this listener."""
        return TlsConnection(processor, connected, context, self)

    def room(self, processor: Processor) -> TlsRoom:
        return self._rooms.room(processor)

    def spoken(self, tls: ssl.SSLObject) -> Spoken:
        """What a connection speaks whose handshake is over."""
        return Spoken.on(tls)

    def counts(self, processor: Processor) -> HandshakeCounts:
        """Where a processor's connections of this listener count how their handshakes ended."""
        return self._counts.setdefault(processor, HandshakeCounts())

    @property
    def succeeded(self) -> int:
        """Handshakes after which it was known who the client is."""
        return sum(each.succeeded for each in list(self._counts.values()))

    def open(self) -> Counter[Spoken]:
        """How many connections there are of each kind."""
        found: Counter[Spoken] = Counter()
        for each in list(self._counts.values()):
            found.update(dict(each.open))
        return +found

    @property
    def failed(self) -> int:
        """Those that were refused by either side, and what was no TLS."""
        return sum(each.failed for each in list(self._counts.values()))

    def principal(self, tls: ssl.SSLObject) -> str:
        """Who is at the other end. Raises ValueError where no rule fits, and for a certificate that has expired."""
        encoded = tls.getpeercert(binary_form=True)
        if encoded is None:
            return str(ANONYMOUS)
        certificate = read_certificate(encoded)
        if tls.session_reused and certificate.not_after_ms < time.time() * 1000:
            raise ValueError("the client's certificate has expired since its session began")
        if not self.settings.names_clients:
            return str(ANONYMOUS)
        return f"{USER}:{self._rules.name(certificate.subject)}"


class TlsRooms:
    """One room for each processor; all of them have their public-key work done on one thread."""

    def __init__(self, limits: HandshakeLimits) -> None:
        self._limits = limits
        self._thread = HandshakeThread()
        self._rooms: dict[Processor, TlsRoom] = {}

    def room(self, processor: Processor) -> TlsRoom:
        room = self._rooms.get(processor)
        if room is None:
            room = self._rooms[processor] = TlsRoom(
                Handshakes(processor.loop, self._thread, most=self._limits.most, timeout_ms=self._limits.timeout_ms)
            )
        return room
