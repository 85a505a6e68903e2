"""Tokens in ZooKeeper: the bytes that Apache Kafka 3.9.2 wrote, older forms, garbage."""

from __future__ import annotations

import json

import pytest

from kavka.zookeeper.delegation_token_znode import TokenNode
from kavka.zookeeper.znodes import MalformedZNode

BY_KAFKA = (
    b'{"issueTimestamp":1795424079877,"renewers":["User%3Abob","User%3ACN%3Dal%20ice%2CO%3D%2A%7E%C3%A9"],'
    b'"tokenRequester":"User%3Aalice","tokenId":"aZqNkIqhR0OogxunHXPW8Q","owner":"User%3Aalice",'
    b'"expiryTimestamp":1795510479877,"maxTimestamp":1796028879877,"version":3}'
)
"""Seen in the ZooKeeper of Apache Kafka 3.9.2."""


def test_a_token_is_written_as_kafka_writes_it() -> None:
    node = TokenNode(
        "aZqNkIqhR0OogxunHXPW8Q",
        "User:alice",
        "User:alice",
        ("User:bob", "User:CN=al ice,O=*~é"),
        1795424079877,
        1795510479877,
        1796028879877,
    )
    assert node.encode() == BY_KAFKA
    assert TokenNode.decode("/x", BY_KAFKA) == node


@pytest.mark.parametrize("version", [1, 2])
def test_before_version_3_the_owner_asked_for_it(version: int) -> None:
    values = json.loads(BY_KAFKA)
    del values["tokenRequester"]
    node = TokenNode.decode("/x", json.dumps(values | {"version": version, "owner": "User%3Acarol"}).encode())
    assert (node.owner, node.requester) == ("User:carol", "User:carol")


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"version": 0},
        {"owner": 7},
        {"renewers": "User%3Abob"},
        {"renewers": [1]},
        {"expiryTimestamp": "1"},
        {"expiryTimestamp": 1 << 63},
        {"maxTimestamp": None},
        {"tokenRequester": None},
        {"issueTimestamp": True},
    ],
)
def test_what_is_no_token_is_not_read(change: dict[str, object]) -> None:
    with pytest.raises(MalformedZNode):
        TokenNode.decode("/x", json.dumps(json.loads(BY_KAFKA) | change).encode())


@pytest.mark.parametrize("data", [None, b"", b"[]", b"\xff", b"{"])
def test_garbage_is_not_read(data: bytes | None) -> None:
    with pytest.raises(MalformedZNode):
        TokenNode.decode("/x", data)
