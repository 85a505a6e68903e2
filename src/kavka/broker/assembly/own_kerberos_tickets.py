"""OwnTickets: how this broker logs in on the others with Kerberos (GSSAPI), and who it is to them.

A flow between Kerberos' library, which may ask a KDC and blocks, and the logins, which must not wait: each call is
carried out on one thread, which is not that of the tickets of clients (`kerberos_acceptors`): these are checked while
no KDC answers. Loaded only where brokers log in on each other with GSSAPI.

    I1  nobody waits longer than PATIENCE_S, though the library may; a call whose caller is gone is not begun

Source: Kafka's LoginManager, KerberosLogin, SaslClientAuthenticator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from kavka.errors import ConfigError, ConnectionFailed, RequestError
from kavka.security.kerberos_library import default_realm, require_library
from kavka.security.kerberos_login import KerberosLogin
from kavka.security.kerberos_names import KerberosName, NoShortName, ShortNames
from kavka.security.kerberos_tickets import Tickets
from kavka.security.principals import USER, Principal

if TYPE_CHECKING:
    from kavka.config.kerberos import KerberosSettings

PATIENCE_S: Final = 10.0


class OwnTickets:
    """Raises ConfigError without Kerberos' library."""

    def __init__(self, own: KerberosSettings) -> None:
        require_library("brokers that log in on each other with GSSAPI")
        self._tickets = Tickets(KerberosLogin(own.service_name, own.principal, own.keytab))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kavka-own-tickets")

    async def prepare(self) -> None:
        """Sees to it that there is a ticket. Raises ConnectionFailed."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self.beside(self._tickets.prepare)
        except RequestError as refused:
            raise ConnectionFailed(f"this broker has no ticket to log in with: {refused}") from refused
        except TimeoutError as late:
            raise ConnectionFailed(
                f"this broker has no ticket to log in with: no KDC answered within {PATIENCE_S} s; see krb5.conf"
            ) from late

    async def beside(self, work: Callable[[], None]) -> None:
        """Carries out `work` on the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def exchange(self, host: str) -> Generator[bytes, bytes, None]:
        """The client's side of one login, whose steps may take long. Raises ValueError."""
        try:
            yield from self._tickets.exchange(host)
        except (RequestError, ConnectionFailed) as failure:
            raise ValueError(str(failure)) from failure


def own_name(own: KerberosSettings) -> Principal:
    """Who this broker is to others that have the same rules. Raises ConfigError."""
    require_library("brokers that log in on each other with GSSAPI")
    realm = default_realm()
    principal = own.principal if "@" in own.principal else f"{own.principal}@{realm}"
    try:
        return Principal(USER, ShortNames(own.rules, realm).of(KerberosName.parse(principal)))
    except NoShortName as unnamed:
        raise ConfigError(
            f"no rule of sasl.kerberos.principal.to.local.rules makes a name of {principal}, which the brokers log in "
            f"on each other as: {unnamed}"
        ) from unnamed
