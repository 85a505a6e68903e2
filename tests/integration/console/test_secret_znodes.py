"""What the page of ZooKeeper keeps back, of a real tree."""

from __future__ import annotations

import asyncio
import random

import pytest

from kavka.console.sources.znodes import ZnodeTrees
from kavka.runtime.network.network import SocketNetwork
from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperServer, ZooKeeperServerSettings
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.database import Database, DatabaseSettings
from kavka.zookeeper.embedded import EmbeddedZooKeeper
from kavka.zookeeper.znode_paths import UNKNOWN_USERS_PATH
from tests.unit.zookeeper.memory_disk import MemoryDisk

SECRET = b'{"secret":"canary"}'
KEPT_BACK = ("/config/users/alice", "/config/brokers/1", "/delegation_token/tokens/t", UNKNOWN_USERS_PATH)
SHOWN = ("/config/topics/orders", "/config/users-of-mine", "/brokers/ids")


@pytest.mark.parametrize("chroot", ["", "/kafka", "/clusters/one"])
@pytest.mark.parametrize("names_chroot", [True, False])
def test_secrets_are_not_shown_wherever_a_cluster_has_its_root(chroot: str, *, names_chroot: bool) -> None:
    """An address without the chroot shows the whole tree, and so all clusters in it."""

    async def run() -> None:
        embedded = EmbeddedZooKeeper(
            Database.open(MemoryDisk(), "/zk", DatabaseSettings()),
            now_ms=lambda: 1_700_000_000_000,
            rng=random.Random(1),
            tick_ms=1_000,
        )
        await embedded.start(close_former_sessions=False)
        server = ZooKeeperServer(embedded, settings=ZooKeeperServerSettings(tick_ms=1_000))
        await server.listen("127.0.0.1", 0)
        place = f"127.0.0.1:{server.port}"
        client = await ZooKeeperClient.connect(
            SocketNetwork(), place, session_timeout_ms=6000, connection_timeout_ms=3000, rng=random.Random(2)
        )
        trees = ZnodeTrees()
        try:
            for path in (*KEPT_BACK, *SHOWN):
                parts = f"{chroot}{path}".split("/")[1:]
                for end in range(1, len(parts) + 1):
                    whole = "/" + "/".join(parts[:end])
                    if await client.exists(whole) is None:
                        await client.create(whole, SECRET if end == len(parts) else b"")
            address, before = (f"{place}{chroot}", "") if names_chroot else (place, chroot)
            for path in KEPT_BACK:
                node = await trees.read(address, f"{before}{path}")
                assert node is not None
                assert (node.text, node.hidden) == ("", True), path
            for path in SHOWN:
                node = await trees.read(address, f"{before}{path}")
                assert node is not None
                assert "canary" in node.text
        finally:
            await trees.stop()
            await client.close()
            await server.stop()
            await embedded.stop()

    asyncio.run(run())
