"""What a broker tells a client, and lets it do: mechanisms of SASL, metadata, settings, rights, access control lists.

Decides which questions are asked. All of them only read: rights are those that the broker itself names
(authorized operations, KIP-430), nothing is tried out. Must not judge.

I1  A refusal is an answer. Only a broker that breaks off or says nothing leaves a question open.
I2  Passwords that are not publicly known are sent by `kavka.client` alone, and where the caller asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kavka.client.connection import BrokerConnection
from kavka.client.security import PASSWORD_MECHANISMS, SaslSettings
from kavka.client.settings import ClientSettings
from kavka.errors import ConnectionFailed, ErrorCode, RequestError
from kavka.network import Network
from kavka.observe.exposure.sightings import Authorizer, BrokerSighting
from kavka.protocol.api import ApiKey
from kavka.protocol.messages.describe_acls_request import DescribeAclsRequest
from kavka.protocol.messages.describe_acls_response import DescribeAclsResponse
from kavka.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kavka.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kavka.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kavka.protocol.messages.describe_configs_response import DescribeConfigsResponse
from kavka.protocol.messages.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from kavka.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
from kavka.protocol.messages.metadata_request import MetadataRequest
from kavka.protocol.messages.metadata_response import MetadataResponse
from kavka.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from kavka.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from kavka.protocol.schema import Message
from kavka.security.acls import Binding, Entry, Operation, Permission
from kavka.security.resource_patterns import Pattern, PatternType, ResourceType

PATIENCE_MS: Final = 5_000
MAX_BROKERS: Final = 32
"""So many brokers are asked for their settings in one question; the one that reads it answers for itself."""
MAX_FRAME_BYTES: Final = 64 * 1024 * 1024
_BROKER: Final = 4
_NOT_TOLD: Final = -(2**31)
_NO_MECHANISM: Final = "KAVKA-SECURITY-CHECK"
WELL_KNOWN: Final = (("admin", "admin"), ("admin", "admin-secret"), ("alice", "alice-secret"))
"""User and password: those of Kafka's documentation, and what people type first."""

Answer = TypeVar("Answer", bound=Message)


class Asked(NamedTuple):
    """An address, and how it is reached."""

    network: Network
    host: str
    port: int

    async def open(self, sasl: SaslSettings | None = None) -> BrokerConnection:
        """A connection; logged in where `sasl` says so. Raises as BrokerConnection.open does."""
        settings = ClientSettings(
            client_id="kavka-security-check",
            connect_timeout_ms=PATIENCE_MS,
            request_timeout_ms=PATIENCE_MS,
            max_frame_bytes=MAX_FRAME_BYTES,
            sasl=sasl,
        )
        return await BrokerConnection.open(self.network, self.host, self.port, settings)


class Login(NamedTuple):
    """What a listener says of logging in, and whether its broker is one of KRaft's."""

    mechanisms: tuple[str, ...]
    is_kraft: bool


async def look_at_login(asked: Asked) -> Login:
    """The mechanisms that are offered; none where the listener has no SASL. Raises KavkaError."""
    connection = await asked.open()
    try:
        is_kraft = "metadata.version" in connection.finalized_features
        answer = await connection.request(
            ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=_NO_MECHANISM), SaslHandshakeResponse
        )
    except RequestError:
        return Login((), is_kraft)  # The broker has no such API: it has no SASL.
    finally:
        connection.close()
    if answer.error_code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return Login((), is_kraft)
    return Login(tuple(answer.mechanisms), is_kraft)


async def answers_before_login(asked: Asked) -> bool:
    """Whether a listener with SASL tells metadata to whom it does not know. Raises KavkaError where it says nothing."""
    connection = await asked.open()
    try:
        await connection.request(ApiKey.METADATA, MetadataRequest(topics=[]), MetadataResponse)
    except ConnectionFailed:
        return False
    else:
        return True
    finally:
        connection.close()


