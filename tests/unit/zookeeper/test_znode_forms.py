"""Bytes of every znode, as a running Apache Kafka 3.9.2 wrote them, and what becomes of garbage."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest

from kavka.model import BrokerId, LeaderAndIsr, TopicPartition
from kavka.zookeeper import znode_paths, znodes
from kavka.zookeeper.access_list_znodes import AccessEntry, AccessList, AccessListChange
from kavka.zookeeper.znodes import (
    BrokerEndpoint,
    BrokerRegistration,
    ClusterId,
    ConfigChange,
    ConfigEntity,
    ControllerNode,
    FeatureNode,
    IsrChangeNotification,
    LogDirEvent,
    MalformedZNode,
    PartitionState,
    PreferredReplicaElection,
    ProducerIdBlock,
    ReassignPartitions,
    TopicAssignment,
    UncleanShutdowns,
)

T0 = TopicPartition("t", 0)
TOPIC_ID = znodes.decode_uuid("zCEoJUlESX6yiOILiua8_g")


def broker(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


FORMS: list[tuple[object, bytes, Callable[[bytes | None], object]]] = [
    (ClusterId("sPVnR4m3T06BkuhuRbDWLw"), b'{"version":"1","id":"sPVnR4m3T06BkuhuRbDWLw"}', ClusterId.decode),
    (
        BrokerRegistration(BrokerId(1), (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 29700),), 1795234246421),
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://127.0.0.1:29700"],"jmx_port":-1,"port":29700,"host":"127.0.0.1","version":5,'
        b'"timestamp":"1795234246421"}',
        lambda data: BrokerRegistration.decode(1, data),
    ),
    (
        BrokerRegistration(
            BrokerId(1), (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 29700),), 1795235137692, rack="r1"
        ),
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://127.0.0.1:29700"],"rack":"r1","jmx_port":-1,"port":29700,"host":"127.0.0.1",'
        b'"version":5,"timestamp":"1795235137692"}',
        lambda data: BrokerRegistration.decode(1, data),
    ),
    (
        TopicAssignment("t", {0: (1,), 1: (1,), 2: (1,)}, TOPIC_ID),
        b'{"partitions":{"0":[1],"1":[1],"2":[1]},"topic_id":"zCEoJUlESX6yiOILiua8_g","adding_replicas":{},'
        b'"removing_replicas":{},"version":3}',
        lambda data: TopicAssignment.decode("t", data),
    ),
    (
        PartitionState(BrokerId(1), 0, broker(1), 1),
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}',
        lambda data: PartitionState.decode(T0, data),
    ),
    (
        PartitionState(BrokerId(1), 3, broker(1, 2), 5, leader_recovery_state=znodes.RECOVERING),
        b'{"controller_epoch":5,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":3,"isr":[1,2]}',
        lambda data: PartitionState.decode(T0, data),
    ),
    (
        PartitionState(BrokerId(-1), 3, broker(1), 5, znodes.RECOVERED, broker(3, 2), broker(1)),
        b'{"controller_epoch":5,"leader":-1,"version":1,"leader_epoch":3,"isr":[1],"eligible_leader_replicas":[3,2],'
        b'"last_known_elr":[1]}',
        lambda data: PartitionState.decode(T0, data),
    ),
    (
        BrokerRegistration(
            BrokerId(1),
            (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 29700),),
            1795234246421,
            is_unclean=True,
        ),
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        b'"endpoints":["PLAINTEXT://127.0.0.1:29700"],"jmx_port":-1,"port":29700,"host":"127.0.0.1","version":5,'
        b'"timestamp":"1795234246421","unclean_shutdown":true}',
        lambda data: BrokerRegistration.decode(1, data),
    ),
    (
        UncleanShutdowns({BrokerId(2): 77, BrokerId(10): 5}),
        b'{"version":1,"acted_on":{"2":77,"10":5}}',
        UncleanShutdowns.decode,
    ),
    (
        ControllerNode(BrokerId(1), 1795234246556),
        b'{"version":2,"brokerid":1,"timestamp":"1795234246556","kraftControllerEpoch":-1}',
        ControllerNode.decode,
    ),
    (
        IsrChangeNotification((T0,)),
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
        lambda data: IsrChangeNotification.decode("/isr_change_notification/isr_change_0000000000", data),
    ),
    (
        PreferredReplicaElection((T0,)),
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
        PreferredReplicaElection.decode,
    ),
    (
        ReassignPartitions({T0: [1, 2]}),
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
        ReassignPartitions.decode,
    ),
    (
        ConfigEntity({"cleanup.policy": "compact,delete", "retention.ms": "1000"}),
        b'{"version":1,"config":{"cleanup.policy":"compact,delete","retention.ms":"1000"}}',
        lambda data: ConfigEntity.decode("topics/t", data),
    ),
    (
        ConfigChange("users/al%20ice%2F1%2A"),
        b'{"version":2,"entity_path":"users/al%20ice%2F1%2A"}',
        lambda data: ConfigChange.decode("/config/changes/config_change_0000000000", data),
    ),
    (
        LogDirEvent(BrokerId(1)),
        b'{"version":1,"broker":1,"event":1}',
        lambda data: LogDirEvent.decode("/log_dir_event_notification/log_dir_event_0000000000", data),
    ),
    (
        ProducerIdBlock(BrokerId(1), 0, 999),
        b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
        ProducerIdBlock.decode,
    ),
    (FeatureNode(enabled=True), b'{"features":{},"version":2,"status":1}', FeatureNode.decode),
    (
        AccessList((AccessEntry("User:*", "Deny", "10.0.0.1", "All"),)),
        b'{"acls":[{"principal":"User:*","permissionType":"Deny","host":"10.0.0.1","operation":"All"}],"version":1}',
        lambda data: AccessList.decode("/kafka-acl/Group/g", data),
    ),
    (
        AccessListChange("TOPIC", "pre", prefixed=True),
        b'{"version":1,"resourceType":"TOPIC","name":"pre","patternType":"PREFIXED"}',
        lambda data: AccessListChange.decode("/kafka-acl-extended-changes/acl_changes_0000000000", data),
    ),
    (
        AccessListChange("TOPIC", "foo:bar", prefixed=False),
        b"TOPIC:foo:bar",
        lambda data: AccessListChange.decode("/kafka-acl-changes/acl_changes_0000000000", data),
    ),
]


@pytest.mark.parametrize(("value", "data", "decode"), FORMS, ids=[type(value).__name__ for value, _, _ in FORMS])
def test_every_form_is_written_and_read_as_kafka_does(
    value: object, data: bytes, decode: Callable[[bytes | None], object]
) -> None:
    assert value.encode() == data  # type: ignore[attr-defined]
    assert decode(data) == value


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        b"",
        b"garbage",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"version":1}',
        b'{"version":',
        b"[" * 100_000,
        b'{"version":99999999999999999999}',
    ],
)
@pytest.mark.parametrize(
    "decode", [decode for _, _, decode in FORMS], ids=[type(value).__name__ for value, _, _ in FORMS]
)
def test_garbage_is_named_with_its_path(decode: Callable[[bytes | None], object], garbage: bytes | None) -> None:
    if not garbage and _may_be_empty(decode):
        return
    with pytest.raises(MalformedZNode, match=r"^/"):
        decode(garbage)


def _may_be_empty(decode: Callable[[bytes | None], object]) -> bool:
    try:
        decode(None)
    except MalformedZNode:
        return False
    return True


@pytest.mark.parametrize(
    "data",
    [
        b'{"controller_epoch":1,"leader":"1","version":1,"leader_epoch":0,"isr":[1]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1.5]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[true]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":2147483648,"isr":[1]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"isr":[1]}',
        b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":{}}',
    ],
)
def test_a_state_with_a_wrong_field_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedZNode, match="/brokers/topics/t/partitions/0/state: malformed"):
        PartitionState.decode(T0, data)


@pytest.mark.parametrize("partitions", ['{"x":[1]}', '{"-1":[1]}', '{"0":1}', '{"0":["1"]}', "[]"])
def test_an_assignment_with_a_wrong_partition_is_malformed(partitions: str) -> None:
    with pytest.raises(MalformedZNode):
        TopicAssignment.decode("t", f'{{"version":3,"partitions":{partitions}}}'.encode())


def test_older_forms_are_read() -> None:
    assert TopicAssignment.decode("t", b'{"version":1,"partitions":{"1":[2],"0":[1]}}') == TopicAssignment(
        "t", {0: (1,), 1: (2,)}, None
    )
    old_broker = b'{"version":1,"host":"h","port":9092,"jmx_port":9,"timestamp":"5"}'
    assert BrokerRegistration.decode(3, old_broker) == BrokerRegistration(
        BrokerId(3), (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), 5, jmx_port=9
    )
    listeners_only = b'{"version":3,"endpoints":["SSL://[::1]:9093"],"rack":null,"timestamp":1}'
    found = BrokerRegistration.decode(3, listeners_only)
    assert found.endpoints == (BrokerEndpoint("SSL", "SSL", "::1", 9093),)
    assert found.rack is None
    assert ConfigChange.decode("/c", b'{"version":1,"entity_type":"topics","entity_name":"t"}') == ConfigChange(
        "topics/t"
    )
    with pytest.raises(MalformedZNode):
        ConfigChange.decode("/c", b'{"version":3,"entity_path":"topics/t"}')


def test_a_broker_without_a_plaintext_listener_has_no_host_of_old() -> None:
    registration = BrokerRegistration(
        BrokerId(1),
        (BrokerEndpoint("INSIDE", "SASL_SSL", "h", 1), BrokerEndpoint("OUTSIDE", "SSL", "::1", 2)),
        7,
        features={"f": (1, 3)},
    )
    data = registration.encode()
    assert b'"port":-1,"host":null' in data
    assert b'"endpoints":["INSIDE://h:1","OUTSIDE://[::1]:2"]' in data
    assert b'"features":{"f":{"min_version":1,"max_version":3}}' in data
    assert BrokerRegistration.decode(1, data) == registration


def test_a_topic_in_reassignment_keeps_what_comes_and_goes() -> None:
    assignment = TopicAssignment("t", {1: (1, 2, 3), 0: (1,)}, TOPIC_ID, {1: (3,)}, {1: (2,)})
    data = assignment.encode()
    assert data.startswith(b'{"partitions":{"0":[1],"1":[1,2,3]}')
    assert b'"adding_replicas":{"1":[3]},"removing_replicas":{"1":[2]}' in data
    assert TopicAssignment.decode("t", data) == assignment


def test_paths() -> None:
    assert znode_paths.broker_path(7) == "/brokers/ids/7"
    assert znode_paths.topic_path("t") == "/brokers/topics/t"
    assert znode_paths.topic_partitions_path("t") == "/brokers/topics/t/partitions"
    assert znode_paths.partition_path(T0) == "/brokers/topics/t/partitions/0"
    assert znode_paths.partition_state_path(T0) == "/brokers/topics/t/partitions/0/state"
    assert znode_paths.delete_topic_path("t") == "/admin/delete_topics/t"
    assert znode_paths.topic_config_path("t") == "/config/topics/t"
    assert znode_paths.broker_config_path(None) == "/config/brokers/<default>"
    assert znode_paths.broker_config_path(1) == "/config/brokers/1"
    assert znode_paths.acl_path("Topic", "a", prefixed=True) == "/kafka-acl-extended/prefixed/Topic/a"
    assert znode_paths.acl_path("Topic", "a", prefixed=False) == "/kafka-acl/Topic/a"
    assert znodes.sequence_number("/config/changes/config_change_0000000012") == 12
    with pytest.raises(MalformedZNode):
        znodes.sequence_number("config_change_x")


def test_parents_stand_before_their_children() -> None:
    for paths in (znode_paths.PERSISTENT_PATHS, znode_paths.ACL_PERSISTENT_PATHS):
        for index, path in enumerate(paths):
            parent = path.rpartition("/")[0]
            assert not parent or parent in paths[:index]


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("al ice/1*", "al%20ice%2F1%2A"),
        ("bob", "bob"),
        ("<default>", "%3Cdefault%3E"),
        ("ü~-_.", "%C3%BC%7E-_."),
        ("", ""),
    ],
)
def test_names_of_users_are_sanitized_like_kafkas(name: str, component: str) -> None:
    assert znode_paths.sanitize(name) == component
    assert znode_paths.desanitize(component) == name


def test_ids_are_version_four_and_begin_with_no_dash() -> None:
    assert znodes.decode_uuid(znodes.encode_uuid(TOPIC_ID)) == TOPIC_ID
    for first in range(256):
        value = znodes.random_uuid(bytes([first]) + bytes(range(15)))
        assert value.version == 4
        assert value.variant == uuid.RFC_4122
        assert not znodes.encode_uuid(value).startswith("-")
    for text in ("", "short", "x" * 23, "zCEoJUlESX6yiOILiua8/g"):
        with pytest.raises(MalformedZNode):
            znodes.decode_uuid(text)


def test_the_controller_epoch_is_text() -> None:
    assert znodes.encode_controller_epoch(12) == b"12"
    assert znodes.decode_controller_epoch(b"12") == 12
    for garbage in (None, b"", b"x", b"1.5", b"\xff", b"1" * 11):
        with pytest.raises(MalformedZNode):
            znodes.decode_controller_epoch(garbage)


def test_an_unclean_stop_is_of_a_broker_and_an_epoch() -> None:
    for garbage in (b'{"acted_on":{"x":1}}', b'{"acted_on":{"1":"2"}}', b'{"acted_on":{"1":true}}'):
        with pytest.raises(MalformedZNode):
            UncleanShutdowns.decode(garbage)


def test_a_state_tells_its_leader_and_isr() -> None:
    state = PartitionState(BrokerId(1), 3, broker(1, 2), 5)
    assert state.leader_and_isr(9) == LeaderAndIsr(BrokerId(1), 3, broker(1, 2), 9)


@pytest.mark.parametrize(
    "data",
    [
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3,"isr":[1,2,3]}',
        b'{"controller_epoch":0,"leader":-1,"version":1,"leader_epoch":0,"isr":[0]}',
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3,"isr":[]}',
        b'{"controller_epoch":2147483647,"leader":1,"version":1,"leader_epoch":2147483647,"isr":[2147483647]}',
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":3,"isr":[1]}',
        b'{"controller_epoch": 7, "leader": 1, "version": 1, "leader_epoch": 3, "isr": [1, 2]}',
        b'{"isr":[1,2],"leader":1,"version":1,"leader_epoch":3,"controller_epoch":7}',
        b'{"controller_epoch":07,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}',
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3,"isr":[01]}',
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3,"isr":[1,]}',
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3000000000,"isr":[1]}',
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":3,"isr":[1]}\n',
    ],
)
def test_a_state_in_the_usual_form_is_what_json_makes_of_it(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded() -> PartitionState | str:
        try:
            return PartitionState.decode(T0, data)
        except MalformedZNode as malformed:
            return str(malformed)

    found = decoded()
    monkeypatch.setattr("kavka.zookeeper.znodes._USUAL_STATE", re.compile(rb"(?!)"))
    assert found == decoded()
