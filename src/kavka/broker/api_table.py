"""Which APIs this broker serves, and in which versions: a row per API key. Which module handles each: `api/loader.py`.

The set is that of Apache Kafka 3.9 on ZooKeeper, because a broker here can take the place of such a broker, with the
versions of 4.3. Programs that guess a broker's release from it say "at least 3.9" (kversion in kminion and kadm) or 4.3
(kafka-python). Left out are versions that KIP-896 dropped, and Envelope, which no program sends here. Left out too is
UnregisterBroker: there is nothing to unregister, for a broker's registration is an ephemeral node that ends with its
session. ListConfigResources, DescribeTopicPartitions, clients' metrics, share groups and streams groups come from 4.x.
Every advertised version is served, except Produce 0-2 (see api/cluster/api_versions.py).
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.protocol.api import ApiKey


class Served(NamedTuple):
    """The versions of one API."""

    min_version: int
    max_version: int
    min_advertised: int


def _row(min_version: int, max_version: int, *, min_advertised: int | None = None) -> Served:
    return Served(min_version, max_version, min_version if min_advertised is None else min_advertised)


SERVED: dict[int, Served] = {
    ApiKey.PRODUCE: _row(3, 13, min_advertised=0),
    ApiKey.FETCH: _row(4, 18),
    ApiKey.LIST_OFFSETS: _row(1, 11),
    ApiKey.METADATA: _row(0, 13),
    ApiKey.LEADER_AND_ISR: _row(0, 7),
    ApiKey.STOP_REPLICA: _row(0, 4),
    ApiKey.UPDATE_METADATA: _row(0, 8),
    ApiKey.CONTROLLED_SHUTDOWN: _row(0, 3),
    ApiKey.OFFSET_COMMIT: _row(2, 10),
    ApiKey.OFFSET_FETCH: _row(1, 10),
    ApiKey.FIND_COORDINATOR: _row(0, 6),
    ApiKey.JOIN_GROUP: _row(0, 9),
    ApiKey.HEARTBEAT: _row(0, 4),
    ApiKey.LEAVE_GROUP: _row(0, 5),
    ApiKey.SYNC_GROUP: _row(0, 5),
    ApiKey.DESCRIBE_GROUPS: _row(0, 6),
    ApiKey.LIST_GROUPS: _row(0, 5),
    ApiKey.SASL_HANDSHAKE: _row(0, 1),
    ApiKey.API_VERSIONS: _row(0, 4),
    ApiKey.CREATE_TOPICS: _row(2, 7),
    ApiKey.DELETE_TOPICS: _row(1, 6),
    ApiKey.DELETE_RECORDS: _row(0, 2),
    ApiKey.INIT_PRODUCER_ID: _row(0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _row(2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: _row(0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: _row(0, 4),
    ApiKey.END_TXN: _row(0, 5),
    ApiKey.WRITE_TXN_MARKERS: _row(1, 2),
    ApiKey.TXN_OFFSET_COMMIT: _row(0, 5),
    ApiKey.DESCRIBE_ACLS: _row(1, 3),
    ApiKey.CREATE_ACLS: _row(1, 3),
    ApiKey.DELETE_ACLS: _row(1, 3),
    ApiKey.DESCRIBE_CONFIGS: _row(1, 4),
    ApiKey.ALTER_CONFIGS: _row(0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _row(1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: _row(1, 5),
    ApiKey.SASL_AUTHENTICATE: _row(0, 2),
    ApiKey.CREATE_PARTITIONS: _row(0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: _row(1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: _row(1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _row(1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _row(1, 3),
    ApiKey.DELETE_GROUPS: _row(0, 2),
    ApiKey.ELECT_LEADERS: _row(0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _row(0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _row(0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _row(0, 0),
    ApiKey.OFFSET_DELETE: _row(0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _row(0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: _row(0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _row(0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _row(0, 0),
    ApiKey.ALTER_PARTITION: _row(0, 3),
    ApiKey.UPDATE_FEATURES: _row(0, 2),
    ApiKey.DESCRIBE_CLUSTER: _row(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: _row(0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: _row(0, 0),
    ApiKey.LIST_TRANSACTIONS: _row(0, 2),
    ApiKey.ALLOCATE_PRODUCER_IDS: _row(0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _row(0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _row(0, 1),
    ApiKey.SHARE_GROUP_HEARTBEAT: _row(1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: _row(1, 1),
    ApiKey.SHARE_FETCH: _row(1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: _row(1, 2),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: _row(0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: _row(0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: _row(0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: _row(0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: _row(0, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: _row(0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: _row(0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _row(0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _row(0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _row(0, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _row(0, 0),
    ApiKey.PUSH_TELEMETRY: _row(0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: _row(0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _row(0, 0),
}


def advertised_versions() -> list[tuple[int, int, int]]:
    """(API key, lowest version, highest version) as ApiVersions shows them, by key."""
    return [(int(key), SERVED[key].min_advertised, SERVED[key].max_version) for key in sorted(SERVED)]