async def well_known_users(asked: Asked, mechanisms: Sequence[str]) -> list[str]:
    """The users that log in with a password that everybody knows: `admin (PLAIN)`. Raises ConnectionFailed."""
    found = []
    for mechanism in PASSWORD_MECHANISMS:
        if mechanism.value not in mechanisms:
            continue
        for user, password in WELL_KNOWN:
            try:
                connection = await asked.open(SaslSettings(mechanism=mechanism, username=user, password=password))
            except RequestError:
                continue
            connection.close()
            found.append(f"{user} ({mechanism.value})")
    return found


async def look_at_broker(asked: Asked, sasl: SaslSettings | None = None) -> BrokerSighting:
    """What a client with this login, or without one, is told. Raises KavkaError where it is not let in."""
    connection = await asked.open(sasl)
    try:
        metadata = await connection.request(
            ApiKey.METADATA, MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse
        )
        authorizer, acls = await _acls(connection)
        return BrokerSighting(
            tuple(f"{each.host}:{each.port}" for each in metadata.brokers),
            len(metadata.topics),
            await _rights(connection),
            authorizer,
            acls,
            await _settings(connection, [each.node_id for each in metadata.brokers[:MAX_BROKERS]]),
            await _users(connection),
        )
    finally:
        connection.close()


async def _answer(connection: BrokerConnection, key: ApiKey, message: Message, kind: type[Answer]) -> Answer | None:
    """The answer; None where the broker has no such API. Raises ConnectionFailed."""
    try:
        return await connection.request(key, message, kind)
    except RequestError:
        return None


async def _rights(connection: BrokerConnection) -> frozenset[Operation] | None:
    """The operations on the cluster that this client may do. 0 or nothing is told to whom may not Describe it."""
    message = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = await _answer(connection, ApiKey.DESCRIBE_CLUSTER, message, DescribeClusterResponse)
    if answer is None or answer.error_code or answer.cluster_authorized_operations == _NOT_TOLD:
        return None
    bits = answer.cluster_authorized_operations
    return frozenset(each for each in Operation if each > Operation.ANY and bits & 1 << each)


async def _acls(connection: BrokerConnection) -> tuple[Authorizer, tuple[Binding, ...] | None]:
    message = DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        pattern_type_filter=PatternType.ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    answer = await _answer(connection, ApiKey.DESCRIBE_ACLS, message, DescribeAclsResponse)
    if answer is None:
        return Authorizer.UNKNOWN, None
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return Authorizer.OFF, None
    if answer.error_code:
        is_on = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Authorizer.ON if is_on else Authorizer.UNKNOWN, None
    return Authorizer.ON, _bindings(answer)


def _bindings(answer: DescribeAclsResponse) -> tuple[Binding, ...]:
    return tuple(
        Binding(
            Pattern(
                ResourceType.of(resource.resource_type), resource.resource_name, PatternType.of(resource.pattern_type)
            ),
            Entry(acl.principal, acl.host, Operation.of(acl.operation), Permission.of(acl.permission_type)),
        )
        for resource in answer.resources
        for acl in resource.acls
    )


async def _settings(connection: BrokerConnection, brokers: Sequence[int]) -> Mapping[str, str] | None:
    """Settings of the broker that answers."""
    message = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=_BROKER, resource_name=str(broker), configuration_keys=None)
            for broker in brokers
        ]
    )
    answer = await _answer(connection, ApiKey.DESCRIBE_CONFIGS, message, DescribeConfigsResponse)
    for result in () if answer is None else answer.results:
        if not result.error_code and result.configs:
            return {each.name: each.value or "" for each in result.configs if not each.is_sensitive}
    return None


async def _users(connection: BrokerConnection) -> int | None:
    message = DescribeUserScramCredentialsRequest(users=None)
    kind = DescribeUserScramCredentialsResponse
    answer = await _answer(connection, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, message, kind)
    return None if answer is None or answer.error_code else len(answer.results)
