"""The broker's authentication by SASL, both ways: of its clients, and of itself towards the other brokers.

Nothing of it is imported on brokers without a listener that authenticates by SASL.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.broker.authentication.credential_store import CredentialStore
from kavka.broker.authentication.failed_authentications import Failures
from kavka.broker.authentication.sasl_gate import GatePorts, Gates
from kavka.config.sasl import SaslListener, open_secrets, own_login, sasl_listeners
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.protocol.sasl_network import SaslNetwork
from kavka.security.failed_login_delay import Guessing
from kavka.security.gssapi import MECHANISM as GSSAPI
from kavka.security.oauthbearer import MECHANISM as OAUTHBEARER
from kavka.security.plain import MECHANISM as PLAIN
from kavka.security.plain import PlainServer, client_token
from kavka.security.sasl import ServerExchange
from kavka.security.scram_credentials import MECHANISMS
from kavka.security.scram_exchange import ScramServer, TokenLogins, client_exchange

if TYPE_CHECKING:
    from kavka.broker.assembly.kerberos_acceptors import KerberosAcceptors
    from kavka.broker.assembly.oauthbearer_verifiers import TokenVerifiers
    from kavka.broker.assembly.ports import Fetch, Ports
    from kavka.config.broker import BrokerConfig
    from kavka.decisions import RecordDecision
    from kavka.network import Network
    from kavka.security.secret import Secret
    from kavka.zookeeper.port import ZooKeeper

logger = Logger(__name__)

NONCE_BYTES: Final = 24


class AuthenticationPorts(NamedTuple):
    """What the broker gives its authentication. `secret_bytes` draws what nobody may guess; `run_blocking` computes
    something on another thread."""

    zookeeper: ZooKeeper
    wall_ms: Callable[[], int]
    spawn: Callable[[Coroutine[None, None, None]], None]
    record: RecordDecision
    secret_bytes: Callable[[int], bytes]
    fetch: Fetch
    run_blocking: Callable[[Callable[[], None]], Awaitable[None]]


class Authentication(NamedTuple):
    """`store` is None if no listener has a mechanism of SCRAM, `tokens` where none has OAUTHBEARER, `kerberos` where
    none has GSSAPI."""

    gates: Gates
    store: CredentialStore | None
    tokens: TokenVerifiers | None
    kerberos: KerberosAcceptors | None

    async def start(self) -> None:
        """Reads what is needed before clients may come."""
        if self.store is not None:
            await self.store.start()
        if self.tokens is not None:
            await self.tokens.start()

    def close(self) -> None:
        """Ends the threads."""
        if self.tokens is not None:
            self.tokens.close()
        if self.kerberos is not None:
            self.kerberos.close()


def new_authentication(
    config: BrokerConfig, ports: AuthenticationPorts, delegation: TokenLogins | None
) -> Authentication:
    """The gates that the settings ask for. `delegation`: None without delegation tokens. Raises ConfigError."""
    listeners = sasl_listeners(config)
    for endpoint, mechanism in open_secrets(config):
        secrets = "passwords" if mechanism == PLAIN else "tokens"
        logger.warning(
            f"{secrets} cross the network in clear: {mechanism} without TLS",
            listener=endpoint,
            next_step="use SASL_SSL, or a mechanism of SCRAM",
        )
    store: CredentialStore | None = None
    if any(mechanism in MECHANISMS for listener in listeners.values() for mechanism in listener.mechanisms):
        store = CredentialStore(ports.zookeeper, spawn=ports.spawn, randbytes=ports.secret_bytes)

    kerberos = _kerberos(listeners)
    tokens = _tokens(listeners, ports)
    beside = _one_at_a_time(ports.run_blocking)
    if kerberos is not None:
        beside = kerberos.beside
    elif tokens is not None:
        beside = tokens.beside

    def exchange(listener: SaslListener, name: str) -> ServerExchange:
        if name == PLAIN:
            return PlainServer(listener.users)
        if name == OAUTHBEARER:
            assert tokens is not None, "there are verifiers where a listener has the mechanism"
            return tokens.exchange(listener.listener)
        if name == GSSAPI:
            assert kerberos is not None, "there are acceptors where a listener has the mechanism"
            return kerberos.exchange(listener.listener)
        assert store is not None, "there is one where a listener has SCRAM"
        mechanism, find = MECHANISMS[name], store.find
        return ScramServer(mechanism, lambda user: find(mechanism, user), new_nonce(ports.secret_bytes), delegation)

    return Authentication(
        Gates(
            listeners,
            GatePorts(
                asyncio.get_running_loop(),
                Failures(BrokerId(config.broker_id), ports.record, wall_ms=ports.wall_ms),
                exchange,
                config.connection_failed_authentication_delay_ms,
                config.sasl_server_max_receive_size,
                Guessing(config.kavka_authentication_free_failures, config.kavka_authentication_max_delay_ms),
                _unhurried(config),
                beside,
            ),
        ),
        store,
        tokens,
        kerberos,
    )


def _one_at_a_time(
    run: Callable[[Callable[[], None]], Awaitable[None]],
) -> Callable[[Callable[[], None]], Awaitable[None]]:
    """However many ids of delegation tokens are guessed at once, files are written on those threads, too."""
    turn = asyncio.Lock()

    async def beside(work: Callable[[], None]) -> None:
        async with turn:
            await run(work)

    return beside


def _kerberos(listeners: Mapping[str, SaslListener]) -> KerberosAcceptors | None:
    taken = {name: listener.kerberos for name, listener in listeners.items() if listener.kerberos is not None}
    if not taken:
        return None
    # Late: few brokers take tickets.
    from kavka.broker.assembly.kerberos_acceptors import KerberosAcceptors

    return KerberosAcceptors(taken)


def _tokens(listeners: Mapping[str, SaslListener], ports: AuthenticationPorts) -> TokenVerifiers | None:
    believed = {name: listener.tokens for name, listener in listeners.items() if listener.tokens is not None}
    if not believed:
        return None
    # Late: few brokers take tokens.
    from kavka.broker.assembly.oauthbearer_verifiers import TokenVerifiers

    return TokenVerifiers(believed, fetch=ports.fetch, wall_ms=ports.wall_ms, spawn=ports.spawn)


def _unhurried(config: BrokerConfig) -> frozenset[str]:
    """The brokers' own listeners, where clients have another: whatever is guessed, no broker waits."""
    own = {config.inter_broker_listener, config.control_plane_listener or config.inter_broker_listener}
    return frozenset(own) if {endpoint.listener for endpoint in config.listener_endpoints} - own else frozenset()


