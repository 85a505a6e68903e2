"""Scenarios of administration: elections, reassignments, features, log directories, records, pages, passwords."""

from __future__ import annotations

from typing import Any

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    alter_partition_reassignments_request,
    alter_replica_log_dirs_request,
    alter_user_scram_credentials_request,
    create_acls_request,
    delete_acls_request,
    delete_records_request,
    describe_topic_partitions_request,
    describe_user_scram_credentials_request,
    elect_leaders_request,
    list_partition_reassignments_request,
    update_features_request,
)
from tests.conformance.wire.scenario import scenario
from tests.conformance.wire.wire_session import WireSession, batch

SHA_256, SHA_512 = 1, 2
NOBODY = 4711


# ---- elections and reassignments ----------------------------------------------------------------------------------


@scenario(ApiKey.ELECT_LEADERS)
def elect_leaders(session: WireSession, version: int) -> None:
    topic, unknown = session.topic(partitions=2), session.name("unknown")
    partitions = elect_leaders_request.TopicPartitions

    def ask(step: str, *wanted: tuple[str, list[int]], kind: int = 0) -> None:
        chosen = [partitions(topic=name, partitions=indexes) for name, indexes in wanted]
        request = m.ElectLeadersRequest(election_type=kind, topic_partitions=chosen, timeout_ms=10_000)
        session.record(step, request, version)

    ask("both", (topic, [0, 1]))
    ask("unknown partition", (topic, [9]))
    ask("negative partition", (topic, [-1]))
    ask("unknown topic", (unknown, [0]))
    ask("known and unknown", (topic, [0, 9]), (unknown, [0]))
    ask("partition twice", (topic, [0, 0]))
    ask("topic twice", (topic, [0]), (topic, [1]))
    ask("topic without partitions", (topic, []))
    ask("no topics")
    ask("empty name", ("", [0]))
    every = m.ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000)
    session.record("all", every, version, keep=session.ours)
    if version >= 1:
        ask("unclean", (topic, [0]), kind=1)
        ask("unclean, unknown partition", (topic, [9]), kind=1)
        ask("unknown kind", (topic, [0]), kind=7)
    hurried = [partitions(topic=topic, partitions=[0])]
    session.record("no time", m.ElectLeadersRequest(topic_partitions=hurried, timeout_ms=0), version)


@scenario(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def alter_partition_reassignments(session: WireSession, version: int) -> None:
    ap = alter_partition_reassignments_request
    topic, broker = session.topic(partitions=2), session.broker_id

    def ask(step: str, *wanted: tuple[str, dict[int, list[int] | None]], **more: Any) -> None:
        topics = [
            ap.ReassignableTopic(
                name=name,
                partitions=[ap.ReassignablePartition(partition_index=i, replicas=ids) for i, ids in replicas.items()],
            )
            for name, replicas in wanted
        ]
        request = m.AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=topics, **more)
        session.record(step, request, version)

    ask("where it is", (topic, {0: [broker]}))
    ask("nothing to cancel", (topic, {0: None}))
    ask("no replicas", (topic, {0: []}))
    ask("replica twice", (topic, {0: [broker, broker]}))
    ask("negative broker", (topic, {0: [-1]}))
    ask("unknown broker", (topic, {0: [NOBODY]}))
    ask("one more, unknown", (topic, {0: [broker, NOBODY]}))
    ask("unknown partition", (topic, {9: [broker]}))
    ask("negative partition", (topic, {-1: [broker]}))
    ask("unknown topic", (session.name("unknown"), {0: [broker]}))
    ask("empty name", ("", {0: [broker]}))
    ask("illegal name", ("no spaces", {0: [broker]}))
    ask("good beside bad", (topic, {0: [broker], 1: [NOBODY]}))
    ask("topic without partitions", (topic, {}))
    ask("no topics")
    if version >= 1:
        ask("as many, and they must be", (topic, {0: [broker]}), allow_replication_factor_change=False)
        ask("more, though they must not be", (topic, {0: [broker, NOBODY]}), allow_replication_factor_change=False)
        ask("cancelled, in equal number", (topic, {0: None}), allow_replication_factor_change=False)


@scenario(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def list_partition_reassignments(session: WireSession, version: int) -> None:
    topics = list_partition_reassignments_request.ListPartitionReassignmentsTopics
    topic = session.topic()

    def ask(step: str, *wanted: tuple[str, list[int]]) -> None:
        chosen = [topics(name=name, partition_indexes=indexes) for name, indexes in wanted]
        session.record(step, m.ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=chosen), version)

    session.record("all", m.ListPartitionReassignmentsRequest(topics=None, timeout_ms=10_000), version)
    ask("one that stays", (topic, [0]))
    ask("unknown partition", (topic, [9]))
    ask("unknown topic", (session.name("unknown"), [0]))
    ask("topic without partitions", (topic, []))
    ask("no topics")


