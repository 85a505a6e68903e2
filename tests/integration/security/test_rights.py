"""A broker with access control lists: what it answers to a client with no right, and with each needed right alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.rights_script import SETTINGS, run

DENIED = {29, 30, 31, 53}


def answered_codes(found: Any) -> set[Any]:
    assert isinstance(found, list)
    return {code for path, code in found if path.endswith("error_code")}


@pytest.mark.setting("authorizer.class.name", "allow.everyone.if.no.acl.found")
def test_each_api_answers_what_it_may_and_no_more(tmp_path: Path) -> None:
    async def scenario() -> dict[str, Any]:
        async with InProcessCluster(tmp_path, count=1, settings=SETTINGS) as cluster:
            ((_host, port),) = cluster.bootstrap
            return await asyncio.to_thread(run, port)

    found = asyncio.run(asyncio.wait_for(scenario(), 280))
    for name, outcome in found.items():
        codes = answered_codes(outcome)
        if name.endswith("with nothing"):
            assert codes <= {0} | DENIED | ASKED_BEFORE.get(name.partition(" with ")[0], set()), name
            assert codes & DENIED or name.partition(" with ")[0] in FILTERED, name
    for name in SUFFICIENT:
        assert not answered_codes(found[name]) & DENIED, name
    for name in INSUFFICIENT:
        assert answered_codes(found[name]) & DENIED, name
    for name, expected in IN_ORDER.items():
        assert [code for path, code in found[name] if path.endswith("error_code")] == expected, name
    assert paths(found["Metadata of all with Describe Topic:orders"], "topics") == {"orders"}
    assert not paths(found["Metadata of all with nothing"], "topics")


ASKED_BEFORE = {
    "DescribeProducers, some of them refused": {17},
    "CreateTopics of KRaft's log": {42},
    "CreateTopics, one of them named twice": {42},
}
"""What is wrong whoever asks."""
IN_ORDER = {
    "DescribeUserScramCredentials of named ones with nothing": [31, 31, 31, 31],
    "FindCoordinator of repeated ids with Describe TransactionalId:x": [0, 53, 0, 53, 53, 0],
    "DescribeTransactions, some of them refused with Describe TransactionalId:x": [53, 0, 53, 0, 53],
    "DescribeProducers, some of them refused with Read Topic:orders": [29, 0, 29, 17, 0],
    "DescribeGroups, some of them refused with Describe Group:g": [30, 30, 30, 0, 0],
    "CreateTopics of KRaft's log with nothing": [42, 0, 29, 29],
    "CreateTopics of KRaft's log with Create Topic:fresh": [42, 0, 0, 29],
    "CreateTopics, one of them named twice with nothing": [42, 29, 29, 29, 42, 29],
    "CreateTopics, one of them named twice with Create Topic:fresh": [42, 29, 0, 29, 42, 29],
    "CreateTopics, one of them named twice with DescribeConfigs Topic:twice": [42, 0, 29, 29, 42, 0],
    "DeleteTopics of nothing with Delete Topic:orders": [29],
    "DeleteTopics, some of them refused with Delete Topic:gone": [29, 3, 29],
}
"""All codes of an answer, as Apache Kafka 3.9.2 gave them (tests/conformance/security asks it again)."""
FILTERED = {"Metadata of all", "DescribeCluster", "ListGroups", "ListTransactions", "InitProducerId"}
"""Listings leave out what may not be seen; a cluster's brokers are no secret. allow.everyone.if.no.acl.found lets
producers have ids, as in Apache Kafka: some topic may be open."""
SUFFICIENT = (
    "Produce with Write Topic:orders",
    "Fetch with Read Topic:orders",
    "Fetch, nothing there with Read Topic:gone",
    "FindCoordinator of a group with Describe Group:g",
    "Heartbeat with Read Group:g",
    "JoinGroup with Read Group:g",
    "InitProducerId with IdempotentWrite Cluster:kafka-cluster",
    "InitProducerId with Write Topic:orders",
    "InitProducerId with an id with Write TransactionalId:x",
    "EndTxn with Write TransactionalId:x",
    "AddOffsetsToTxn with Write TransactionalId:x + Read Group:g",
    "OffsetDelete with Delete Group:g + Read Topic:other",
    "CreateTopics with Create Topic:fresh + DescribeConfigs Topic:fresh",
    "DeleteTopics with Delete Topic:gone",
    "DeleteRecords with Delete Topic:orders",
    "OffsetForLeaderEpoch with ClusterAction Cluster:kafka-cluster",
    "CreateAcls with Alter Cluster:kafka-cluster",
    "WriteTxnMarkers with Alter Cluster:kafka-cluster",
    "ElectLeaders with Alter Cluster:kafka-cluster",
)
INSUFFICIENT = (
    "Produce with Read Topic:orders",
    "Fetch with Write Topic:orders",
    "ListOffsets with Create Topic:orders",
    "JoinGroup with Describe Group:g",
    "OffsetCommit with Read Topic:orders",
    "AddPartitionsToTxn with Write Topic:orders",
    "CreatePartitions with Alter Cluster:kafka-cluster",
    "DeleteTopics with Describe Topic:gone",
    "CreateAcls with Describe Cluster:kafka-cluster",
    "ElectLeaders with ClusterAction Cluster:kafka-cluster",
)


def paths(found: Any, below: str) -> set[str]:
    """The names of what an answer lists."""
    return {path.split(f"//{below}/")[1].split("/")[0] for path, _ in found if f"//{below}/" in path}
