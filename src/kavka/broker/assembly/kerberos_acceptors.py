"""KerberosAcceptors: the listeners with GSSAPI, each with its keytab, and the thread that checks tickets.

Loaded only where a listener has the mechanism. To check a ticket reads the keytab, and writes the ticket down in the
library's replay cache, with an fsync: nothing for the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kavka.logger import Logger
from kavka.security.gssapi import GssapiServer
from kavka.security.kerberos_library import acceptor, default_realm, require_library
from kavka.security.kerberos_names import ShortNames
from kavka.security.sasl import ServerExchange

if TYPE_CHECKING:
    from kavka.config.kerberos import KerberosSettings

logger = Logger(__name__)


class KerberosAcceptors:
    """`taken` says whose tickets count, by listener. Reads each keytab once, so that a broker without keys does not
    start. Raises ConfigError."""

    def __init__(self, taken: Mapping[str, KerberosSettings]) -> None:
        require_library(f"listener {', '.join(taken)} enables GSSAPI, which")
        realm = default_realm()
        if not realm:
            logger.warning(
                "this machine has no Kerberos realm of its own: the rule DEFAULT fits nobody",
                next_step="set default_realm in krb5.conf",
            )
        self._exchanges = {listener: _exchanges(settings, realm) for listener, settings in taken.items()}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kavka-kerberos")

    def exchange(self, listener: str) -> ServerExchange:
        """A new exchange on a listener."""
        return self._exchanges[listener]()

    async def beside(self, work: Callable[[], None]) -> None:
        """Carries out `work` on the thread."""
        await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _exchanges(settings: KerberosSettings, realm: str) -> Callable[[], ServerExchange]:
    short_names = ShortNames(settings.rules, realm)
    new_context = acceptor(settings.keytab, settings.principal)
    return lambda: GssapiServer(new_context, short_names.of)
