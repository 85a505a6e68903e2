"""SecureCluster: a `Cluster` that lets in only who can prove who he is, and lets him do only what he may.

Decides which listeners there are, who its users are, and when a user or a right is in force. Its settings and files are
those of `kavka up --secure` (runtime.secured_listeners, runtime.security_directory).

    SASL_SSL   for clients with a password: SCRAM-SHA-512 or SCRAM-SHA-256; `bootstrap_servers`, `address`
    MTLS       SSL for clients with a certificate: what `client_config(user, mechanism="SSL")` gives
    BROKERS    SSL with certificates, between brokers

All faults of a `Cluster` work here too: a cut holds frames back above TLS. ZooKeeper's port is open to this machine, as
a plain cluster's is: tests ask it, and it is not what is secured here.

I1  When a method that changes users or rights returns, every running broker goes by the change.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kavka.client.acl_admin import AclAdmin
from kavka.client.cluster import Cluster as ClientCluster
from kavka.client.login_files import Credentials
from kavka.client.security import SaslMechanism, SaslSettings, TlsSettings
from kavka.client.user_admin import UserAdmin
from kavka.errors import ConfigError
from kavka.runtime.tls.first_user import store_first_user
from kavka.runtime.tls.secured_listeners import BROKERS, by_certificate, by_password, secured_broker
from kavka.runtime.tls.security_directory import (
    ADMIN,
    TRUSTED,
    SecurityDirectory,
    credentials_of,
    new_password,
    write_private,
)
from kavka.security.acls import Binding
from kavka.security.right_words import rights
from kavka.security.scram_credentials import DEFAULT_ITERATIONS, MECHANISMS, ScramMechanism, credential_of, salted
from kavka.security.secret import Secret
from kavka.testing.client_settings import LoginFiles, settings_for
from kavka.testing.cluster import HOST, TIMEOUT_S, Cluster, Value
from kavka.testing.topics import as_client

if TYPE_CHECKING:
    from kavka.client.login import ClientLogin
    from kavka.runtime.server import Server
    from kavka.testing.async_cluster import AsyncSecureCluster

PASSWORDS: Final = "SASL_SSL"
CERTIFICATES: Final = "MTLS"
SSL: Final = "SSL"
"""What `client_config` calls the way in with a certificate."""
DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"


class SecureCluster(Cluster):
    """A cluster with TLS, users and access control lists. `admin` may do everything.

    brokers, settings, directory: as of `Cluster`. Needs kavka's extra `security`, which makes certificates.
    """

    _ports_each = 3

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, Value] | None = None,
        directory: str | Path | None = None,
    ) -> None:
        super().__init__(brokers, settings=settings, directory=directory)
        own = self._listener_settings(SecurityDirectory(""), 1, [0, 0, 0])
        if taken := sorted(own.keys() & (settings or {}).keys()):
            raise ConfigError(f"{taken[0]} is set by the cluster itself")
        self._passwords: dict[str, Secret] = {}

    # -- users and rights

    def add_user(
        self,
        name: str,
        password: str | None = None,
        *,
        allow: Iterable[str | Binding] = (),
        groups: Iterable[str] = (),
    ) -> str:
        """Adds a user, or gives one another password or more rights. Returns the password: a random one if none is
        given.

        allow: "read:orders", "write:orders-*" (a prefix), "all:*"; the words are read, write, create, delete, alter,
        describe and all, each of topics. For other resources: `kavka.security.acls.Binding`. groups: groups to consume
        with. Raises ValueError for what is no right, KavkaError, and TimeoutError where a running broker does not hear
        of it.
        """
        if name == ADMIN:
            raise ValueError(f"{ADMIN} is the administrator's name: choose another one")
        words = list(allow)
        wanted = rights(name, [each for each in words if isinstance(each, str)], groups)
        wanted += [each for each in words if isinstance(each, Binding)]
        secret = new_password() if password is None else Secret(password)

        async def change(client: ClientCluster) -> None:
            await UserAdmin(client).set(name, secret, list(MECHANISMS.values()), DEFAULT_ITERATIONS)
            if wanted:
                await AclAdmin(client).add(wanted)

        self._as_admin(change)
        self._passwords[name] = secret
        self._wait_on_brokers(lambda server: _knows(server, name, secret) and _allows(server, wanted), f"user {name}")
        return secret.reveal()

    def remove_user(self, name: str) -> None:
        """Removes a user's password and rights. Its open connections stay until their sessions end, as with Kafka;
        what they ask for is refused at once. A certificate lets the user in still, with no rights."""
        from kavka.security.acls import EntryFilter, Filter
        from kavka.security.resource_patterns import PatternFilter

        own = Filter(PatternFilter(), EntryFilter(f"User:{name}"))

        async def change(client: ClientCluster) -> None:
            await AclAdmin(client).remove([own])
            await UserAdmin(client).remove(name, list(MECHANISMS.values()))

        self._password_of(name)
        self._as_admin(change)
        del self._passwords[name]
        self._wait_on_brokers(
            lambda server: not any(_known(server, name)) and not _acls(server).find(own), f"the removal of {name}"
        )

    def client_config(
        self, user: str = ADMIN, *, mechanism: str = DEFAULT_MECHANISM, client: str = "librdkafka"
    ) -> dict[str, Any]:
        """How a user's client gets in: exactly the keys that this client takes, the brokers' addresses with them.

        mechanism: SCRAM-SHA-512, SCRAM-SHA-256, or SSL for a certificate. client: librdkafka, java, kafka-python,
        aiokafka, kafkajs or franz-go. Raises KeyError for a user that was not added, ValueError.
        """
        login = self._login(user, mechanism)
        directory = self._security
        identity = None
        if login.key is not None:
            identity = directory.file(f"client-{user}.pem")
        return settings_for(client, login, LoginFiles(directory.file(TRUSTED), identity))

    @property
    def asynchronous(self) -> AsyncSecureCluster:
        """The same cluster, with methods to await."""
        from kavka.testing.async_cluster import AsyncSecureCluster

        return AsyncSecureCluster(self)

    async def __aenter__(self) -> AsyncSecureCluster:
        asynchronous = self.asynchronous
        await asynchronous.open()
        return asynchronous

    # -- inside

    @property
    def _security(self) -> SecurityDirectory:
        return SecurityDirectory(self.directory / "security")

    def _prepare(self) -> None:
        directory = self._security
        directory.prepare(self.broker_ids, (), _now_ms())
        for mechanism in MECHANISMS:
            self._ask(
                lambda zookeeper, mechanism=mechanism: store_first_user(  # type: ignore[misc]
                    zookeeper, ADMIN, directory.password, mechanism, is_new=directory.password_is_new
                )
            )
        directory.on_password_stored()

    def _listeners(self, broker_id: int) -> dict[str, str]:
        return self._listener_settings(self._security, broker_id, self._ports[broker_id])

    @staticmethod
    def _listener_settings(directory: SecurityDirectory, broker_id: int, ports: Iterable[int]) -> dict[str, str]:
        names = (PASSWORDS, CERTIFICATES, BROKERS)
        return {
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in zip(names, ports, strict=True)),
            "listener.security.protocol.map": f"{PASSWORDS}:SASL_SSL,{CERTIFICATES}:SSL,{BROKERS}:SSL",
            **secured_broker(directory, broker_id),
            **by_password(),
            **by_certificate(CERTIFICATES),
        }

    def _client_login(self) -> ClientLogin:
        from kavka.client.login import ClientLogin

        return ClientLogin(
            bootstrap=self.bootstrap_servers,
            tls=TlsSettings(authorities=self._security.file(TRUSTED)),
            sasl=SaslSettings(
                mechanism=SaslMechanism.SCRAM_SHA_512, username=ADMIN, password=self._security.password.reveal()
            ),
        )

    def _as_admin(self, work: Any) -> None:
        as_client(self._client_login(), work)

    def _login(self, user: str, mechanism: str) -> Credentials:
        password = self._password_of(user)
        directory = self._security
        if mechanism == SSL:
            bootstrap = ",".join(f"{HOST}:{self._ports[broker_id][1]}" for broker_id in self.broker_ids)
            path = Path(directory.file(f"client-{user}.pem"))
            if not path.exists():
                write_private(path, directory.sign_client(user, _now_ms()))
            return credentials_of(bootstrap, user, path.read_text(encoding="utf-8"), directory.authorities)
        if mechanism not in MECHANISMS:
            raise ValueError(f"there is no way in with {mechanism!r}: there are {', '.join(MECHANISMS)} and {SSL}")
        return Credentials(
            bootstrap=self.bootstrap_servers,
            user=user,
            mechanism=mechanism,
            password=password,
            authorities=directory.authorities,
        )

    def _password_of(self, user: str) -> Secret:
        if user == ADMIN:
            return self._security.password
        if user not in self._passwords:
            raise KeyError(f"there is no user {user}: add_user({user!r})")
        return self._passwords[user]

    def _wait_on_brokers(self, is_so: Any, what: str) -> None:
        def missing() -> str:
            found = [broker_id for broker_id in self.running if not self._threads[broker_id].ask(is_so)]
            return f"brokers {found} do not go by {what}" if found else ""

        self._wait(missing, TIMEOUT_S)


def _acls(server: Server) -> Any:
    authorization = server.broker.authorization
    assert authorization is not None
    return authorization.acls


def _known(server: Server, user: str) -> list[bool]:
    return [_found(server, mechanism, user).is_known for mechanism in MECHANISMS.values()]


def _found(server: Server, mechanism: ScramMechanism, user: str) -> Any:
    authentication = server.broker.authentication
    assert authentication is not None
    assert authentication.store is not None
    return authentication.store.find(mechanism, user)


def _knows(server: Server, user: str, password: Secret) -> bool:
    """Whether a broker goes by this password of the user."""
    for mechanism in MECHANISMS.values():
        has = _found(server, mechanism, user).credential
        made = salted(mechanism, password.reveal(), has.salt, has.iterations)
        if credential_of(mechanism, has.salt, made, has.iterations) != has:
            return False
    return True


def _allows(server: Server, wanted: Iterable[Binding]) -> bool:
    lists = _acls(server).index.lists
    return all(entry in lists.get(pattern, ()) for pattern, entry in wanted)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
