"""Loader: finds the handler of an API, and imports it with the first request of that API.

Decides only which module handles which key. It is the one module that imports handlers (the import linter holds
that), and it does so with plain import statements, so that tools and readers see each of them. None runs before it is
needed: a start-up pays for no handler.

mypy checks here that what `ApiBroker` promises is enough for each handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from kavka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kavka.broker.api.guards.guard import Guard
    from kavka.broker.api.ports import ApiBroker
    from kavka.protocol.connection import Request

    Handle = Callable[[ApiBroker, Request, Any], Any]
    Answer = Callable[[ApiBroker, Any, int], Awaitable[Any]]


def handler(key: ApiKey) -> Handle:
    """What answers requests of this API: called with the broker, the request and the decoded message, it returns the
    response message or an awaitable of it, None for no answer at all."""
    for room in _ROOMS:
        handle = room(key)
        if handle is not None:
            return handle
    raise LookupError(f"no handler for {key!r}")


def local_answer(key: ApiKey) -> Answer:
    """What answers a message that does not come over the network, but from this broker itself: called with the broker,
    the message and its version. Only what brokers and controllers send each other has one."""
    match key:
        case ApiKey.LEADER_AND_ISR:
            from kavka.broker.api.control import leader_and_isr

            return leader_and_isr.answer
        case ApiKey.STOP_REPLICA:
            from kavka.broker.api.control import stop_replica

            return stop_replica.answer
        case ApiKey.UPDATE_METADATA:
            from kavka.broker.api.control import update_metadata

            return update_metadata.answer
        case ApiKey.CONTROLLED_SHUTDOWN:
            from kavka.broker.api.control import controlled_shutdown

            return controlled_shutdown.answer
        case ApiKey.ALTER_PARTITION:
            from kavka.broker.api.control import alter_partition

            return alter_partition.answer
        case ApiKey.CREATE_TOPICS:
            from kavka.broker.api.topics import create_topics

            return create_topics.answer
    raise LookupError(f"no broker sends {key!r} to itself")


def version_refusal() -> Any:
    """The answer, in version 0, to an ApiVersions request of a version that is not served (KIP-511)."""
    from kavka.broker.api.cluster.api_versions import unsupported

    return unsupported()


def guard(key: ApiKey) -> Guard:
    """What asks for the rights of an API, and takes out what is refused. Raises LookupError if it has none: such an
    API is not served with an authorizer."""
    from kavka.broker.api.guards import cluster, configs, groups, records, share, streams, tokens, topics, transactions
    from kavka.broker.api.guards.guard import nothing_to_ask
    from kavka.broker.api_rights import API_RIGHTS

    guards: dict[ApiKey, Guard] = {
        ApiKey.PRODUCE: records.produce,
        ApiKey.FETCH: nothing_to_ask,  # Its handler asks: what it is about is in its fetch session.
        ApiKey.LIST_OFFSETS: records.list_offsets,
        ApiKey.DELETE_RECORDS: records.delete_records,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: records.offset_for_leader_epoch,
        ApiKey.OFFSET_COMMIT: groups.offset_commit,
        ApiKey.OFFSET_FETCH: groups.offset_fetch,
        ApiKey.OFFSET_DELETE: groups.offset_delete,
        ApiKey.FIND_COORDINATOR: groups.find_coordinator,
        ApiKey.JOIN_GROUP: groups.join_group,
        ApiKey.SYNC_GROUP: groups.sync_group,
        ApiKey.HEARTBEAT: groups.heartbeat,
        ApiKey.LEAVE_GROUP: groups.leave_group,
        ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
        ApiKey.LIST_GROUPS: groups.list_groups,
        ApiKey.DELETE_GROUPS: groups.delete_groups,
        ApiKey.CONSUMER_GROUP_HEARTBEAT: groups.consumer_group_heartbeat,
        ApiKey.CONSUMER_GROUP_DESCRIBE: groups.consumer_group_describe,
        **share.GUARDS,
        ApiKey.STREAMS_GROUP_HEARTBEAT: streams.streams_group_heartbeat,
        ApiKey.STREAMS_GROUP_DESCRIBE: streams.streams_group_describe,
        ApiKey.INIT_PRODUCER_ID: transactions.init_producer_id,
        ApiKey.ADD_PARTITIONS_TO_TXN: transactions.add_partitions_to_txn,
        ApiKey.ADD_OFFSETS_TO_TXN: transactions.add_offsets_to_txn,
        ApiKey.END_TXN: transactions.end_txn,
        ApiKey.TXN_OFFSET_COMMIT: transactions.txn_offset_commit,
        ApiKey.WRITE_TXN_MARKERS: transactions.write_txn_markers,
        ApiKey.DESCRIBE_PRODUCERS: transactions.describe_producers,
        ApiKey.DESCRIBE_TRANSACTIONS: transactions.describe_transactions,
        ApiKey.LIST_TRANSACTIONS: transactions.list_transactions,
        ApiKey.METADATA: topics.metadata,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics.describe_topic_partitions,
        ApiKey.CREATE_TOPICS: topics.create_topics,
        ApiKey.CREATE_PARTITIONS: topics.create_partitions,
        ApiKey.DELETE_TOPICS: topics.delete_topics,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: cluster.alter_user_scram_credentials,
        ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
        ApiKey.ALTER_CONFIGS: configs.alter_configs,
        ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
        ApiKey.DESCRIBE_CLUSTER: configs.describe_cluster,
        ApiKey.CREATE_DELEGATION_TOKEN: tokens.create_delegation_token,
        ApiKey.DESCRIBE_DELEGATION_TOKEN: tokens.describe_delegation_token,
    }
    found = guards.get(key)
    if found is None and not API_RIGHTS[key].items:
        return nothing_to_ask  # Its row stands for the request as a whole, or asks for nothing.
    if found is None:
        raise LookupError(f"no guard for {key!r}")
    return found


def whole_refusal(key: ApiKey, message: Any) -> Any:
    """The answer to a request that is refused as a whole for want of a right on the cluster."""
    from kavka.broker.api.guards.cluster import refusal

    return refusal(key, message)


def _records(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.PRODUCE:
            from kavka.broker.api.records import produce

            return produce.handle
        case ApiKey.FETCH:
            from kavka.broker.api.records import fetch

            return fetch.handle
        case ApiKey.LIST_OFFSETS:
            from kavka.broker.api.records import list_offsets

            return list_offsets.handle
        case ApiKey.DELETE_RECORDS:
            from kavka.broker.api.records import delete_records

            return delete_records.handle
        case ApiKey.OFFSET_FOR_LEADER_EPOCH:
            from kavka.broker.api.records import offset_for_leader_epoch

            return offset_for_leader_epoch.handle
    return None


def _groups(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.OFFSET_COMMIT:
            from kavka.broker.api.groups import offset_commit

            return offset_commit.handle
        case ApiKey.OFFSET_FETCH:
            from kavka.broker.api.groups import offset_fetch

            return offset_fetch.handle
        case ApiKey.FIND_COORDINATOR:
            from kavka.broker.api.groups import find_coordinator

            return find_coordinator.handle
        case ApiKey.JOIN_GROUP:
            from kavka.broker.api.groups import join_group

            return join_group.handle
        case ApiKey.HEARTBEAT:
            from kavka.broker.api.groups import heartbeat

            return heartbeat.handle
        case ApiKey.LEAVE_GROUP:
            from kavka.broker.api.groups import leave_group

            return leave_group.handle
        case ApiKey.SYNC_GROUP:
            from kavka.broker.api.groups import sync_group

            return sync_group.handle
        case ApiKey.DESCRIBE_GROUPS:
            from kavka.broker.api.groups import describe_groups

            return describe_groups.handle
        case ApiKey.LIST_GROUPS:
            from kavka.broker.api.groups import list_groups

            return list_groups.handle
        case ApiKey.DELETE_GROUPS:
            from kavka.broker.api.groups import delete_groups

            return delete_groups.handle
        case ApiKey.OFFSET_DELETE:
            from kavka.broker.api.groups import offset_delete

            return offset_delete.handle
        case ApiKey.CONSUMER_GROUP_HEARTBEAT:
            from kavka.broker.api.groups import consumer_group_heartbeat

            return consumer_group_heartbeat.handle
        case ApiKey.CONSUMER_GROUP_DESCRIBE:
            from kavka.broker.api.groups import consumer_group_describe

            return consumer_group_describe.handle
    return None


def _streams(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.STREAMS_GROUP_HEARTBEAT:
            from kavka.broker.api.streams import streams_group_heartbeat

            return streams_group_heartbeat.handle
        case ApiKey.STREAMS_GROUP_DESCRIBE:
            from kavka.broker.api.streams import streams_group_describe

            return streams_group_describe.handle
    return None


def _share(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.SHARE_GROUP_HEARTBEAT:
            from kavka.broker.api.share import share_group_heartbeat

            return share_group_heartbeat.handle
        case ApiKey.SHARE_GROUP_DESCRIBE:
            from kavka.broker.api.share import share_group_describe

            return share_group_describe.handle
        case ApiKey.SHARE_FETCH:
            from kavka.broker.api.share import share_fetch

            return share_fetch.handle
        case ApiKey.SHARE_ACKNOWLEDGE:
            from kavka.broker.api.share import share_acknowledge

            return share_acknowledge.handle
        case ApiKey.INITIALIZE_SHARE_GROUP_STATE:
            from kavka.broker.api.share import initialize_share_group_state

            return initialize_share_group_state.handle
        case ApiKey.READ_SHARE_GROUP_STATE:
            from kavka.broker.api.share import read_share_group_state

            return read_share_group_state.handle
        case ApiKey.WRITE_SHARE_GROUP_STATE:
            from kavka.broker.api.share import write_share_group_state

            return write_share_group_state.handle
        case ApiKey.DELETE_SHARE_GROUP_STATE:
            from kavka.broker.api.share import delete_share_group_state

            return delete_share_group_state.handle
        case ApiKey.READ_SHARE_GROUP_STATE_SUMMARY:
            from kavka.broker.api.share import read_share_group_state_summary

            return read_share_group_state_summary.handle
        case ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
            from kavka.broker.api.share import describe_share_group_offsets

            return describe_share_group_offsets.handle
        case ApiKey.ALTER_SHARE_GROUP_OFFSETS:
            from kavka.broker.api.share import alter_share_group_offsets

            return alter_share_group_offsets.handle
        case ApiKey.DELETE_SHARE_GROUP_OFFSETS:
            from kavka.broker.api.share import delete_share_group_offsets

            return delete_share_group_offsets.handle
    return None


def _transactions(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.INIT_PRODUCER_ID:
            from kavka.broker.api.transactions import init_producer_id

            return init_producer_id.handle
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            from kavka.broker.api.transactions import add_partitions_to_txn

            return add_partitions_to_txn.handle
        case ApiKey.ADD_OFFSETS_TO_TXN:
            from kavka.broker.api.transactions import add_offsets_to_txn

            return add_offsets_to_txn.handle
        case ApiKey.END_TXN:
            from kavka.broker.api.transactions import end_txn

            return end_txn.handle
        case ApiKey.WRITE_TXN_MARKERS:
            from kavka.broker.api.transactions import write_txn_markers

            return write_txn_markers.handle
        case ApiKey.TXN_OFFSET_COMMIT:
            from kavka.broker.api.transactions import txn_offset_commit

            return txn_offset_commit.handle
        case ApiKey.DESCRIBE_PRODUCERS:
            from kavka.broker.api.transactions import describe_producers

            return describe_producers.handle
        case ApiKey.DESCRIBE_TRANSACTIONS:
            from kavka.broker.api.transactions import describe_transactions

            return describe_transactions.handle
        case ApiKey.LIST_TRANSACTIONS:
            from kavka.broker.api.transactions import list_transactions

            return list_transactions.handle
    return None


def _topics(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.METADATA:
            from kavka.broker.api.topics import metadata

            return metadata.handle
        case ApiKey.CREATE_TOPICS:
            from kavka.broker.api.topics import create_topics

            return create_topics.handle
        case ApiKey.DELETE_TOPICS:
            from kavka.broker.api.topics import delete_topics

            return delete_topics.handle
        case ApiKey.CREATE_PARTITIONS:
            from kavka.broker.api.topics import create_partitions

            return create_partitions.handle
        case ApiKey.DESCRIBE_TOPIC_PARTITIONS:
            from kavka.broker.api.topics import describe_topic_partitions

            return describe_topic_partitions.handle
    return None


def _configs(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.DESCRIBE_CONFIGS:
            from kavka.broker.api.configs import describe_configs

            return describe_configs.handle
        case ApiKey.ALTER_CONFIGS:
            from kavka.broker.api.configs import alter_configs

            return alter_configs.handle
        case ApiKey.INCREMENTAL_ALTER_CONFIGS:
            from kavka.broker.api.configs import incremental_alter_configs

            return incremental_alter_configs.handle
        case ApiKey.DESCRIBE_CLIENT_QUOTAS:
            from kavka.broker.api.configs import describe_client_quotas

            return describe_client_quotas.handle
        case ApiKey.ALTER_CLIENT_QUOTAS:
            from kavka.broker.api.configs import alter_client_quotas

            return alter_client_quotas.handle
        case ApiKey.LIST_CONFIG_RESOURCES:
            from kavka.broker.api.configs import list_config_resources

            return list_config_resources.handle
    return None


def _cluster(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.API_VERSIONS:
            from kavka.broker.api.cluster import api_versions

            return api_versions.handle
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            from kavka.broker.api.cluster import alter_replica_log_dirs

            return alter_replica_log_dirs.handle
        case ApiKey.DESCRIBE_LOG_DIRS:
            from kavka.broker.api.cluster import describe_log_dirs

            return describe_log_dirs.handle
        case ApiKey.ELECT_LEADERS:
            from kavka.broker.api.cluster import elect_leaders

            return elect_leaders.handle
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            from kavka.broker.api.cluster import alter_partition_reassignments

            return alter_partition_reassignments.handle
        case ApiKey.LIST_PARTITION_REASSIGNMENTS:
            from kavka.broker.api.cluster import list_partition_reassignments

            return list_partition_reassignments.handle
        case ApiKey.UPDATE_FEATURES:
            from kavka.broker.api.cluster import update_features

            return update_features.handle
        case ApiKey.DESCRIBE_CLUSTER:
            from kavka.broker.api.cluster import describe_cluster

            return describe_cluster.handle
        case ApiKey.GET_TELEMETRY_SUBSCRIPTIONS:
            from kavka.broker.api.cluster import get_telemetry_subscriptions

            return get_telemetry_subscriptions.handle
        case ApiKey.PUSH_TELEMETRY:
            from kavka.broker.api.cluster import push_telemetry

            return push_telemetry.handle
    return None


def _control(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.LEADER_AND_ISR:
            from kavka.broker.api.control import leader_and_isr

            return leader_and_isr.handle
        case ApiKey.STOP_REPLICA:
            from kavka.broker.api.control import stop_replica

            return stop_replica.handle
        case ApiKey.UPDATE_METADATA:
            from kavka.broker.api.control import update_metadata

            return update_metadata.handle
        case ApiKey.CONTROLLED_SHUTDOWN:
            from kavka.broker.api.control import controlled_shutdown

            return controlled_shutdown.handle
        case ApiKey.ALTER_PARTITION:
            from kavka.broker.api.control import alter_partition

            return alter_partition.handle
        case ApiKey.ALLOCATE_PRODUCER_IDS:
            from kavka.broker.api.control import allocate_producer_ids

            return allocate_producer_ids.handle
    return None


def _security(key: ApiKey) -> Handle | None:
    match key:
        case ApiKey.SASL_HANDSHAKE:
            from kavka.broker.api.security import sasl_handshake

            return sasl_handshake.handle
        case ApiKey.DESCRIBE_ACLS:
            from kavka.broker.api.security import describe_acls

            return describe_acls.handle
        case ApiKey.CREATE_ACLS:
            from kavka.broker.api.security import create_acls

            return create_acls.handle
        case ApiKey.DELETE_ACLS:
            from kavka.broker.api.security import delete_acls

            return delete_acls.handle
        case ApiKey.SASL_AUTHENTICATE:
            from kavka.broker.api.security import sasl_authenticate

            return sasl_authenticate.handle
        case ApiKey.CREATE_DELEGATION_TOKEN:
            from kavka.broker.api.security import create_delegation_token

            return create_delegation_token.handle
        case ApiKey.RENEW_DELEGATION_TOKEN:
            from kavka.broker.api.security import renew_delegation_token

            return renew_delegation_token.handle
        case ApiKey.EXPIRE_DELEGATION_TOKEN:
            from kavka.broker.api.security import expire_delegation_token

            return expire_delegation_token.handle
        case ApiKey.DESCRIBE_DELEGATION_TOKEN:
            from kavka.broker.api.security import describe_delegation_token

            return describe_delegation_token.handle
        case ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:
            from kavka.broker.api.security import describe_user_scram_credentials

            return describe_user_scram_credentials.handle
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            from kavka.broker.api.security import alter_user_scram_credentials

            return alter_user_scram_credentials.handle
    return None


_ROOMS: tuple[Callable[[ApiKey], Handle | None], ...] = (
    _records,
    _groups,
    _share,
    _streams,
    _transactions,
    _topics,
    _configs,
    _cluster,
    _control,
    _security,
)
