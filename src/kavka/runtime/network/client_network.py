"""The network of a client: sockets, or sockets under TLS where its settings ask for it.

Decides nothing else. Loaded where a client is made; OpenSSL only where it is needed, for it costs a start 10 ms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kavka.runtime.network.network import CONNECT_TIMEOUT_S, SocketNetwork

if TYPE_CHECKING:
    from kavka.client.security import TlsSettings
    from kavka.network import Network


def client_network(tls: TlsSettings | None, *, connect_timeout_s: float = CONNECT_TIMEOUT_S) -> Network:
    """Raises ConfigError for certificates that cannot be used."""
    if tls is None:
        return SocketNetwork(connect_timeout_s=connect_timeout_s)
    from kavka.runtime.tls.tls_network import TlsNetwork

    return TlsNetwork(tls.context(), connect_timeout_s=connect_timeout_s)
