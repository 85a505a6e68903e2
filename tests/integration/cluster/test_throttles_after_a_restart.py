"""Throttles of replication that were set at run time hold after the brokers' next start, on both sides."""

from __future__ import annotations

import pytest

from kavka.protocol.messages import IncrementalAlterConfigsRequest
from kavka.protocol.messages.incremental_alter_configs_request import AlterableConfig, AlterConfigsResource
from tests.integration.cluster.cluster_client import ONE, TOPIC, ClusterClient, StartCluster, holds_for
from tests.kit.process_cluster import eventually

BROKER, SET, DELETE = 4, 0, 1
BATCHES = 20
VALUE = bytes(10_000)


def alter_rate(client: ClusterClient, name: str, operation: int, value: str | None) -> None:
    """Of all brokers, at run time."""
    change = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[change])
    answer = client.ask(0, IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer.responses[0].error_message


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_follower_that_lags_is_throttled_again(start_cluster: StartCluster, side: str) -> None:
    client = start_cluster(brokers=2, settings={"replica.fetch.max.bytes": "20000"})
    cluster = client.cluster
    client.create_topic(replicas=((0, 1),), **{f"{side}_replication_throttled_replicas": "*"})
    cluster.brokers[1].stop()
    client.wait_for_isr(0)
    alter_rate(client, f"{side}.replication.throttled.rate", SET, "1")
    cluster.brokers[0].stop()
    cluster.start_broker(0)
    for _ in range(BATCHES):
        client.accepted(VALUE, at=0, acks=ONE)

    cluster.start_broker(1)
    eventually("the follower has a part", lambda: client.end_of_stored(1) > 0)
    holds_for(2.0, "the follower is throttled", lambda: client.end_of_stored(1) < BATCHES)
    assert cluster.state(TOPIC).isr == (0,)

    alter_rate(client, f"{side}.replication.throttled.rate", DELETE, None)
    client.wait_for_isr(0, 1)
    assert client.end_of_stored(1) == BATCHES