# ---- features -----------------------------------------------------------------------------------------------------


@scenario(ApiKey.UPDATE_FEATURES)
def update_features(session: WireSession, version: int) -> None:
    """Of features that no broker has: those that there are belong to a cluster's software."""
    key = update_features_request.FeatureUpdateKey

    def ask(step: str, *wanted: tuple[str, int, int], **more: Any) -> None:
        updates = [
            key(feature=name, max_version_level=level, allow_downgrade=kind > 1, upgrade_type=kind)
            for name, level, kind in wanted
        ]
        session.record(step, m.UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=updates, **more), version)

    ask("nothing")
    ask("unknown feature", ("no.such", 1, 1))
    ask("unknown feature removed", ("no.such", 0, 2))
    ask("level 0 of an upgrade", ("no.such", 0, 1))
    ask("negative level", ("no.such", -1, 1))
    ask("empty name", ("", 1, 1))
    ask("twice", ("no.such", 1, 1), ("no.such", 2, 1))
    ask("two", ("no.such", 1, 1), ("neither", 1, 1))
    if version >= 1:
        ask("only validated", ("no.such", 1, 1), validate_only=True)
        ask("unknown kind", ("no.such", 1, 9))


# ---- log directories ----------------------------------------------------------------------------------------------


@scenario(ApiKey.ALTER_REPLICA_LOG_DIRS)
def alter_replica_log_dirs(session: WireSession, version: int) -> None:
    al = alter_replica_log_dirs_request
    topic, unknown = session.topic(), session.name("unknown")
    here = session.connection.ask(m.DescribeLogDirsRequest(topics=[]), 1).results[0].log_dir

    def ask(step: str, *wanted: tuple[str, dict[str, list[int]]]) -> None:
        dirs = [
            al.AlterReplicaLogDir(
                path=path,
                topics=[al.AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
            )
            for path, topics in wanted
        ]
        session.record(step, m.AlterReplicaLogDirsRequest(dirs=dirs), version)

    ask("where it is", (here, {topic: [0]}))
    ask("unknown directory", ("/no/such/directory", {topic: [0]}))
    ask("relative directory", ("here", {topic: [0]}))
    ask("empty directory", ("", {topic: [0]}))
    ask("unknown partition", (here, {topic: [9]}))
    ask("unknown topic, for whoever makes it", (here, {unknown: [0]}))
    ask("unknown topic, unknown directory", ("/no/such/directory", {unknown: [0]}))
    ask("topic without partitions", (here, {topic: []}))
    ask("nothing")


# ---- records ------------------------------------------------------------------------------------------------------


@scenario(ApiKey.DELETE_RECORDS)
def delete_records_of_several(session: WireSession, version: int) -> None:
    dr = delete_records_request
    topic = session.topic(partitions=2)
    session.produced(topic, batch())
    session.produced(topic, batch(), 1)

    def ask(step: str, *wanted: tuple[str, list[tuple[int, int]]], timeout_ms: int = 10_000) -> None:
        topics = [
            dr.DeleteRecordsTopic(
                name=name, partitions=[dr.DeleteRecordsPartition(partition_index=i, offset=at) for i, at in partitions]
            )
            for name, partitions in wanted
        ]
        session.record(step, m.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms), version)

    ask("two partitions", (topic, [(0, 1), (1, 2)]))
    ask("one known, one unknown", (topic, [(0, 2), (9, 0)]))
    ask("one within, one beyond", (topic, [(0, 2), (1, 99)]))
    ask("topic twice", (topic, [(0, 2)]), (topic, [(1, 3)]))
    ask("no time", (topic, [(0, 3)]), timeout_ms=0)
    ask("no partitions", (topic, []))
    ask("no topics")
    ask("offset zero, behind it", (topic, [(0, 0)]))
    ask("empty name", ("", [(0, 0)]))
    session.recorded["ends"] = [session.end_offset(topic), session.end_offset(topic, 1)]


# ---- pages of topics ----------------------------------------------------------------------------------------------


