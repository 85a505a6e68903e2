"""DescribeGroups of what is not there, and of what is named more than once."""

from __future__ import annotations

from typing import Any

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import ConsumerGroupDescribeRequest, DescribeGroupsRequest, FindCoordinatorRequest
from kavka.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kavka.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kavka.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kavka.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from tests.kit.broker_client import BrokerClient
from tests.kit.kavka_process import KavkaProcess
from tests.kit.process_cluster import eventually

NOT_TOLD = -(2**31)


def test_nobody_is_told_what_may_be_done_with_a_group_that_is_not_there(kavka_broker: KavkaProcess) -> None:
    """As Apache Kafka 4.3; a sequence of random requests beside it found the difference."""
    asked = DescribeGroupsRequest(groups=["nobody"], include_authorized_operations=True)
    with BrokerClient(kavka_broker.port) as client:
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["nobody"]), 4)
        eventually("the coordinator serves", lambda: not client.ask(asked, 5).groups[0].error_code)
        described = client.ask(asked, 6).groups[0]
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert described.authorized_operations == NOT_TOLD


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        (ConsumerGroupDescribeRequest(group_ids=["b", "a", "b"]), 1),
        (ShareGroupDescribeRequest(group_ids=["b", "a", "b"]), 1),
        (StreamsGroupDescribeRequest(group_ids=["b", "a", "b"]), 0),
        (
            DescribeShareGroupOffsetsRequest(
                groups=[DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=None) for name in ("b", "a", "b")]
            ),
            1,
        ),
    ],
)
def test_a_group_is_described_once_however_often_it_is_named(
    kavka_broker: KavkaProcess, asked: Any, version: int
) -> None:
    """Apache Kafka describes it again each time; fifty times a large application held the broker up for seconds."""
    with BrokerClient(kavka_broker.port) as client:
        assert [group.group_id for group in client.ask(asked, version).groups] == ["b", "a"]


def test_all_offsets_of_a_group_are_told_once_however_often_it_is_named(kavka_broker: KavkaProcess) -> None:
    """A group of 10,000 offsets that a request of 30 KB names 10,000 times would make an answer of gigabytes."""
    every = OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=name, member_id=member, topics=None)
            for name, member in (("b", ""), ("a", ""), ("b", ""), ("b", "another"))
        ]
    )
    with BrokerClient(kavka_broker.port) as client:
        assert [group.group_id for group in client.ask(every, 9).groups] == ["b", "a"]


@pytest.mark.parametrize("version", [7, 9])
def test_a_partition_s_offset_is_told_once_however_often_it_is_named(kavka_broker: KavkaProcess, version: int) -> None:
    """Four bytes of a request bring what was committed with the offset, which may have four thousand."""
    if version < 8:
        old = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1, 0])
        asked = OffsetFetchRequest(group_id="g", topics=[old, old])
    else:
        new = OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1, 0])
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[new, new])] * 3)
    with BrokerClient(kavka_broker.port) as client:
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        answer = eventually("the coordinator serves", lambda: _without_error(client.ask(asked, version)))
    found = answer.groups if version > 7 else [answer]
    assert [
        [(topic.name, [one.partition_index for one in topic.partitions]) for topic in one.topics] for one in found
    ] == [[("t", [0, 1])]]


def _without_error(answer: Any) -> Any:
    return None if any(one.error_code for one in answer.groups) or answer.error_code else answer
