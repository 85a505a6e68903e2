"""The same requests with no right, and with each needed right alone: what a broker with an authorizer answers.

On listeners that authenticate nobody, clients differ by their hosts only: the administrator calls from 127.0.0.1, the
client whose rights are in question from 127.0.0.2. Runs against kavka and Apache Kafka alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kavka.protocol import messages as m
from kavka.protocol.messages import (
    add_partitions_to_txn_request,
    alter_client_quotas_request,
    alter_configs_request,
    alter_partition_reassignments_request,
    create_acls_request,
    create_partitions_request,
    create_topics_request,
    delete_acls_request,
    delete_records_request,
    delete_topics_request,
    describe_configs_request,
    describe_producers_request,
    describe_user_scram_credentials_request,
    elect_leaders_request,
    incremental_alter_configs_request,
    list_offsets_request,
    metadata_request,
    offset_commit_request,
    offset_delete_request,
    offset_fetch_request,
    offset_for_leader_epoch_request,
    txn_offset_commit_request,
    write_txn_markers_request,
)
from kavka.protocol.schema import Message, Struct
from kavka.security.acls import Operation, Permission
from kavka.security.resource_patterns import PatternType, ResourceType
from tests.kit.broker_client import BrokerClient, Closed, batch, fetch_of, produce_of

ADMINISTRATOR, CLIENT = "127.0.0.1", "127.0.0.2"
PRINCIPAL = "User:ANONYMOUS"
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
T, G, K, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
CLUSTER = "kafka-cluster"
EVERY = ((T, "*"), (G, "*"), (K, CLUSTER), (X, "*"), (ResourceType.DELEGATION_TOKEN, "*"), (ResourceType.USER, "*"))
Right = tuple[ResourceType, str, Operation]


class Case(NamedTuple):
    """A request, and the rights that are tried with it, each set alone; with none at all in any case. `in_order`: what
    is answered comes in an order that Apache Kafka does not leave to a table of hashes."""

    name: str
    request: Callable[[], Message]
    version: int
    rights: tuple[tuple[Right, ...], ...]
    in_order: bool = False


def creation(
    kind: ResourceType,
    name: str,
    operation: Operation,
    *,
    host: str,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> create_acls_request.AclCreation:
    return create_acls_request.AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=PRINCIPAL,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def add(admin: BrokerClient, creations: Iterable[create_acls_request.AclCreation]) -> list[int]:
    answer = admin.ask(m.CreateAclsRequest(creations=list(creations)), 3)
    return [result.error_code for result in answer.results]


def remove_all(admin: BrokerClient, host: str | None = None) -> Any:
    """Removes every entry for a host; None: for any."""
    every = delete_acls_request.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=host,
        operation=1,
        permission_type=1,
    )
    return admin.ask(m.DeleteAclsRequest(filters=[every]), 3)


def reserve(admin: BrokerClient) -> None:
    """From now on only the administrator's host may do anything."""
    codes = add(admin, [creation(kind, name, Operation.ALL, host=ADMINISTRATOR) for kind, name in EVERY])
    assert codes == [0] * len(EVERY), codes


def codes(value: Any, path: str = "") -> Iterator[tuple[str, object]]:
    """Every error code in an answer, and the bits of allowed operations, by the names around it."""
    if isinstance(value, Struct | Message):
        own = [str(getattr(value, field, "")) for field in ("name", "group_id", "resource_name", "transactional_id")]
        path = f"{path}/{'.'.join(filter(None, own))}"
        for field in value._fields:
            found = getattr(value, field.name)
            if field.name.endswith("error_code") or field.name.endswith("authorized_operations"):
                yield f"{path}/{field.name}", found
            elif isinstance(found, list | Struct):
                yield from codes(found, f"{path}/{field.name}")
    elif isinstance(value, list):
        for each in value:
            yield from codes(each, path)


