"""Logins: how a cluster is secured, who its users are, and how each node gets in.

Decides settings, users and first rights of a secured world, and gives nodes networks that log in. Clients log in by
SCRAM, except for those that administer; brokers by PLAIN on a listener of their own. Both listeners have TLS. A node's
user is called as the node without its number: producer-3 is User:producer.

Rights are what Kafka's administrators give to an application: its topics, its groups, its transactional ids.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Generator, Mapping
from random import Random
from typing import TYPE_CHECKING, Final

from kavka.client.acl_admin import AclAdmin
from kavka.client.quota_admin import QuotaAdmin
from kavka.client.security import SaslMechanism, SaslSettings
from kavka.client.user_admin import UserAdmin
from kavka.protocol.sasl_network import Login, NewExchange, SaslNetwork
from kavka.security.acls import Binding, Entry, EntryFilter, Filter, Operation, Permission
from kavka.security.plain import client_token
from kavka.security.quota_limits import Change, Entity
from kavka.security.resource_patterns import CLUSTER_NAME, Pattern, PatternFilter, ResourceType
from kavka.security.scram_credentials import MECHANISMS, ScramMechanism
from kavka.security.scram_exchange import client_exchange
from kavka.security.secret import Secret
from kavka.simulator.host.tls import Certificate, TlsIdentity, TlsNetwork
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.network import Network
    from kavka.simulator.host.scheduler import NodeLoop, Scheduler

OPERATORS: Final = ("admin", "auditor", "client", "monitor", "operator", "reader", "writer")
"""Users who may do everything, as brokers may, and log in by PLAIN. The last two are a scenario's."""
APPLICATIONS: Final = ("consumer", "member", "producer", "transactor")
QUOTAS: Final = ("producer_byte_rate", "consumer_byte_rate")
"""What is limited here."""
ITERATIONS: Final = 4096
NONCE_BYTES: Final = 24


def password_of(user: str) -> str:
    return f"{user}'s-secret"


def _jaas(users: tuple[str, ...], own: str | None = None) -> str:
    login = "" if own is None else f'username="{own}" password="{password_of(own)}" '
    known = " ".join(f'user_{user}="{password_of(user)}"' for user in users)
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {login}{known};"


SECURED: Final[Mapping[str, str]] = {
    "listeners": "CLIENTS://{node}:9092,BROKERS://{node}:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,BROKERS:SASL_SSL",
    "inter.broker.listener.name": "BROKERS",
    "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": _jaas(OPERATORS),
    "listener.name.brokers.plain.sasl.jaas.config": _jaas(("broker",), "broker"),
    "connections.max.reauth.ms": "60000",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": ";".join(f"User:{user}" for user in ("broker", *OPERATORS)),
    "delegation.token.secret.key": "a secret of all brokers",
    # A failure's wait lasts seconds and is of the address: faults that make logins fail are to cost no more than that.
    "connection.failed.authentication.delay.ms": "100",
}
"""Settings of all brokers of a secured world."""


def first_rights() -> list[Binding]:
    """What applications may do."""
    topic = Pattern(ResourceType.TOPIC, "*")
    rights = [_allowed(user, topic, Operation.ALL) for user in APPLICATIONS]
    groups = Pattern(ResourceType.GROUP, "*")
    rights += [_allowed(user, groups, Operation.ALL) for user in ("consumer", "member", "transactor")]
    rights.append(_allowed("transactor", Pattern(ResourceType.TRANSACTIONAL_ID, "*"), Operation.ALL))
    cluster = Pattern(ResourceType.CLUSTER, CLUSTER_NAME)
    return [*rights, *(_allowed(user, cluster, Operation.IDEMPOTENT_WRITE) for user in ("producer", "transactor"))]


def _allowed(user: str, pattern: Pattern, operation: Operation) -> Binding:
    return Binding(pattern, Entry(f"User:{user}", "*", operation, Permission.ALLOW))


async def give_access(cluster: Cluster) -> None:
    """Sets all applications' passwords and rights to what they first were; of quotas, tokens and other rights nothing
    is left. May be done twice."""
    acls, users = AclAdmin(cluster), UserAdmin(cluster)
    rights = first_rights()
    await acls.add(rights)
    others = [each for each in await acls.find(Filter()) if each not in rights]
    if others:
        await acls.remove([Filter(PatternFilter(*each.pattern), EntryFilter(*each.entry)) for each in others])
    for user in APPLICATIONS:
        await users.set(user, Secret(password_of(user)), [ScramMechanism.SHA_256], ITERATIONS)
        changes = [Change(name, None) for name in QUOTAS]
        await QuotaAdmin(cluster).alter(Entity(user), changes)


def broker_certificate(node: str) -> Certificate:
    return Certificate(f"CN={node}", (node,))


class Logins:
    """Of one world."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._random = Random(f"nonces {scheduler.seed}")
        self.identity = TlsIdentity()
        """What clients believe."""
        self.owners: dict[str, str] = {}
        """The users of nodes that are not called as theirs are."""

    def user_of(self, node: str) -> str:
        """Who logs in from there."""
        return self.owners.get(node) or node.partition("-")[0]

    def principal_of(self, node: str, listener: str) -> str:
        return f"User:{self.user_of(node)}"

    def network(self, network: Network, loop: NodeLoop) -> TlsNetwork:
        """A client's network, with TLS."""
        return TlsNetwork(network, self.identity, lambda: WALL_CLOCK_START_MS + round(1_000 * loop.time()))

    def settings(self, node: str) -> SaslSettings:
        """How a client logs in."""
        user = self.user_of(node)
        mechanism = SaslMechanism.PLAIN if user in OPERATORS else SaslMechanism.SCRAM_SHA_256
        return SaslSettings(mechanism=mechanism, username=user, password=password_of(user))

    def logged_in(self, network: Network, loop: NodeLoop, sasl: SaslSettings | None = None) -> SaslNetwork:
        """A network whose connections have logged in before they are given out. `sasl`: otherwise than usual."""
        chosen = sasl or self.settings(loop.name)
        return SaslNetwork(self.network(network, loop), chosen.mechanism.value, self._exchange(chosen), client_id="sim")

    def login(self, sasl: SaslSettings) -> Login:
        """One login, whose frames somebody else sends."""
        return Login(sasl.mechanism.value, self._exchange(sasl)(""), "sim")

    def _exchange(self, sasl: SaslSettings) -> NewExchange:
        def plain(_host: str) -> Generator[bytes, bytes, None]:
            yield client_token(sasl.username, sasl.password)

        def scram(_host: str) -> Generator[bytes, bytes, None]:
            mechanism: ScramMechanism = MECHANISMS[sasl.mechanism.value]
            nonce = b64encode(self._random.randbytes(NONCE_BYTES)).decode()
            return client_exchange(mechanism, sasl.username, sasl.password, nonce, is_by_token=sasl.is_by_token)

        return plain if sasl.mechanism is SaslMechanism.PLAIN else scram