@scenario(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions_by_pages(session: WireSession, version: int) -> None:
    cursor, wanted = describe_topic_partitions_request.Cursor, describe_topic_partitions_request.TopicRequest
    first, second = session.topic("a-first", partitions=3), session.topic("b-second", partitions=2)
    missing, last = session.name("aa-missing"), session.name("z-missing")

    def ask(step: str, *names: str, limit: int = 2000, at: tuple[str, int] | None = None) -> None:
        request = m.DescribeTopicPartitionsRequest(
            topics=[wanted(name=name) for name in names],
            response_partition_limit=limit,
            cursor=None if at is None else cursor(topic_name=at[0], partition_index=at[1]),
        )
        session.record(step, request, version)

    ask("limit of 0", first, limit=0)
    ask("negative limit", first, limit=-1)
    ask("limit of 1", first, second, limit=1)
    ask("limit of 5", first, second, limit=5)
    ask("unknown ones count", missing, first, limit=2)
    ask("an unknown one last", first, last, limit=3)
    ask("an unknown one behind a full page", first, last, limit=2)
    ask("cursor at a topic that has gone", missing, first, second, at=(missing, 1))
    ask("cursor at a topic that was not asked for", first, second, at=(missing, 1))
    ask("cursor behind all", first, second, at=(last, 0))
    ask("cursor before all", first, second, at=(session.name("a"), 4))
    ask("cursor behind the last partition", first, second, at=(first, 3))
    ask("cursor far behind the last partition", first, second, at=(first, 300))
    ask("the same, limit of 1", first, second, limit=1, at=(first, 300))
    ask("cursor at the end, limit of 1", first, second, limit=1, at=(second, 1))
    ask("cursor without a name", first, second, at=("", 0))
    ask("empty name", "")


# ---- access control where there is none ---------------------------------------------------------------------------


@scenario(ApiKey.DESCRIBE_ACLS, min_version=1)
def describe_acls_without_an_authorizer(session: WireSession, version: int) -> None:
    every = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    session.record("all", m.DescribeAclsRequest(**every), version)
    session.record("unknown kind", m.DescribeAclsRequest(**every | {"resource_type_filter": 99}), version)


@scenario(ApiKey.CREATE_ACLS, min_version=1)
def create_acls_without_an_authorizer(session: WireSession, version: int) -> None:
    one = create_acls_request.AclCreation(
        resource_type=2,
        resource_name=session.name("topic"),
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    )
    session.record("none", m.CreateAclsRequest(creations=[]), version)
    session.record("one", m.CreateAclsRequest(creations=[one]), version)
    session.record("two", m.CreateAclsRequest(creations=[one, one]), version)


@scenario(ApiKey.DELETE_ACLS, min_version=1)
def delete_acls_without_an_authorizer(session: WireSession, version: int) -> None:
    every = delete_acls_request.DeleteAclsFilter(
        resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1
    )
    session.record("none", m.DeleteAclsRequest(filters=[]), version)
    session.record("all", m.DeleteAclsRequest(filters=[every]), version)
    session.record("two", m.DeleteAclsRequest(filters=[every, every]), version)


# ---- passwords ----------------------------------------------------------------------------------------------------


@scenario(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
def alter_user_scram_credentials_for_real(session: WireSession, version: int) -> None:
    sc = alter_user_scram_credentials_request
    alice, bob = session.name("alice"), session.name("bob")

    def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096, **more: Any) -> Any:
        fields = {"salt": b"salt", "salted_password": bytes(32 if mechanism == SHA_256 else 64)} | more
        return sc.ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, **fields)

    def deletion(name: str, mechanism: int = SHA_256) -> Any:
        return sc.ScramCredentialDeletion(name=name, mechanism=mechanism)

    def ask(step: str, *upsertions: Any, deletions: list[Any] | None = None) -> None:
        request = m.AlterUserScramCredentialsRequest(deletions=deletions or [], upsertions=list(upsertions))
        session.record(step, request, version)
        session.record(f"{step}: described", m.DescribeUserScramCredentialsRequest(users=users), 0)

    users = [describe_user_scram_credentials_request.UserName(name=name) for name in (alice, bob)]
    ask("one", upsertion(alice))
    ask("one more of a user", upsertion(alice, SHA_512))
    ask("the same again, more iterations", upsertion(alice, iterations=8192))
    ask("fewest iterations of SHA-512", upsertion(bob, SHA_512))
    ask("too few iterations", upsertion(bob, iterations=4095))
    ask("most iterations", upsertion(bob, iterations=16_384))
    ask("too many iterations", upsertion(bob, iterations=16_385))
    ask("twice", upsertion(alice), upsertion(alice))
    ask("inserted and deleted", upsertion(alice), deletions=[deletion(alice)])
    ask("one inserted, the other deleted", upsertion(alice), deletions=[deletion(alice, SHA_512)])
    ask("good beside bad", upsertion(alice, iterations=4100), upsertion(bob, 9))
    ask("good and bad of one user", upsertion(alice, iterations=4200), upsertion(alice, 9))
    ask("deleted", deletions=[deletion(alice), deletion(bob)])
    ask("deleted again", deletions=[deletion(alice), deletion(bob, SHA_512)])
