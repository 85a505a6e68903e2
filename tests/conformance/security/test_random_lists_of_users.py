"""Random access control lists over all types of resources, for a user who logs in: kavka gives the rights that Apache
Kafka 3.9 gives.

Beside topics, groups and the cluster (test_random_lists.py): transactional ids, users and tokens; nobody is let in
where no list is about a resource; and what is compared is what requests are answered that name allowed and denied
things at once. KAVKA_ALL_CLIENTS=1, as `make conformance` sets it, tries four times as many.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kavka.protocol import messages as m
from kavka.protocol.api import ApiKey
from kavka.protocol.messages import (
    add_partitions_to_txn_request,
    create_acls_request,
    create_topics_request,
    describe_configs_request,
    metadata_request,
)
from kavka.protocol.schema import Message
from kavka.security.acls import KNOWN_OPERATIONS, Operation, Permission
from kavka.security.resource_patterns import CLUSTER_NAME, PatternType, ResourceType
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit import token_script
from tests.kit.broker_client import BrokerClient
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually
from tests.kit.rights_script import add, codes, remove_all, wait_for_coordinators
from tests.kit.sasl_script import Wire

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

SETS = 60 if os.environ.get("KAVKA_ALL_CLIENTS") else 15
NAMES = ("a", "ab", "abc", "b", "A")
USERS = ("User:bob", "User:carol", "User:", "User:b", "*")
PRINCIPALS = ("User:alice", "User:alice", "User:*", "User:bob", "Group:alice")
HOSTS = ("*", "127.0.0.1", "127.0.0.9")
TYPES = (
    ResourceType.TOPIC,
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.TRANSACTIONAL_ID,
    ResourceType.CLUSTER,
    ResourceType.USER,
    ResourceType.DELEGATION_TOKEN,
)
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def drawn(dice: random.Random) -> list[create_acls_request.AclCreation]:
    found = []
    for _ in range(dice.randrange(1, 14)):
        kind = dice.choice(TYPES)
        pattern = dice.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED))
        name = dice.choice((*NAMES, "*"))
        if kind is ResourceType.CLUSTER:
            name, pattern = CLUSTER_NAME, PatternType.LITERAL
        if kind is ResourceType.USER:
            name = dice.choice(USERS)
        found.append(
            create_acls_request.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=dice.choice(PRINCIPALS),
                host=dice.choice(HOSTS),
                operation=dice.choice((Operation.ALL, *KNOWN_OPERATIONS[kind])),
                permission_type=dice.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
            )
        )
    return found


def _questions() -> Iterator[tuple[ApiKey, int, Message]]:
    topics = [metadata_request.MetadataRequestTopic(name=name) for name in NAMES]
    yield (
        ApiKey.METADATA,
        9,
        m.MetadataRequest(
            topics=topics,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
            allow_auto_topic_creation=False,
        ),
    )
    yield ApiKey.DESCRIBE_GROUPS, 5, m.DescribeGroupsRequest(groups=list(NAMES), include_authorized_operations=True)
    yield ApiKey.FIND_COORDINATOR, 4, m.FindCoordinatorRequest(key_type=1, coordinator_keys=list(NAMES))
    partitions = add_partitions_to_txn_request.AddPartitionsToTxnTopic
    for name in NAMES:
        offsets = m.AddOffsetsToTxnRequest(transactional_id=name, producer_id=99_999, group_id="ab")
        yield ApiKey.ADD_OFFSETS_TO_TXN, 3, offsets
        yield (
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            m.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=99_999,
                v3_and_below_producer_epoch=0,
                v3_and_below_topics=[partitions(name=each, partitions=[0]) for each in NAMES],
            ),
        )
    yield ApiKey.INIT_PRODUCER_ID, 4, m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    yield ApiKey.DESCRIBE_CLUSTER, 0, m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    fresh = [
        create_topics_request.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("abcd", "bb", "Z", "bb")
    ]
    yield ApiKey.CREATE_TOPICS, 7, m.CreateTopicsRequest(topics=fresh, validate_only=True, timeout_ms=10_000)
    resources = [
        describe_configs_request.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[])
        for kind, name in (*((2, name) for name in NAMES), (4, "1"))
    ]
    yield ApiKey.DESCRIBE_CONFIGS, 4, m.DescribeConfigsRequest(resources=resources)
    yield ApiKey.DESCRIBE_TRANSACTIONS, 0, m.DescribeTransactionsRequest(transactional_ids=list(NAMES))
    yield ApiKey.DELETE_GROUPS, 2, m.DeleteGroupsRequest(groups_names=list(NAMES))
    yield ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, m.DescribeUserScramCredentialsRequest(users=[])


def rights(wire: Wire) -> dict[str, Any]:
    """What a user is answered."""
    found: dict[str, Any] = {}
    for number, (key, version, request) in enumerate(_questions()):
        found[f"{key.name} {number}"] = sorted(codes(wire.ask(key, version, request)), key=str)
    every = wire.ask(ApiKey.METADATA, 9, m.MetadataRequest(topics=None))
    found["every topic"] = sorted(topic.name for topic in every.topics if topic.name in NAMES)
    transactions = wire.ask(ApiKey.LIST_TRANSACTIONS, 0, m.ListTransactionsRequest())
    found["every transaction"] = sorted(each.transactional_id for each in transactions.transaction_states)
    for owner in ("User:bob", "User:carol"):
        found[f"a token of {owner}"] = token_script.create(wire, owner=owner)[1]["error"]
    error, seen = token_script.describe(wire)
    found["owners of tokens"] = error, sorted({(owner, requester) for owner, requester, *_ in seen})
    return found


def has_state(admin: BrokerClient, name: str) -> bool:
    begun = admin.ask(m.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
    group = admin.ask(m.DescribeGroupsRequest(groups=[name]), 5).groups[0]
    return (begun.error_code, group.error_code) == (0, 0)


def shown(port: int, plaintext_port: int) -> list[dict[str, Any]]:
    """By set of entries."""
    found = []
    with BrokerClient(plaintext_port) as admin:
        for name in NAMES:
            admin.create_topic(name)
        wait_for_coordinators(admin)
        for name in NAMES:
            eventually(f"{name} has a transaction", lambda: has_state(admin, name))  # noqa: B023
        for number in range(SETS):
            assert set(add(admin, drawn(random.Random(number)))) == {0}
            with token_script.logged_in(port, "alice") as alice:
                found.append(rights(alice))
            assert remove_all(admin).filter_results[0].error_code == 0
    return found


@pytest.mark.timeout(900)
def test_the_same_lists_give_a_user_the_same_rights(tmp_path: Path) -> None:
    try:
        kafka = ApacheKafka(tmp_path / "zk", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    port = free_port()
    kafka.set({**token_script.settings(port, kafka.port), **SETTINGS})
    with kafka:
        theirs = shown(port, kafka.port)
    own = {name: text for name, text in token_script.settings(0, 0).items() if not name.endswith("listeners")}

    async def scenario() -> list[dict[str, Any]]:
        listener = token_script.LISTENER
        async with InProcessCluster(
            tmp_path / "kavka", count=1, settings={**own, **SETTINGS}, more_listeners=[listener]
        ) as cluster:
            ((_host, plaintext_port),) = cluster.bootstrap
            return await asyncio.to_thread(shown, cluster.ports_of[listener][1], plaintext_port)

    ours = asyncio.run(asyncio.wait_for(scenario(), 400))
    for number, (kafkas, kavkas) in enumerate(zip(theirs, ours, strict=True)):
        different = {what: (kafkas[what], kavkas[what]) for what in kafkas if kafkas[what] != kavkas[what]}
        assert not different, f"set {number}, Kafka and kavka: {different}"