def logging_in(network: Network, config: BrokerConfig, listener: str, ports: Ports) -> SaslNetwork:
    """The network over which this broker reaches the others' listener of that name, which authenticates by SASL. Raises
    ConfigError."""
    login, client_id = own_login(config, listener), str(config.broker_id)
    if login.mechanism == OAUTHBEARER:
        from kavka.broker.assembly.own_oauthbearer_token import OwnToken  # late: few brokers have one

        token = OwnToken(ports.own_tokens(login.tokens), ports.run_blocking)
        return SaslNetwork(network, OAUTHBEARER, token.exchange, client_id=client_id, prepare=token.prepare)
    if login.kerberos is not None:
        from kavka.broker.assembly.own_kerberos_tickets import OwnTickets  # late: few brokers have them

        tickets = OwnTickets(login.kerberos)
        return SaslNetwork(
            network, GSSAPI, tickets.exchange, client_id=client_id, prepare=tickets.prepare, beside=tickets.beside
        )
    user, password = login.username or "", login.password

    def exchange(_host: str) -> Generator[bytes, bytes, None]:
        if login.mechanism == PLAIN:
            return _plain(user, password)
        return client_exchange(MECHANISMS[login.mechanism], user, password.reveal(), new_nonce(ports.secret_bytes))

    return SaslNetwork(network, login.mechanism, exchange, client_id=client_id)


def _plain(user: str, password: Secret) -> Generator[bytes, bytes, None]:
    yield client_token(user, password.reveal())


def new_nonce(secret_bytes: Callable[[int], bytes]) -> str:
    """Fresh, printable, and without a comma."""
    return b64encode(secret_bytes(NONCE_BYTES)).decode()