def outcome(client: BrokerClient, case: Case) -> list[tuple[str, object]] | str:
    try:
        found = codes(client.ask(case.request(), case.version))
        return list(found) if case.in_order else sorted(found, key=str)
    except Closed:
        return "closed"
    except TimeoutError:
        return "no answer"


def run(port: int, cases: Iterable[Case] = ()) -> dict[str, Any]:
    """What is answered, by case and by rights; without `cases`, all of them."""
    found: dict[str, Any] = {}
    with BrokerClient(port) as admin:
        reserve(admin)
        for name in ("orders", "other"):
            admin.create_topic(name)
        wait_for_coordinators(admin)
        for case in cases or CASES:
            for rights in ((), *case.rights):
                assert not set(add(admin, [creation(*right, host=CLIENT) for right in rights])) - {0}
                label = " + ".join(f"{operation.word} {kind.word}:{name}" for kind, name, operation in rights)
                with BrokerClient(port, source=CLIENT, timeout_s=10) as client:
                    found[f"{case.name} with {label or 'nothing'}"] = outcome(client, case)
                remove_all(admin, CLIENT)
    return found


def wait_for_coordinators(admin: BrokerClient) -> None:
    """Returns when groups and transactions have their coordinators: their topics exist and are loaded."""
    deadline = time.monotonic() + 60
    for key_type in (0, 1):
        while admin.ask(m.FindCoordinatorRequest(key="g", key_type=key_type), 3).error_code:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    while admin.ask(m.DescribeGroupsRequest(groups=["g"]), 5).groups[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    while admin.ask(m.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4).error_code:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _topic(operation: Operation, name: str = "orders") -> Right:
    return (T, name, operation)


def _cluster(operation: Operation) -> Right:
    return (K, CLUSTER, operation)


def _group(operation: Operation) -> Right:
    return (G, "g", operation)


def _id(operation: Operation) -> Right:
    return (X, "x", operation)


def _offsets_to_commit(name: str) -> offset_commit_request.OffsetCommitRequestTopic:
    partition = offset_commit_request.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    return offset_commit_request.OffsetCommitRequestTopic(name=name, partitions=[partition])


def _reassignment() -> Message:
    partition = alter_partition_reassignments_request.ReassignablePartition(partition_index=0, replicas=None)
    topic = alter_partition_reassignments_request.ReassignableTopic(name="orders", partitions=[partition])
    return m.AlterPartitionReassignmentsRequest(topics=[topic])


def _configs_of(kind: int, name: str) -> describe_configs_request.DescribeConfigsResource:
    wanted = ["min.insync.replicas"]
    return describe_configs_request.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=wanted
    )


def _alteration(kind: int, name: str) -> incremental_alter_configs_request.AlterConfigsResource:
    change = incremental_alter_configs_request.AlterableConfig(
        name="min.insync.replicas", config_operation=0, value="1"
    )
    return incremental_alter_configs_request.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[change]
    )


def _replacement(kind: int, name: str) -> alter_configs_request.AlterConfigsResource:
    return alter_configs_request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])


def _transactional() -> Message:
    partitions = add_partitions_to_txn_request.AddPartitionsToTxnTopic
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=99_999,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[partitions(name="orders", partitions=[0]), partitions(name="other", partitions=[0])],
    )


def _markers() -> Message:
    topic = write_txn_markers_request.WritableTxnMarkerTopic(name="gone", partition_indexes=[0])
    marker = write_txn_markers_request.WritableTxnMarker(producer_id=99_999, topics=[topic])
    return m.WriteTxnMarkersRequest(markers=[marker])


def _quota() -> Message:
    entity = alter_client_quotas_request.EntityData(entity_type="user", entity_name="nobody")
    op = alter_client_quotas_request.OpData(key="producer_byte_rate", remove=True)
    entry = alter_client_quotas_request.EntryData(entity=[entity], ops=[op])
    return m.AlterClientQuotasRequest(entries=[entry], validate_only=True)


