"""Brokers of Apache Kafka 3.9 and of kavka on one ZooKeeper, both with the authorizer: one store of lists.

On listeners that authenticate nobody clients differ by their hosts: the administrator and the brokers are 127.0.0.1,
the client whose rights are in question calls from 127.0.0.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kavka.protocol import messages as m
from kavka.protocol.messages import alter_user_scram_credentials_request, create_topics_request
from kavka.security.acls import Operation, Permission
from kavka.security.resource_patterns import PatternType, ResourceType
from tests.apache_kafka import PeerMissing
from tests.apache_kafka.cluster import run_tool
from tests.kit.broker_client import BrokerClient, batch
from tests.kit.process_cluster import ProcessCluster, eventually
from tests.kit.rights_script import CLIENT, SETTINGS, add, creation, remove_all, reserve

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(700)]

KAFKA, KAVKA, SECOND = 0, 1, 2
TOPIC, PREFIXED = ResourceType.TOPIC, PatternType.PREFIXED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    try:
        brokers = ProcessCluster(
            tmp_path_factory.mktemp("mixed"),
            brokers=3,
            own_kinds={KAFKA: "kafka"},
            zookeeper="kavka",
            settings={**SETTINGS, "super.users": "User:CN=somebody,O=else;User:admin"},
        )
    except PeerMissing as missing:
        pytest.skip(str(missing))
    with brokers:
        brokers.start_zookeeper()
        for broker_id in (KAVKA, KAFKA, SECOND):
            brokers.start_broker(broker_id)
        with BrokerClient(port(brokers, KAVKA)) as admin:
            reserve(admin)
        for name in ("orders", "orders-1", "other"):
            created(brokers, name)
        yield brokers


def port(cluster: ProcessCluster, broker_id: int) -> int:
    return cluster.address(broker_id)[1]


def address(cluster: ProcessCluster, broker_id: int) -> str:
    return f"127.0.0.1:{port(cluster, broker_id)}"


def created(cluster: ProcessCluster, name: str) -> None:
    topic = create_topics_request.CreatableTopic(name=name, num_partitions=1, replication_factor=3)
    with BrokerClient(port(cluster, cluster.controller())) as admin:
        answer = admin.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 5)
    assert [each.error_code for each in answer.topics] == [0]


def shown_operations(cluster: ProcessCluster, broker_id: int, topic: str) -> int | None:
    """The bits of what the client may do to a topic, as this broker shows them; None where it is not shown."""
    wanted = m.metadata_request.MetadataRequestTopic(name=topic)
    request = m.MetadataRequest(
        topics=[wanted], include_topic_authorized_operations=True, allow_auto_topic_creation=False
    )
    with BrokerClient(port(cluster, broker_id), source=CLIENT) as client:
        (found,) = client.ask(request, 9).topics
    return None if found.error_code == 29 else int(found.topic_authorized_operations)


def bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


def everywhere(cluster: ProcessCluster, topic: str, expected: int | None) -> None:
    for broker_id in (KAFKA, KAVKA, SECOND):
        eventually(
            f"broker {broker_id} shows {expected} for {topic}",
            lambda broker_id=broker_id: shown_operations(cluster, broker_id, topic) == expected,
        )


@pytest.mark.parametrize("writer", [KAFKA, KAVKA], ids=["written at kafka", "written at kavka"])
def test_lists_that_are_written_at_either_are_in_force_at_both(cluster: ProcessCluster, writer: int) -> None:
    remover = KAVKA if writer == KAFKA else KAFKA
    with BrokerClient(port(cluster, writer)) as admin, BrokerClient(port(cluster, remover)) as other:
        everywhere(cluster, "orders-1", None)
        read = creation(TOPIC, "orders-1", Operation.READ, host=CLIENT)
        write = creation(TOPIC, "ord", Operation.WRITE, host=CLIENT, pattern=PREFIXED)
        assert add(admin, [read, write]) == [0, 0]
        everywhere(cluster, "orders-1", bits(Operation.READ, Operation.WRITE, Operation.DESCRIBE))
        # The other one adds to the very lists, and takes them away.
        deny = creation(TOPIC, "orders-1", Operation.READ, host=CLIENT, permission=Permission.DENY)
        assert add(other, [deny]) == [0]
        everywhere(cluster, "orders-1", bits(Operation.WRITE, Operation.DESCRIBE))
        remove_all(other, CLIENT)
        everywhere(cluster, "orders-1", None)


def test_both_ask_for_the_right_to_change_credentials_on_the_controller_only(cluster: ProcessCluster) -> None:
    deletion = alter_user_scram_credentials_request.ScramCredentialDeletion(name="nobody", mechanism=1)
    request = m.AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])
    found = {}
    for broker_id in (KAFKA, KAVKA, SECOND):
        with BrokerClient(port(cluster, broker_id), source=CLIENT) as client:
            found[broker_id] = [each.error_code for each in client.ask(request, 0).results]
    not_controller, not_allowed = [41], [31]
    controller = cluster.controller()
    assert found == {each: not_allowed if each == controller else not_controller for each in found}


def test_both_write_the_same_bytes_but_for_the_order_of_keys_and_entries(cluster: ProcessCluster) -> None:
    found: list[dict[str, Any]] = []
    names = ("plain", "with space", "ümlaut-注文", "a:b%2F\"quote'", "*", "x" * 249)
    for writer in (KAFKA, KAVKA):
        with BrokerClient(port(cluster, writer)) as admin:
            creations = [
                creation(kind, name, Operation.READ, host=CLIENT, pattern=pattern)
                for kind in (ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.USER)
                for name in names
                for pattern in (PatternType.LITERAL, PREFIXED)
            ]
            assert set(add(admin, creations)) == {0}
            znodes = {}
            for root in ("/kafka-acl", "/kafka-acl-extended/prefixed"):
                for kind in ("Group", "TransactionalId", "User"):
                    for name in cluster.zookeeper.get_children(f"{root}/{kind}"):
                        data, _stat = cluster.zookeeper.get(f"{root}/{kind}/{name}")
                        znodes[f"{root}/{kind}/{name}"] = canonical(data)
            changes = {}
            for root in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
                latest = sorted(cluster.zookeeper.get_children(root))[-18:]
                changes[root] = sorted(canonical(cluster.zookeeper.get(f"{root}/{name}")[0]) for name in latest)
            found.append({**znodes, **changes})
            remove_all(admin, CLIENT)
    theirs, ours = found
    assert theirs == ours
    assert len(theirs) > 36


def canonical(data: bytes | None) -> str:
    """JSON with its keys and entries in order, character by character as it is; other bytes as they are."""
    text = (data or b"").decode()
    if not text.startswith("{"):
        return text
    value = json.loads(text)
    if "acls" in value:
        value["acls"] = sorted(value["acls"], key=str)
    same = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert len(same) == len(text), "spaces or escapes that the other has not"
    return same


def entries(cluster: ProcessCluster, broker_id: int, principal: str) -> set[tuple[object, ...]]:
    """What this broker has of a principal."""
    every = m.DescribeAclsRequest(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=principal,
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    with BrokerClient(port(cluster, broker_id)) as admin:
        answer = admin.ask(every, 3)
    return {
        (resource.resource_type, resource.resource_name, resource.pattern_type, acl.host, acl.operation)
        for resource in answer.resources
        for acl in resource.acls
    }


@pytest.mark.thorough
@pytest.mark.parametrize("asked", [pytest.param(KAFKA, id="at kafka"), pytest.param(KAVKA, id="at kavka")])
def test_kafkas_own_tool_works_unmodified_on_either(cluster: ProcessCluster, asked: int) -> None:
    there = ("--bootstrap-server", address(cluster, asked))
    consumer = ("--consumer", "--allow-principal", "User:carol", "--topic", "orders-", "--group", "g-")
    producer = ("--producer", "--allow-principal", "User:dave", "--topic", "orders", "--transactional-id", "tx")
    prefixed = ("--resource-pattern-type", "prefixed")
    carol = {
        (TOPIC, "orders-", PREFIXED, "*", Operation.READ),
        (TOPIC, "orders-", PREFIXED, "*", Operation.DESCRIBE),
        (ResourceType.GROUP, "g-", PREFIXED, "*", Operation.READ),
    }
    dave = {
        *((TOPIC, "orders", PatternType.LITERAL, "*", each) for each in (Operation.WRITE, Operation.DESCRIBE)),
        (TOPIC, "orders", PatternType.LITERAL, "*", Operation.CREATE),
        (ResourceType.TRANSACTIONAL_ID, "tx", PatternType.LITERAL, "*", Operation.WRITE),
        (ResourceType.TRANSACTIONAL_ID, "tx", PatternType.LITERAL, "*", Operation.DESCRIBE),
        (ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, "*", Operation.IDEMPOTENT_WRITE),
    }

    def everywhere_are(of_carol: set[tuple[Any, ...]], of_dave: set[tuple[Any, ...]]) -> None:
        for broker_id in (KAFKA, KAVKA, SECOND):
            for principal, expected in (("User:carol", of_carol), ("User:dave", of_dave)):
                eventually(
                    f"broker {broker_id} has {expected} of {principal}",
                    lambda each=broker_id, who=principal, what=expected: entries(cluster, each, who) == what,
                )

    run_tool("zk", "kafka-acls", *there, "--add", *consumer, *prefixed, timeout_s=200)
    run_tool("zk", "kafka-acls", *there, "--add", *producer, "--idempotent", timeout_s=200)
    everywhere_are(carol, dave)
    listed = run_tool(
        "zk", "kafka-acls", *there, "--list", "--topic", "orders-1", *("--resource-pattern-type", "match")
    )
    assert "name=orders-, patternType=PREFIXED" in listed
    assert "principal=User:carol, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "User:dave" not in listed
    run_tool("zk", "kafka-acls", *there, "--remove", "--force", *consumer, *prefixed, timeout_s=200)
    run_tool("zk", "kafka-acls", *there, "--remove", "--force", *producer, "--idempotent", timeout_s=200)
    everywhere_are(set(), set())


def test_records_go_on_with_the_right_and_stop_without_whoever_leads(cluster: ProcessCluster) -> None:
    def produced(topic: str) -> set[int]:
        codes = set()
        for broker_id in (KAFKA, KAVKA, SECOND):
            with BrokerClient(port(cluster, broker_id), source=CLIENT) as client:
                codes.add(int(client.produce(topic, bytes(batch(b"v"))).error_code))
        return codes

    assert produced("other") == {29}
    with BrokerClient(port(cluster, KAFKA)) as admin:
        assert add(admin, [creation(TOPIC, "other", Operation.WRITE, host=CLIENT)]) == [0]
    # One leads, the others say so.
    eventually("it is taken", lambda: produced("other") == {0, 6})
    with BrokerClient(port(cluster, KAVKA)) as admin:
        remove_all(admin, CLIENT)
    eventually("it is refused", lambda: produced("other") == {29})
