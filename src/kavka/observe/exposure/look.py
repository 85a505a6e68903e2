"""The look: every door of one listener is tried, in bounded time, and what was seen is put together.

Decides the order, and what follows from what: nothing is asked of a listener that is known to refuse it. Must
not judge.

I1  A step that fails leaves its question open, with the reason, and the others go on.
I2  The whole takes at most `timeout_s`; what did not get its turn is an open question, too.
I3  Over TLS the caller's password and certificate go only to a broker whose certificate is believed; without TLS no
    password is sent as it is (PLAIN).
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from kavka.client.login import ClientLogin
from kavka.client.security import SaslMechanism, TlsSettings
from kavka.errors import KavkaError
from kavka.network import Network
from kavka.observe.exposure.beside_look import look_at_metrics, look_at_zookeeper
from kavka.observe.exposure.broker_look import (
    Asked,
    answers_before_login,
    look_at_broker,
    look_at_login,
    well_known_users,
)
from kavka.observe.exposure.sightings import ClientAuth, Sightings, Unseen
from kavka.observe.exposure.tls_look import lenient, look_at_tls, open_context, speaks_tls
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.tls.tls_network import TlsNetwork

DEFAULT_TIMEOUT_S: Final = 60.0
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is looked at, and with what."""

    host: str
    port: int
    authorities: str | None = None
    """A PEM file: who is believed. None: whom `login` believes, else whom the machine does."""
    login: ClientLogin = field(default_factory=ClientLogin)
    """Who the caller is."""
    zookeeper: str = ""
    metrics: str = ""
    tries_passwords: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def tls(self) -> TlsSettings:
        """How the caller meets a listener with TLS."""
        tls = self.login.tls or TlsSettings()
        return tls if self.authorities is None else replace(tls, authorities=self.authorities)

    @property
    def has_certificate(self) -> bool:
        return self.tls.certificate is not None

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


async def look(wanted: Wanted) -> Sightings:
    """Everything that can be seen. Raises ConfigError for files of the caller's that cannot be read."""
    return await _Look(wanted).all()


@dataclass(slots=True)
class _Look:
    wanted: Wanted
    seen: Sightings = field(init=False)
    _ends_s: float = field(init=False)
    _own: ssl.SSLContext = field(init=False)
    """The caller's, as its own clients would have it."""

    def __post_init__(self) -> None:
        wanted = self.wanted
        self.seen = Sightings(wanted.address, time.time_ns() // 1_000_000)
        self._ends_s = time.monotonic() + wanted.timeout_s
        self._own = wanted.tls.context()

    async def all(self) -> Sightings:
        wanted = self.wanted
        is_tls = await self._step("the listener", speaks_tls(wanted.host, wanted.port))
        if is_tls is not None:
            self.seen = replace(self.seen, is_tls=is_tls)
            if is_tls:
                tls = await self._step("TLS", look_at_tls(wanted.host, wanted.port, lenient(wanted.tls)))
                self.seen = replace(self.seen, tls=tls)
                self._check_tls()
            await self._login()
        if wanted.zookeeper:
            zookeeper = await self._step("ZooKeeper", look_at_zookeeper(SocketNetwork(), wanted.zookeeper))
            self.seen = replace(self.seen, zookeeper=() if zookeeper is None else (zookeeper,))
        else:
            self._leave("ZooKeeper", "name its address with --zookeeper")
        await self._metrics()
        return self.seen

    def _check_tls(self) -> None:
        """What of TLS stayed open. Where nothing was agreed on, this look does not know the listener's TLS."""
        tls = self.seen.tls
        if tls is None:
            return
        if not tls.suites:
            self._leave("TLS suites", "no version and suite in common", is_failure=True)
        if tls.distrust is None:
            self._leave("the certificate", "no handshake came to an end", is_failure=True)
        if tls.client_auth is None:
            self._leave("certificates of clients", "no handshake came to an end", is_failure=True)

    async def _login(self) -> None:
        wanted, tls = self.wanted, self.seen.tls
        needs_certificate = tls is not None and tls.client_auth is ClientAuth.REQUIRED
        if needs_certificate and not wanted.has_certificate:
            self._leave("what clients may do", "the listener wants a certificate: --client-config names one")
            return
        anybody = self._asked(as_known=needs_certificate)
        login = await self._step("mechanisms of SASL", look_at_login(anybody))
        if login is None:
            return
        self.seen = replace(self.seen, mechanisms=login.mechanisms, is_kraft=login.is_kraft)
        if login.mechanisms:
            let_in = await self._step("requests before a login", answers_before_login(anybody))
            self.seen = replace(self.seen, answers_before_login=bool(let_in))
            if wanted.tries_passwords:
                users = await self._step("well-known passwords", well_known_users(anybody, login.mechanisms))
                self.seen = replace(self.seen, passwords=tuple(users or ()))
            else:
                self._leave("well-known passwords", "not tried: --try-passwords does")
        elif not needs_certificate:
            anonymous = await self._step("what anybody may do", look_at_broker(anybody))
            self.seen = replace(self.seen, anonymous=anonymous)
        await self._inside(login.mechanisms)

    async def _inside(self, mechanisms: tuple[str, ...]) -> None:
        """What the caller is told where it can say who it is."""
        wanted, question = self.wanted, "what the named client is told"
        sasl = wanted.login.sasl
        if mechanisms and sasl is None:
            self._leave("access control lists and settings", "--client-config with a login has them looked at")
        elif sasl is not None and not mechanisms:
            self._leave(question, "the listener has no SASL to log in with", is_failure=True)
        elif sasl is not None and sasl.mechanism is SaslMechanism.PLAIN and not self.seen.is_tls:
            self._leave(question, "PLAIN would show the password to the network", is_failure=True)
        elif sasl is not None or (self.seen.is_tls and wanted.has_certificate):
            known = await self._step(question, look_at_broker(self._asked(), sasl))
            self.seen = replace(self.seen, known=known)

    async def _metrics(self) -> None:
        if not self.wanted.metrics:
            self._leave("metrics", "name their address with --metrics")
            return
        found = await self._step("metrics", look_at_metrics(self.wanted.metrics))
        self.seen = replace(self.seen, metrics=() if found is None else (found,))

    def _asked(self, *, as_known: bool = True) -> Asked:
        """How the listener is asked: as the client that the caller named, or as anybody."""
        network: Network = SocketNetwork()
        if self.seen.is_tls:
            network = TlsNetwork(self._own if as_known else open_context())
        return Asked(network, self.wanted.host, self.wanted.port)

    async def _step(self, question: str, work: Awaitable[Result]) -> Result | None:
        """The answer; None where there is none, which is noted."""
        left_s = max(self._ends_s - time.monotonic(), 0.001)
        try:
            return await asyncio.wait_for(work, left_s)
        except (TimeoutError, ssl.SSLError, OSError) as problem:
            self._leave(question, str(problem) or f"no answer within {self.wanted.timeout_s:.0f} s", is_failure=True)
        except KavkaError as problem:
            self._leave(question, str(problem), is_failure=True)
        return None

    def _leave(self, question: str, why: str, *, is_failure: bool = False) -> None:
        self.seen = replace(self.seen, unseen=(*self.seen.unseen, Unseen(question, why, is_failure)))
