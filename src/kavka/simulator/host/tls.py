"""TLS in a simulation: a port whose connections show certificates before anything else is sent on them.

Decides whether the two ends of a connection believe each other. Nothing is encrypted: a certificate is a value, and
nobody reads what is under way. It must not know what the frames say that pass it.

    connect - "hello", with the caller's certificate if it has one - the other side's certificate - the frames

    I1  no frame is sent before the caller has believed the other side; a connection that it did not believe is closed,
        and nobody has it
    I2  a certificate is believed if its issuer is trusted, its time is not over by the clock of who looks, and, towards
        whoever is called, the name that was called is among its names
    I3  where clients must show certificates, nobody without a good one is let in; where they may, a bad one is refused
    I4  bytes that are no hello end the connection without an answer

Source: RFC 5280 and RFC 9525 for what is checked; Kafka's SslTransportLayer for ssl.client.auth.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from kavka.errors import ConnectionFailed

if TYPE_CHECKING:
    from kavka.network import Network
    from kavka.simulator.host.network import Endpoint, NodeNetwork

HELLO: Final = b"\x16\x03\x01"
"""How a TLS record begins."""
HANDSHAKE_TIMEOUT_S: Final = 10.0
AUTHORITY: Final = "ca"
FOR_EVER_MS: Final = 2**62


@dataclass(frozen=True, slots=True)
class Certificate:
    """`subject` is a distinguished name, `names` are the hosts that it is good for."""

    subject: str
    names: tuple[str, ...] = ()
    issuer: str = AUTHORITY
    expires_ms: int = FOR_EVER_MS

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @staticmethod
    def decode(text: bytes) -> Certificate:
        values = json.loads(text)
        return Certificate(values["subject"], tuple(values["names"]), values["issuer"], values["expires_ms"])


@dataclass(slots=True)
class TlsIdentity:
    """What one node shows and believes. It may change: new connections go by what it is then."""

    certificate: Certificate | None = None
    trusted: frozenset[str] = field(default=frozenset({AUTHORITY}))

    def refusal(self, shown: Certificate, now_ms: int, called: str | None = None) -> str | None:
        """Why a certificate is not believed; None: it is. `called`: the name of the host that was called."""
        if shown.issuer not in self.trusted:
            return f"the certificate's issuer {shown.issuer} is not trusted"
        if shown.expires_ms <= now_ms:
            return f"the certificate expired at {shown.expires_ms} ms"
        if called is not None and called not in shown.names:
            return f"the certificate is for {', '.join(shown.names)}, not for {called}"
        return None


class TlsNetwork:
    """The Network port of one process, over another one."""

    def __init__(self, network: NodeNetwork | Network, identity: TlsIdentity, wall_ms: Callable[[], int]) -> None:
        self._network = network
        self._identity = identity
        self._wall_ms = wall_ms

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> Endpoint:
        """Connects without checking who answers. Raises ConnectionFailed."""
        connection: Endpoint = await self._network.connect(host, port, max_frame_bytes=max_frame_bytes)  # type: ignore[assignment]
        own = self._identity.certificate
        try:
            connection.send_frame((HELLO, b"" if own is None else own.encode()))
            async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
                answer = await connection.receive_frame()
        except TimeoutError as late:
            connection.close()
            raise ConnectionFailed(f"{host}:{port} did not finish the TLS handshake") from late
        except BaseException:
            connection.close()
            raise
        if not answer.startswith(HELLO):
            connection.close()
            raise ConnectionFailed(f"{host}:{port} does not speak TLS")
        refusal = self._identity.refusal(Certificate.decode(answer[len(HELLO) :]), self._wall_ms(), host)
        if refusal is not None:
            connection.close()
            raise ConnectionFailed(f"{host}:{port}: {refusal}")
        return connection


class TlsAcceptor:
    """The side of who is called. `client_auth` is ssl.client.auth."""

    def __init__(self, identity: TlsIdentity, wall_ms: Callable[[], int], client_auth: str) -> None:
        self._identity = identity
        self._wall_ms = wall_ms
        self._client_auth = client_auth

    async def accept(self, connection: Endpoint) -> str | None:
        """The subject that the client has proved; None without one. Raises ConnectionFailed if it is not let in."""
        hello = await connection.receive_frame()
        own = self._identity.certificate
        if not hello.startswith(HELLO) or own is None:
            raise ConnectionFailed("no TLS")
        shown = hello[len(HELLO) :]
        subject = None
        if self._client_auth != "none":
            if shown:
                certificate = Certificate.decode(shown)
                refusal = self._identity.refusal(certificate, self._wall_ms())
                if refusal is not None:
                    raise ConnectionFailed(refusal)
                subject = certificate.subject
            elif self._client_auth == "required":
                raise ConnectionFailed("no certificate")
        connection.send_frame((HELLO, own.encode()))
        return subject
