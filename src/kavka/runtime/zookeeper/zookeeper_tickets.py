"""ZooKeeperTickets: how a broker logs in on ZooKeeper with Kerberos.

A flow between Kerberos' library, which may ask a KDC and blocks, and the session with ZooKeeper, which must not wait:
each call is carried out on a thread of its own. Loaded only where a broker has such a login.

    I1  every connection begins with an exchange of its own; the library gets new tickets with a keytab by itself
    I2  the session does not wait longer than for its connection, though the library may; a call whose caller is gone is
        not begun

Source: ZooKeeper's ZooKeeperSaslClient, SaslServerPrincipal and SecurityUtils.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kavka.errors import RequestError
from kavka.security.digest_md5 import SaslFailed
from kavka.security.kerberos_library import require_library
from kavka.security.kerberos_tickets import Tickets

if TYPE_CHECKING:
    from kavka.security.kerberos_login import KerberosLogin


class ZooKeeperTickets:
    """The login of one broker (`client_session.ZooKeeperLogin`). Raises ConfigError without Kerberos' library."""

    def __init__(self, login: KerberosLogin) -> None:
        require_library("a login on ZooKeeper with GSSAPI")
        self.username = login.principal or "(that of the ticket cache)"
        self._tickets = Tickets(login)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kavka-zookeeper-tickets")

    async def log_in(self, host: str, ask: Callable[[bytes], Awaitable[bytes]]) -> None:
        """One exchange with the server at `host`. Raises SaslFailed, ConnectionFailed."""
        exchange, answer = self._tickets.exchange(host), None
        try:
            while (token := await self._beside(exchange, answer)) is not None:
                answer = await ask(token)
        except RequestError as refused:
            raise SaslFailed(str(refused)) from refused

    async def _beside(self, exchange: Generator[bytes, bytes, None], answer: bytes | None) -> bytes | None:
        """The next token; None where there is none any more."""

        def step() -> bytes | None:
            try:
                return next(exchange) if answer is None else exchange.send(answer)
            except StopIteration:
                return None

        return await asyncio.get_running_loop().run_in_executor(self._thread, step)
