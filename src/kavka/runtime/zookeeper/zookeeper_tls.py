"""TLS of ZooKeeper's connections, both sides: certificates that may change while connections come and go.

Decides when certificates are read again: for each connection that finds other files than the one before. Must not know
what is said over the connections. Loaded only where there is TLS.

I1  A process starts only with certificates that can be used. Whatever is wrong with new ones, the old ones stay in
    force: a connection to ZooKeeper is not given up for them.
I2  The same files are judged once: one log line for each change.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING

from kavka.config.tls import VERSIONS, TlsSettings
from kavka.errors import ConfigError
from kavka.logger import Logger
from kavka.runtime.tls.tls_contexts import file_states, tls_contexts, warn_of_open_key, zookeeper_context
from kavka.runtime.tls.tls_network import TlsNetwork
from kavka.security.key_stores import StoreSettings

if TYPE_CHECKING:
    from kavka.config.zookeeper import ZooKeeperTlsSettings

logger = Logger(__name__)


class Certificates:
    """What `read` makes of some files. Raises ConfigError where they cannot be used."""

    def __init__(self, files: tuple[str, ...], read: Callable[[], ssl.SSLContext]) -> None:
        self._paths = files
        self._read = read
        self._files = file_states(files)
        self._context = read()

    def context(self) -> ssl.SSLContext:
        """What the next connection is made with."""
        files = file_states(self._paths)
        if files != self._files:
            self._files = files
            try:
                self._context = self._read()
            except ConfigError as error:
                logger.error(
                    "certificate refused",
                    why=f"new certificates of ZooKeeper's connections are refused, the old ones stay: {error}",
                    next="put a key and a chain that fit together in place; the next connection looks at them again",
                )
            else:
                logger.info("certificates of ZooKeeper's connections replaced")
        return self._context


class ZooKeeperTls(Certificates):
    """A broker's certificates towards ZooKeeper. Raises ConfigError where they cannot be used."""

    def __init__(self, settings: ZooKeeperTlsSettings) -> None:
        super().__init__(settings.files, lambda: zookeeper_context(settings))

    def network(self) -> TlsNetwork:
        """Connections that use them."""
        return TlsNetwork(self.context, resets=True)


def server_certificates(certificate: str, authority: str, *, required: bool) -> Certificates:
    """Of a server: its PEM file with key and chain, and the authorities that sign clients' certificates, which are
    `required` or may be left out. Raises ConfigError."""
    settings = TlsSettings(
        listener="zookeeper",
        key_store=StoreSettings("key", "PEM", certificate),
        trust_store=StoreSettings("trust", "PEM", authority),
        client_auth="required" if required else "requested",
        versions=frozenset(VERSIONS),
        suites=None,
        checks_host=False,
        principal_rules="DEFAULT",
        allows_other_name=True,
        allows_fewer_alternative_names=True,
    )
    return Certificates(settings.files, lambda: tls_contexts(settings, warn=warn_of_open_key).server)
