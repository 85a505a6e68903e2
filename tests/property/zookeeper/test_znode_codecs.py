"""Any value of a znode survives its bytes; any bytes are a value or a MalformedZNode."""

from __future__ import annotations

import json
import uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.model import BrokerId, TopicPartition
from kavka.zookeeper.znode_paths import desanitize, sanitize
from kavka.zookeeper.znodes import (
    BrokerEndpoint,
    BrokerRegistration,
    ConfigEntity,
    FeatureNode,
    MalformedZNode,
    PartitionState,
    TopicAssignment,
)

T0 = TopicPartition("t", 0)
numbers = st.integers(-(1 << 31), (1 << 31) - 1)
brokers = st.integers(0, (1 << 31) - 1).map(BrokerId)
replicas = st.lists(brokers, max_size=5).map(tuple)
states = st.builds(PartitionState, brokers, numbers, replicas, numbers, leader_recovery_state=st.sampled_from([0, 1]))
lists = st.dictionaries(st.integers(0, 999_999_999), replicas, max_size=20)
assignments = st.builds(
    TopicAssignment,
    st.just("t"),
    lists,
    st.none() | st.binary(min_size=16, max_size=16).map(lambda data: uuid.UUID(bytes=data)),
    lists,
    lists,
)
words = st.from_regex(r"[A-Z_]{1,10}", fullmatch=True)
endpoints = st.builds(
    BrokerEndpoint,
    words,
    words,
    st.sampled_from(["localhost", "127.0.0.1", "::1", "fe80::1", "a.b-c"]),
    st.integers(0, 65_535),
)
registrations = st.builds(
    BrokerRegistration,
    st.just(BrokerId(1)),
    st.lists(endpoints, max_size=3, unique_by=lambda endpoint: endpoint.listener_name).map(tuple),
    st.integers(-1, 1 << 50),
    rack=st.none() | st.text(),
    jmx_port=numbers,
    features=st.dictionaries(st.text(), st.tuples(numbers, numbers), max_size=3),
)
texts = st.text(st.characters(exclude_categories=["Cs"]))


@given(states)
def test_states(state: PartitionState) -> None:
    assert PartitionState.decode(T0, state.encode()) == state
    assert json.dumps(json.loads(state.encode()), separators=(",", ":")).encode() == state.encode()


@given(assignments)
def test_assignments(assignment: TopicAssignment) -> None:
    found = TopicAssignment.decode("t", assignment.encode())
    assert found == assignment
    assert list(found.partitions) == sorted(assignment.partitions)


@given(registrations)
def test_registrations(registration: BrokerRegistration) -> None:
    assert BrokerRegistration.decode(1, registration.encode()) == registration


@given(st.dictionaries(texts, texts, max_size=5))
def test_configurations(config: dict[str, str]) -> None:
    assert ConfigEntity.decode("topics/t", ConfigEntity(config).encode()) == ConfigEntity(config)


@given(texts.filter(lambda name: name != "<default>"))
def test_sanitized_names_are_one_path_component(name: str) -> None:
    assert desanitize(sanitize(name)) == name
    assert not set(sanitize(name)) & set("/*<> ")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = sorted(
    set(json.loads(PartitionState(BrokerId(1), 0, (), 0, 1).encode()))
    | set(json.loads(TopicAssignment("t", {}, uuid.UUID(int=0)).encode()))
    | set(json.loads(BrokerRegistration(BrokerId(1), (), 0, rack="r").encode()))
    | set(json.loads(FeatureNode(enabled=True).encode()))
)


@settings(max_examples=300)
@given(
    st.binary(max_size=20) | st.dictionaries(st.sampled_from(KEYS), json_values).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_a_value_or_malformed(data: bytes) -> None:
    for decode in (
        lambda: PartitionState.decode(T0, data),
        lambda: TopicAssignment.decode("t", data),
        lambda: BrokerRegistration.decode(1, data),
        lambda: FeatureNode.decode(data),
    ):
        try:
            decode()
        except MalformedZNode:
            continue
