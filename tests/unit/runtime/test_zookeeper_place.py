"""Where an embedded ZooKeeper lies and how it writes, as a broker's settings say."""

from __future__ import annotations

from pathlib import Path

import pytest

from kavka.config.broker import BrokerConfig
from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperPlace
from kavka.zookeeper.database import SyncPolicy


@pytest.mark.setting("kavka.zookeeper.sync", "kavka.zookeeper.data.dir")
def test_the_place_is_the_one_that_is_set_and_every_change_is_synced_unless_it_is_not_to_be(tmp_path: Path) -> None:
    beside = BrokerConfig.from_properties({"log.dirs": f"{tmp_path}/logs"})
    assert ZooKeeperPlace.of(beside) == ZooKeeperPlace(f"{tmp_path}/kavka-zookeeper", SyncPolicy.ALWAYS)
    settings = {"kavka.zookeeper.data.dir": f"{tmp_path}/tree", "kavka.zookeeper.sync": "never"}
    assert ZooKeeperPlace.of(BrokerConfig.from_properties(settings)) == ZooKeeperPlace(
        f"{tmp_path}/tree", SyncPolicy.NEVER
    )
