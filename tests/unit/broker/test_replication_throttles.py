"""Replication quotas: rates from brokers' settings, lists from topics'."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.broker.quotas.replication_throttles import Throttles
from kavka.config.broker import BrokerConfig
from kavka.model import BrokerId, TopicPartition
from kavka.replication.decide.throttle import NO_LIMIT

OWN, OTHER = BrokerId(1), BrokerId(2)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def config(path: Path, **dynamic: str) -> BrokerConfig:
    settings = {name.replace("_", "."): value for name, value in dynamic.items()}
    return BrokerConfig.from_properties({"broker.id": "1", "log.dirs": str(path)}, dynamic=settings)


def test_nothing_is_throttled_until_a_rate_and_a_replica_are_named(tmp_path: Path) -> None:
    throttles = Throttles(OWN, config(tmp_path), now_ms=lambda: 0)
    assert throttles.follower.rate == NO_LIMIT
    throttles.set_topic("orders", {"leader.replication.throttled.replicas": "0:1"})
    throttles.note_sent(ORDERS_0, OTHER, 1 << 40)
    assert not throttles.withholds(ORDERS_0, OTHER)


@pytest.mark.setting("leader.replication.throttled.rate", "leader.replication.throttled.replicas")
def test_what_a_leader_sends_is_withheld_over_the_rate_of_named_partitions_only(tmp_path: Path) -> None:
    limited = config(tmp_path, leader_replication_throttled_rate="1000")
    throttles = Throttles(OWN, limited, now_ms=lambda: 0)
    throttles.set_topic("orders", {"leader.replication.throttled.replicas": "0:1, 1:2"})
    throttles.note_sent(ORDERS_1, OTHER, 1 << 30)
    assert not throttles.withholds(ORDERS_0, OTHER)
    throttles.note_sent(ORDERS_0, OTHER, 1 << 30)
    assert throttles.withholds(ORDERS_0, OTHER)
    assert not throttles.withholds(ORDERS_1, OTHER)
    throttles.set_topic("orders", {})
    assert not throttles.withholds(ORDERS_0, OTHER)


@pytest.mark.setting("follower.replication.throttled.rate", "follower.replication.throttled.replicas")
def test_rates_that_are_taken_back_hold_nobody(tmp_path: Path) -> None:
    throttles = Throttles(OWN, config(tmp_path, follower_replication_throttled_rate="5"), now_ms=lambda: 0)
    assert throttles.follower.rate == 5
    throttles.set_topic("orders", {"follower.replication.throttled.replicas": "*"})
    assert throttles.follower.is_throttled(ORDERS_1)
    throttles.set_rates(config(tmp_path))
    assert throttles.follower.rate == NO_LIMIT