def _named(*names: str) -> list[metadata_request.MetadataRequestTopic]:
    return [metadata_request.MetadataRequestTopic(name=name) for name in names]


READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

CASES: tuple[Case, ...] = (
    Case("Produce", lambda: produce_of("orders", bytes(batch(b"v"))), 9, ((_topic(WRITE),), (_topic(READ),))),
    Case("Produce, nothing there", lambda: produce_of("gone", bytes(batch(b"v"))), 9, ((_topic(WRITE, "gone"),),)),
    Case("Fetch", lambda: fetch_of("orders", 0), 12, ((_topic(READ),), (_topic(WRITE),))),
    Case("Fetch, nothing there", lambda: fetch_of("gone", 0), 12, ((_topic(READ, "gone"),),)),
    Case(
        "ListOffsets",
        lambda: m.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets_request.ListOffsetsTopic(
                    name=name, partitions=[list_offsets_request.ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
                for name in ("orders", "other")
            ],
        ),
        6,
        ((_topic(DESCRIBE),), (_topic(READ),), (_topic(CREATE),)),
    ),
    Case(
        "Metadata by name",
        lambda: m.MetadataRequest(
            topics=_named("orders", "gone"),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        10,
        ((_topic(DESCRIBE),), (_topic(WRITE),), (_topic(DESCRIBE, "gone"),), (_cluster(DESCRIBE), _cluster(CREATE))),
    ),
    Case(
        "Metadata of all",
        lambda: m.MetadataRequest(topics=None, include_topic_authorized_operations=True),
        9,
        ((_topic(DESCRIBE),), (_topic(ALTER, "other"),)),
    ),
    Case("Metadata in version 0", lambda: m.MetadataRequest(topics=_named("orders")), 0, ((_topic(READ),),)),
    Case(
        "DescribeCluster",
        lambda: m.DescribeClusterRequest(include_cluster_authorized_operations=True),
        0,
        ((_cluster(DESCRIBE),), (_cluster(ALTER),), (_cluster(ACTION),)),
    ),
    Case("FindCoordinator of a group", lambda: m.FindCoordinatorRequest(key="g"), 3, ((_group(DESCRIBE),),)),
    Case(
        "FindCoordinator of an id",
        lambda: m.FindCoordinatorRequest(key_type=1, coordinator_keys=["x", "y"]),
        4,
        ((_id(DESCRIBE),), (_id(WRITE),)),
    ),
    Case("Heartbeat", lambda: m.HeartbeatRequest(group_id="g", member_id="m"), 3, ((_group(READ),),)),
    Case("LeaveGroup", lambda: m.LeaveGroupRequest(group_id="g", members=[]), 4, ((_group(READ),),)),
    Case("SyncGroup", lambda: m.SyncGroupRequest(group_id="g", member_id="m"), 4, ((_group(READ),),)),
    Case(
        "JoinGroup",
        lambda: m.JoinGroupRequest(group_id="g", session_timeout_ms=1, protocol_type="consumer"),
        5,
        ((_group(READ),), (_group(DESCRIBE),)),
    ),
    Case(
        "OffsetCommit",
        lambda: m.OffsetCommitRequest(group_id="g", topics=[_offsets_to_commit("orders"), _offsets_to_commit("other")]),
        8,
        ((_group(READ),), (_group(READ), _topic(READ)), (_topic(READ),)),
    ),
    Case(
        "OffsetFetch",
        lambda: m.OffsetFetchRequest(
            group_id="g",
            topics=[
                offset_fetch_request.OffsetFetchRequestTopic(name=name, partition_indexes=[0])
                for name in ("orders", "gone")
            ],
        ),
        7,
        ((_group(DESCRIBE),), (_group(READ), _topic(DESCRIBE)), (_topic(DESCRIBE),)),
    ),
    Case(
        "OffsetFetch of groups",
        lambda: m.OffsetFetchRequest(
            groups=[
                offset_fetch_request.OffsetFetchRequestGroup(group_id="g", topics=None),
                offset_fetch_request.OffsetFetchRequestGroup(group_id="h", topics=None),
            ]
        ),
        8,
        ((_group(DESCRIBE),), (_group(DESCRIBE), _topic(DESCRIBE))),
    ),
    Case(
        "DescribeGroups",
        lambda: m.DescribeGroupsRequest(groups=["g", "h"], include_authorized_operations=True),
        5,
        ((_group(DESCRIBE),), (_group(READ),), (_group(DELETE),)),
    ),
    Case("ListGroups", m.ListGroupsRequest, 4, ((_cluster(DESCRIBE),), (_group(DESCRIBE),))),
    Case("DeleteGroups", lambda: m.DeleteGroupsRequest(groups_names=["nobodys"]), 2, (((G, "nobodys", DELETE),),)),
    Case(
        "OffsetDelete",
        lambda: m.OffsetDeleteRequest(
            group_id="g",
            topics=[
                offset_delete_request.OffsetDeleteRequestTopic(
                    name="other",
                    partitions=[offset_delete_request.OffsetDeleteRequestPartition(partition_index=0)],
                )
            ],
        ),
        0,
        ((_group(DELETE),), (_group(DELETE), _topic(READ, "other")), (_group(READ),)),
    ),
    Case(
        "InitProducerId",
        lambda: m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
        4,
        ((_cluster(Operation.IDEMPOTENT_WRITE),), (_topic(WRITE),), (_topic(READ),)),
    ),
    Case(
        "InitProducerId with an id",
        lambda: m.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000),
        4,
        ((_id(WRITE),), (_id(DESCRIBE),)),
    ),
    Case("AddPartitionsToTxn", _transactional, 3, ((_id(WRITE),), (_id(WRITE), _topic(WRITE)), (_topic(WRITE),))),
    Case(
        "AddOffsetsToTxn",
        lambda: m.AddOffsetsToTxnRequest(transactional_id="x", producer_id=99_999, group_id="g"),
        3,
        ((_id(WRITE),), (_id(WRITE), _group(READ)), (_group(READ),)),
    ),
    Case(
        "EndTxn",
        lambda: m.EndTxnRequest(transactional_id="x", producer_id=99_999),
        3,
        ((_id(WRITE),),),
    ),
    Case(
        "TxnOffsetCommit",
        lambda: m.TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=99_999,
            topics=[
                txn_offset_commit_request.TxnOffsetCommitRequestTopic(
                    name="orders",
                    partitions=[txn_offset_commit_request.TxnOffsetCommitRequestPartition(partition_index=0)],
                )
            ],
        ),
        3,
        ((_id(WRITE),), (_id(WRITE), _group(READ))),
    ),
    Case(
        "DescribeProducers",
        lambda: m.DescribeProducersRequest(
            topics=[describe_producers_request.TopicRequest(name="orders", partition_indexes=[0])]
        ),
        0,
        ((_topic(READ),), (_topic(DESCRIBE),)),
    ),
    Case(
        "DescribeTransactions",
        lambda: m.DescribeTransactionsRequest(transactional_ids=["x", "y"]),
        0,
        ((_id(DESCRIBE),),),
    ),
    Case("ListTransactions", m.ListTransactionsRequest, 0, ((_id(DESCRIBE),), (_id(WRITE),))),
    Case(
        "CreateTopics",
        lambda: m.CreateTopicsRequest(
            topics=[create_topics_request.CreatableTopic(name="fresh", num_partitions=1, replication_factor=1)],
            validate_only=True,
            timeout_ms=10_000,
        ),
        7,
        ((_cluster(CREATE),), (_topic(CREATE, "fresh"),), (_topic(CREATE, "fresh"), _topic(DESCRIBE_CONFIGS, "fresh"))),
    ),
    Case(
        "CreatePartitions",
        lambda: m.CreatePartitionsRequest(
            topics=[create_partitions_request.CreatePartitionsTopic(name="orders", count=3)],
            validate_only=True,
            timeout_ms=10_000,
        ),
        3,
        ((_topic(ALTER),), (_cluster(ALTER),)),
    ),
    Case(
        "DeleteTopics",
        lambda: m.DeleteTopicsRequest(topics=[delete_topics_request.DeleteTopicState(name="gone")], timeout_ms=10_000),
        6,
        ((_topic(DELETE, "gone"),), (_topic(DESCRIBE, "gone"),)),
    ),
    Case(
        "DeleteRecords",
        lambda: m.DeleteRecordsRequest(
            topics=[
                delete_records_request.DeleteRecordsTopic(
                    name="orders",
                    partitions=[delete_records_request.DeleteRecordsPartition(partition_index=0, offset=0)],
                )
            ],
            timeout_ms=10_000,
        ),
        2,
        ((_topic(DELETE),), (_topic(WRITE),)),
    ),
    Case(
        "OffsetForLeaderEpoch",
        lambda: m.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                offset_for_leader_epoch_request.OffsetForLeaderTopic(
                    topic="orders",
                    partitions=[offset_for_leader_epoch_request.OffsetForLeaderPartition(partition=0, leader_epoch=0)],
                )
            ],
        ),
        4,
        ((_topic(DESCRIBE),), (_cluster(ACTION),)),
    ),
    Case(
        "DescribeConfigs",
        lambda: m.DescribeConfigsRequest(resources=[_configs_of(2, "orders"), _configs_of(4, "1")]),
        4,
        ((_topic(DESCRIBE_CONFIGS),), (_topic(ALTER_CONFIGS),), (_cluster(DESCRIBE_CONFIGS),), (_topic(ALTER),)),
    ),
    Case(
        "IncrementalAlterConfigs",
        lambda: m.IncrementalAlterConfigsRequest(
            resources=[_alteration(2, "orders"), _alteration(4, "1")], validate_only=True
        ),
        1,
        ((_topic(ALTER_CONFIGS),), (_cluster(ALTER_CONFIGS),)),
    ),
    Case(
        "AlterConfigs",
        lambda: m.AlterConfigsRequest(resources=[_replacement(2, "orders"), _replacement(4, "1")], validate_only=True),
        2,
        ((_topic(ALTER_CONFIGS),), (_cluster(ALTER_CONFIGS),)),
    ),
    Case("DescribeAcls", lambda: m.DescribeAclsRequest(**_EVERY_ACL), 3, ((_cluster(DESCRIBE),), (_cluster(ALTER),))),
    Case(
        "CreateAcls",
        lambda: m.CreateAclsRequest(
            creations=[
                creation(T, "a", READ, host=CLIENT),
                creation(T, "a/b", READ, host=CLIENT),
                creation(K, "mine", READ, host=CLIENT),
                creation(T, "", READ, host=CLIENT),
            ]
        ),
        3,
        ((_cluster(ALTER),), (_cluster(DESCRIBE),)),
    ),
    Case(
        "DeleteAcls",
        lambda: m.DeleteAclsRequest(
            filters=[
                delete_acls_request.DeleteAclsFilter(
                    resource_type_filter=T,
                    resource_name_filter="nobodys",
                    pattern_type_filter=PatternType.LITERAL,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
        3,
        ((_cluster(ALTER),), (_cluster(DESCRIBE),)),
    ),
    Case(
        "ElectLeaders",
        lambda: m.ElectLeadersRequest(
            topic_partitions=[elect_leaders_request.TopicPartitions(topic="orders", partitions=[0])]
        ),
        2,
        ((_cluster(ALTER),), (_cluster(ACTION),)),
    ),
    Case("AlterPartitionReassignments", _reassignment, 0, ((_cluster(ALTER),), (_cluster(DESCRIBE),))),
    Case(
        "ListPartitionReassignments",
        lambda: m.ListPartitionReassignmentsRequest(topics=None),
        0,
        ((_cluster(DESCRIBE),), (_cluster(ACTION),)),
    ),
    Case("DescribeLogDirs", lambda: m.DescribeLogDirsRequest(topics=[]), 3, ((_cluster(DESCRIBE),),)),
    Case("DescribeClientQuotas", m.DescribeClientQuotasRequest, 1, ((_cluster(DESCRIBE_CONFIGS),),)),
    Case("AlterClientQuotas", _quota, 1, ((_cluster(ALTER_CONFIGS),),)),
    Case(
        "DescribeUserScramCredentials",
        lambda: m.DescribeUserScramCredentialsRequest(users=[]),
        0,
        ((_cluster(DESCRIBE),), (_cluster(ACTION),)),
    ),
    Case("WriteTxnMarkers", _markers, 1, ((_cluster(ALTER),), (_cluster(ACTION),))),
    Case(
        "DescribeUserScramCredentials of named ones",
        lambda: m.DescribeUserScramCredentialsRequest(
            users=[describe_user_scram_credentials_request.UserName(name=name) for name in ("alice", "bob", "alice")]
        ),
        0,
        ((_cluster(DESCRIBE),),),
        in_order=True,
    ),
    Case(
        "FindCoordinator of repeated ids",
        lambda: m.FindCoordinatorRequest(key_type=1, coordinator_keys=["y", "x", "y", "z", "x"]),
        4,
        ((_id(DESCRIBE),),),
        in_order=True,
    ),
    Case(
        "DescribeTransactions, some of them refused",
        lambda: m.DescribeTransactionsRequest(transactional_ids=["y", "x", "z", "x", "y"]),
        0,
        ((_id(DESCRIBE),),),
        in_order=True,
    ),
    Case(
        "DescribeProducers, some of them refused",
        lambda: m.DescribeProducersRequest(
            topics=[
                describe_producers_request.TopicRequest(name=name, partition_indexes=[0])
                for name in ("other", "orders", "gone", "no spaces", "orders")
            ]
        ),
        0,
        ((_topic(READ),), (_topic(READ, "gone"),)),
        in_order=True,
    ),
    Case(
        "DescribeGroups, some of them refused",
        lambda: m.DescribeGroupsRequest(groups=["h", "g", "i", "g", "h"]),
        5,
        ((_group(DESCRIBE),),),
        in_order=True,
    ),
    Case(
        "CreateTopics of KRaft's log",
        lambda: m.CreateTopicsRequest(
            topics=[
                create_topics_request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in ("__cluster_metadata", "fresh")
            ],
            timeout_ms=10_000,
            validate_only=True,
        ),
        7,
        (((T, "fresh", CREATE),), ((T, "__cluster_metadata", CREATE),)),
        in_order=True,
    ),
    Case(
        "CreateTopics, one of them named twice",
        lambda: m.CreateTopicsRequest(
            topics=[
                create_topics_request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in ("twice", "fresh", "twice")
            ],
            timeout_ms=10_000,
            validate_only=True,
        ),
        7,
        (((T, "fresh", CREATE),), ((T, "twice", DESCRIBE_CONFIGS),)),
        in_order=True,
    ),
    Case(
        "DeleteTopics of nothing",
        lambda: m.DeleteTopicsRequest(topics=[delete_topics_request.DeleteTopicState(name=None)], timeout_ms=10_000),
        6,
        ((_topic(Operation.DELETE),),),
    ),
    Case(
        "DeleteTopics, some of them refused",
        lambda: m.DeleteTopicsRequest(
            topics=[delete_topics_request.DeleteTopicState(name=name) for name in ("other", "gone", "hidden")],
            timeout_ms=10_000,
        ),
        6,
        ((_topic(Operation.DELETE, "gone"),),),
        in_order=True,
    ),
)
_EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": "nobodys",
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
