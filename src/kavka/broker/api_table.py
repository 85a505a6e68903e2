"""Which APIs this broker serves, in which versions, and where each is handled: a row per API key.

Modules are imported with the first request of their API, so that a start-up pays for none of them.

The set is that of Apache Kafka 3.9 on ZooKeeper, whose place in a cluster a broker here can take, with the versions of
4.3: programs that guess a broker's release from it say "at least 3.9" (kversion in kminion and kadm) or 4.3
(kafka-python). From 4.x come ListConfigResources, DescribeTopicPartitions and clients' metrics. Versions that KIP-896
dropped are left out, and so is Envelope, which nobody sends here. What is not built is answered as a broker of Kafka
answers where it is not configured: SASL, delegation tokens and ACLs, on PLAINTEXT listeners without an authorizer; no
client quotas; no SCRAM credentials. Nothing else is advertised that is not served, but for Produce 0-2 (see
api/cluster/api_versions.py).
"""

from __future__ import annotations

from typing import NamedTuple

from kavka.protocol.api import ApiKey


class Served(NamedTuple):
    """One API: `module` is its room and its file in broker/api/."""

    module: str
    min_version: int
    max_version: int
    min_advertised: int


def _row(module: str, min_version: int, max_version: int, *, min_advertised: int | None = None) -> Served:
    return Served(module, min_version, max_version, min_version if min_advertised is None else min_advertised)


SERVED: dict[int, Served] = {
    ApiKey.PRODUCE: _row("records.produce", 3, 13, min_advertised=0),
    ApiKey.FETCH: _row("records.fetch", 4, 18),
    ApiKey.LIST_OFFSETS: _row("records.list_offsets", 1, 11),
    ApiKey.METADATA: _row("topics.metadata", 0, 13),
    ApiKey.LEADER_AND_ISR: _row("control.leader_and_isr", 0, 7),
    ApiKey.STOP_REPLICA: _row("control.stop_replica", 0, 4),
    ApiKey.UPDATE_METADATA: _row("control.update_metadata", 0, 8),
    ApiKey.CONTROLLED_SHUTDOWN: _row("control.controlled_shutdown", 0, 3),
    ApiKey.OFFSET_COMMIT: _row("groups.offset_commit", 2, 10),
    ApiKey.OFFSET_FETCH: _row("groups.offset_fetch", 1, 10),
    ApiKey.FIND_COORDINATOR: _row("groups.find_coordinator", 0, 6),
    ApiKey.JOIN_GROUP: _row("groups.join_group", 0, 9),
    ApiKey.HEARTBEAT: _row("groups.heartbeat", 0, 4),
    ApiKey.LEAVE_GROUP: _row("groups.leave_group", 0, 5),
    ApiKey.SYNC_GROUP: _row("groups.sync_group", 0, 5),
    ApiKey.DESCRIBE_GROUPS: _row("groups.describe_groups", 0, 6),
    ApiKey.LIST_GROUPS: _row("groups.list_groups", 0, 5),
    ApiKey.SASL_HANDSHAKE: _row("security.sasl_handshake", 0, 1),
    ApiKey.API_VERSIONS: _row("cluster.api_versions", 0, 4),
    ApiKey.CREATE_TOPICS: _row("topics.create_topics", 2, 7),
    ApiKey.DELETE_TOPICS: _row("topics.delete_topics", 1, 6),
    ApiKey.DELETE_RECORDS: _row("records.delete_records", 0, 2),
    ApiKey.INIT_PRODUCER_ID: _row("transactions.init_producer_id", 0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _row("records.offset_for_leader_epoch", 2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: _row("transactions.add_partitions_to_txn", 0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: _row("transactions.add_offsets_to_txn", 0, 4),
    ApiKey.END_TXN: _row("transactions.end_txn", 0, 5),
    ApiKey.WRITE_TXN_MARKERS: _row("transactions.write_txn_markers", 1, 2),
    ApiKey.TXN_OFFSET_COMMIT: _row("transactions.txn_offset_commit", 0, 5),
    ApiKey.DESCRIBE_ACLS: _row("security.describe_acls", 1, 3),
    ApiKey.CREATE_ACLS: _row("security.create_acls", 1, 3),
    ApiKey.DELETE_ACLS: _row("security.delete_acls", 1, 3),
    ApiKey.DESCRIBE_CONFIGS: _row("configs.describe_configs", 1, 4),
    ApiKey.ALTER_CONFIGS: _row("configs.alter_configs", 0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _row("cluster.alter_replica_log_dirs", 1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: _row("cluster.describe_log_dirs", 1, 5),
    ApiKey.SASL_AUTHENTICATE: _row("security.sasl_authenticate", 0, 2),
    ApiKey.CREATE_PARTITIONS: _row("topics.create_partitions", 0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: _row("security.create_delegation_token", 1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: _row("security.renew_delegation_token", 1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _row("security.expire_delegation_token", 1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _row("security.describe_delegation_token", 1, 3),
    ApiKey.DELETE_GROUPS: _row("groups.delete_groups", 0, 2),
    ApiKey.ELECT_LEADERS: _row("cluster.elect_leaders", 0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _row("configs.incremental_alter_configs", 0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _row("cluster.alter_partition_reassignments", 0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _row("cluster.list_partition_reassignments", 0, 0),
    ApiKey.OFFSET_DELETE: _row("groups.offset_delete", 0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _row("configs.describe_client_quotas", 0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: _row("configs.alter_client_quotas", 0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _row("security.describe_user_scram_credentials", 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _row("security.alter_user_scram_credentials", 0, 0),
    ApiKey.ALTER_PARTITION: _row("control.alter_partition", 0, 3),
    ApiKey.UPDATE_FEATURES: _row("cluster.update_features", 0, 2),
    ApiKey.DESCRIBE_CLUSTER: _row("cluster.describe_cluster", 0, 2),
    ApiKey.DESCRIBE_PRODUCERS: _row("transactions.describe_producers", 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: _row("transactions.describe_transactions", 0, 0),
    ApiKey.LIST_TRANSACTIONS: _row("transactions.list_transactions", 0, 2),
    ApiKey.ALLOCATE_PRODUCER_IDS: _row("control.allocate_producer_ids", 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _row("groups.consumer_group_heartbeat", 0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: _row("groups.consumer_group_describe", 0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: _row("cluster.get_telemetry_subscriptions", 0, 0),
    ApiKey.PUSH_TELEMETRY: _row("cluster.push_telemetry", 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: _row("configs.list_config_resources", 0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _row("topics.describe_topic_partitions", 0, 0),
}


def advertised_versions() -> list[tuple[int, int, int]]:
    """(API key, lowest version, highest version) as ApiVersions tells them, by key."""
    return [(int(key), SERVED[key].min_advertised, SERVED[key].max_version) for key in sorted(SERVED)]
