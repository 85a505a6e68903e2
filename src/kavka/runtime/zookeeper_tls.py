"""TLS towards ZooKeeper: the network on which its servers are called, with certificates that may change.

Decides when certificates are read again: for each connection that finds other files than the one before. Must not know
what is said to ZooKeeper. Loaded only where a broker calls ZooKeeper with TLS.

I1  A broker starts only with certificates that can be used. Whatever is wrong with new ones, the old ones stay in
    force: a connection to ZooKeeper is not given up for them.
I2  The same files are judged once: one log line for each change.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from kavka.errors import ConfigError
from kavka.logger import Logger
from kavka.runtime.tls_contexts import file_states, zookeeper_context
from kavka.runtime.tls_network import TlsNetwork

if TYPE_CHECKING:
    from kavka.config.zookeeper import ZooKeeperTlsSettings

logger = Logger(__name__)


class ZooKeeperTls:
    """The certificates towards ZooKeeper. Raises ConfigError where they cannot be used."""

    def __init__(self, settings: ZooKeeperTlsSettings) -> None:
        self._settings = settings
        self._files = file_states(settings.files)
        self._context = zookeeper_context(settings)

    def network(self) -> TlsNetwork:
        """Connections that use them."""
        return TlsNetwork(self.context, resets=True)

    def context(self) -> ssl.SSLContext:
        """What the next connection is made with."""
        files = file_states(self._settings.files)
        if files != self._files:
            self._files = files
            try:
                self._context = zookeeper_context(self._settings)
            except ConfigError as error:
                logger.error(
                    "certificate refused",
                    why=f"new certificates towards ZooKeeper are refused, the old ones stay in force: {error}",
                    next="put a key and a chain that fit together in place; the next connection looks at them again",
                )
            else:
                logger.info("certificates towards ZooKeeper replaced")
        return self._context
