"""Which rights each API asks for: a row per API key, as data.

`whole` stands for the request as a whole: one of these operations on the cluster, or the dispatcher refuses it. `items`
are the questions that its guard (`api/guards`) asks about what the request names. `between_brokers`: nobody but brokers
sends it, so it is refused on other listeners than theirs. An API without a row is not served where a broker has an
authorizer. A test asks every API and compares what it asked with its row.

Source: KafkaApis.scala of Kafka 3.9; for what 3.9 does not serve, of 4.x.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kavka.protocol.api_keys import ApiKey
from kavka.security.acls import Operation
from kavka.security.resource_patterns import ResourceType

_C, _A, _DE = Operation.CREATE, Operation.ALTER, Operation.DESCRIBE
_R, _W, _D = Operation.READ, Operation.WRITE, Operation.DELETE
_CA, _IW = Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE
_DC, _AC = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
_T, _G, _X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
_K = ResourceType.CLUSTER

Right = tuple[Operation, ResourceType]


class ApiRights(NamedTuple):
    """The rights that one API asks for."""

    whole: tuple[Operation, ...] = ()
    items: frozenset[Right] = frozenset()
    between_brokers: bool = False


def _whole(*operations: Operation) -> ApiRights:
    return ApiRights(whole=operations)


def _items(*rights: Right) -> ApiRights:
    return ApiRights(items=frozenset(rights))


_NOTHING: Final = ApiRights()
_OF_BROKERS: Final = ApiRights(whole=(_CA,), between_brokers=True)
_OF_CONFIGS: Final = _items((_AC, _K), (_AC, _T), (_AC, _G))

API_RIGHTS: Final[Mapping[int, ApiRights]] = {
    ApiKey.PRODUCE: _items((_W, _X), (_W, _T), (_CA, _K)),
    ApiKey.FETCH: _items((_R, _T), (_CA, _K)),
    ApiKey.LIST_OFFSETS: _items((_DE, _T)),
    ApiKey.METADATA: _items((_DE, _T), (_C, _K), (_C, _T), (_DE, _K)),
    ApiKey.LEADER_AND_ISR: _OF_BROKERS,
    ApiKey.STOP_REPLICA: _OF_BROKERS,
    ApiKey.UPDATE_METADATA: _OF_BROKERS,
    ApiKey.CONTROLLED_SHUTDOWN: _OF_BROKERS,
    ApiKey.OFFSET_COMMIT: _items((_R, _G), (_R, _T)),
    ApiKey.OFFSET_FETCH: _items((_DE, _G), (_DE, _T)),
    ApiKey.FIND_COORDINATOR: _items((_DE, _G), (_DE, _X), (_CA, _K)),
    ApiKey.JOIN_GROUP: _items((_R, _G)),
    ApiKey.HEARTBEAT: _items((_R, _G)),
    ApiKey.LEAVE_GROUP: _items((_R, _G)),
    ApiKey.SYNC_GROUP: _items((_R, _G)),
    ApiKey.DESCRIBE_GROUPS: _items((_DE, _G)),
    ApiKey.LIST_GROUPS: _items((_DE, _K), (_DE, _G)),
    ApiKey.SASL_HANDSHAKE: _NOTHING,
    ApiKey.API_VERSIONS: _NOTHING,
    ApiKey.CREATE_TOPICS: _items((_C, _K), (_C, _T), (_DC, _T), (_CA, _K)),
    ApiKey.DELETE_TOPICS: _items((_DE, _T), (_D, _T)),
    ApiKey.DELETE_RECORDS: _items((_D, _T)),
    ApiKey.INIT_PRODUCER_ID: _items((_W, _X), (_IW, _K), (_W, _T)),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _items((_CA, _K), (_DE, _T)),
    ApiKey.ADD_PARTITIONS_TO_TXN: _items((_W, _X), (_W, _T), (_CA, _K)),
    ApiKey.ADD_OFFSETS_TO_TXN: _items((_W, _X), (_R, _G)),
    ApiKey.END_TXN: _items((_W, _X)),
    ApiKey.WRITE_TXN_MARKERS: _items((_A, _K), (_CA, _K)),
    ApiKey.TXN_OFFSET_COMMIT: _items((_W, _X), (_R, _G), (_R, _T)),
    ApiKey.DESCRIBE_ACLS: _whole(_DE),
    ApiKey.CREATE_ACLS: _whole(_A),
    ApiKey.DELETE_ACLS: _whole(_A),
    ApiKey.DESCRIBE_CONFIGS: _items((_DC, _K), (_DC, _T), (_DC, _G)),
    ApiKey.ALTER_CONFIGS: _OF_CONFIGS,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _whole(_A),
    ApiKey.DESCRIBE_LOG_DIRS: _whole(_DE),
    ApiKey.SASL_AUTHENTICATE: _NOTHING,
    ApiKey.CREATE_PARTITIONS: _items((_A, _T)),
    ApiKey.CREATE_DELEGATION_TOKEN: _items((Operation.CREATE_TOKENS, ResourceType.USER)),
    ApiKey.RENEW_DELEGATION_TOKEN: _NOTHING,
    ApiKey.EXPIRE_DELEGATION_TOKEN: _NOTHING,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _items(
        (_DE, ResourceType.DELEGATION_TOKEN), (Operation.DESCRIBE_TOKENS, ResourceType.USER)
    ),
    ApiKey.DELETE_GROUPS: _items((_D, _G)),
    ApiKey.ELECT_LEADERS: _whole(_A),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _OF_CONFIGS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _whole(_A),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _whole(_DE),
    ApiKey.OFFSET_DELETE: _items((_D, _G), (_R, _T)),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _whole(_DC),
    ApiKey.ALTER_CLIENT_QUOTAS: _whole(_AC),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _whole(_DE),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _items((_A, _K)),
    ApiKey.ALTER_PARTITION: _OF_BROKERS,
    ApiKey.UPDATE_FEATURES: _whole(_A),
    ApiKey.DESCRIBE_CLUSTER: _items((_DE, _K)),
    ApiKey.DESCRIBE_PRODUCERS: _items((_R, _T)),
    ApiKey.DESCRIBE_TRANSACTIONS: _items((_DE, _X), (_DE, _T)),
    ApiKey.LIST_TRANSACTIONS: _items((_DE, _X)),
    ApiKey.ALLOCATE_PRODUCER_IDS: _OF_BROKERS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _items((_R, _G), (_DE, _T)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _items((_DE, _G), (_DE, _T)),
    ApiKey.SHARE_GROUP_HEARTBEAT: _items((_R, _G), (_DE, _T)),
    ApiKey.SHARE_GROUP_DESCRIBE: _items((_DE, _G), (_DE, _T)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _items((_R, _G), (_DE, _T), (_C, _K), (_C, _T)),
    ApiKey.STREAMS_GROUP_DESCRIBE: _items((_DE, _G), (_DE, _T)),
    ApiKey.SHARE_FETCH: _items((_R, _G), (_R, _T)),
    ApiKey.SHARE_ACKNOWLEDGE: _items((_R, _G), (_R, _T)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.WRITE_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.DELETE_SHARE_GROUP_STATE: _OF_BROKERS,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _OF_BROKERS,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _items((_DE, _G), (_DE, _T)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _items((_R, _G), (_R, _T)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _items((_D, _G), (_R, _T)),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _NOTHING,
    ApiKey.PUSH_TELEMETRY: _NOTHING,
    ApiKey.LIST_CONFIG_RESOURCES: _whole(_DC),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _items((_DE, _T)),
}
