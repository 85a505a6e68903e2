"""Random access control lists: kavka shows the same rights as Apache Kafka 3.9, bit by bit.

The same entries are added to both; then clients at two hosts ask what shows their rights: the bits of operations that
they may do on topics, groups and the cluster, whether they may have a producer id (Write on any topic), and what
DescribeAcls finds. KAVKA_ALL_CLIENTS=1, as `make conformance` sets it, tries five times as many.
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
from kavka.protocol.messages import create_acls_request, delete_acls_request
from kavka.protocol.messages.metadata_request import MetadataRequestTopic
from kavka.security.acls import KNOWN_OPERATIONS, Operation, Permission
from kavka.security.resource_patterns import PatternType, ResourceType
from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.broker_client import BrokerClient
from tests.kit.process_cluster import eventually
from tests.kit.rights_script import CLUSTER, SETTINGS, add, creation

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]

ONE_PARTITION = {**SETTINGS, "offsets.topic.num.partitions": "1"}
SETS = 100 if os.environ.get("KAVKA_ALL_CLIENTS") else 20
HOSTS = ("127.0.0.2", "127.0.0.3")
ADMINISTRATOR = "127.0.0.1"
NAMES = ("a", "ab", "abc", "b", "*", "A", "a.b_c-1")
TOPICS = ("a", "ab", "abc", "b", "A", "a.b_c-1")
TOPIC, GROUP, KAFKA_CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
PRINCIPALS = ("User:ANONYMOUS", "User:ANONYMOUS", "User:*", "User:other", "Group:ANONYMOUS", "Group:*")


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    try:
        broker = ApacheKafka(tmp_path_factory.mktemp("lists") / "zk", settings=ONE_PARTITION, heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with broker:
        yield broker


def drawn(dice: random.Random) -> list[create_acls_request.AclCreation]:
    """Some entries; the administrator keeps its right on the cluster."""
    found = []
    for _ in range(dice.randrange(1, 13)):
        kind = dice.choice((TOPIC, TOPIC, TOPIC, GROUP, KAFKA_CLUSTER))
        pattern = dice.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED))
        name = dice.choice(NAMES)
        permission = dice.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY))
        host = dice.choice((*HOSTS, "*"))
        if kind is KAFKA_CLUSTER:
            name, pattern = CLUSTER, PatternType.LITERAL
            host = host if permission is Permission.ALLOW else dice.choice(HOSTS)
        operation = dice.choice((Operation.ALL, *KNOWN_OPERATIONS[kind]))
        one = creation(kind, name, operation, host=host, permission=permission, pattern=pattern)
        one.principal = dice.choice(PRINCIPALS)
        found.append(one)
    dice.shuffle(found)
    return [creation(KAFKA_CLUSTER, CLUSTER, Operation.ALL, host=ADMINISTRATOR), *found]


def remove_everything(admin: BrokerClient) -> None:
    """What keeps the administrator its right goes last."""
    every = delete_acls_request.DeleteAclsFilter(
        resource_type_filter=TOPIC,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    for kind in (TOPIC, GROUP, KAFKA_CLUSTER):
        every.resource_type_filter = kind
        answer = admin.ask(m.DeleteAclsRequest(filters=[every]), 3)
        assert [result.error_code for result in answer.filter_results] == [0]


def rights(client: BrokerClient) -> dict[str, Any]:
    """What a client is shown."""
    wanted = [MetadataRequestTopic(name=name) for name in TOPICS]
    about = m.MetadataRequest(
        topics=wanted,
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
        allow_auto_topic_creation=False,
    )
    found: dict[str, Any] = {}
    answer = client.ask(about, 9)
    found["cluster"] = answer.cluster_authorized_operations
    for topic in answer.topics:
        found[f"topic {topic.name}"] = (topic.error_code, topic.topic_authorized_operations)
    every = client.ask(m.MetadataRequest(topics=None), 9)
    found["every topic"] = sorted(topic.name for topic in every.topics if topic.name in TOPICS)
    groups = m.DescribeGroupsRequest(groups=list(TOPICS), include_authorized_operations=True)
    for group in client.ask(groups, 4).groups:
        found[f"group {group.group_id}"] = (group.error_code, group.authorized_operations)
    producer = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
    found["producer"] = client.ask(producer, 4).error_code
    return found


def serves_groups(client: BrokerClient) -> bool:
    client.ask(m.FindCoordinatorRequest(key="a", key_type=0), 3)  # Makes the topic of offsets.
    found = rights(client)
    return found["producer"] == 0 and all(found[f"group {name}"][0] == 0 for name in TOPICS)


def matching(admin: BrokerClient, name: str) -> list[Any]:
    """What DescribeAcls finds for a topic, by all patterns that apply."""
    request = m.DescribeAclsRequest(
        resource_type_filter=TOPIC,
        resource_name_filter=name,
        pattern_type_filter=PatternType.MATCH,
        principal_filter=None,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    return sorted(
        (resource.resource_name, resource.pattern_type, acl.principal, acl.host, acl.operation, acl.permission_type)
        for resource in admin.ask(request, 3).resources
        for acl in resource.acls
    )


def shown(port: int) -> list[dict[str, Any]]:
    """By set of entries."""
    found = []
    with BrokerClient(port) as admin:
        for name in TOPICS:
            admin.create_topic(name)
        eventually("groups and producer ids are served", lambda: serves_groups(admin), timeout_s=150, every_s=0.5)
        for number in range(SETS):
            creations = drawn(random.Random(number))
            assert set(add(admin, creations)) == {0}
            one: dict[str, Any] = {f"lists of {name}": matching(admin, name) for name in TOPICS}
            for host in HOSTS:
                with BrokerClient(port, source=host) as client:
                    one |= {f"{what} from {host}": seen for what, seen in rights(client).items()}
            found.append(one)
            remove_everything(admin)
    return found


@pytest.mark.timeout(1_500)
def test_the_same_lists_give_the_same_rights(kafka: ApacheKafka, tmp_path: Path) -> None:
    theirs = shown(int(kafka.bootstrap.rpartition(":")[2]))

    async def scenario() -> list[dict[str, Any]]:
        async with InProcessCluster(tmp_path, count=1, settings=ONE_PARTITION) as cluster:
            ((_host, port),) = cluster.bootstrap
            return await asyncio.to_thread(shown, port)

    ours = asyncio.run(asyncio.wait_for(scenario(), 700))
    for number, (kafkas, kavkas) in enumerate(zip(theirs, ours, strict=True)):
        different = {what: (kafkas[what], kavkas[what]) for what in kafkas if kafkas[what] != kavkas[what]}
        assert not different, f"set {number}, Kafka and kavka: {different}"
