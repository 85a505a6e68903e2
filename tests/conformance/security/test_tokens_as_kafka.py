"""Delegation tokens: kavka answers as Apache Kafka 3.9 does, request by request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.ports import free_port
from tests.kit.token_script import LISTENER, run, settings

pytestmark = pytest.mark.kafka


def on_kavka(path: Path, work: Callable[[int, int], Any]) -> Any:
    own = {name: text for name, text in settings(0, 0).items() if not name.endswith("listeners")}

    async def scenario() -> Any:
        async with InProcessCluster(path, count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            ((_host, plaintext_port),) = cluster.bootstrap
            return await asyncio.to_thread(work, cluster.ports_of[LISTENER][1], plaintext_port)

    return asyncio.run(asyncio.wait_for(scenario(), 300))


@pytest.mark.timeout(700)
def test_every_request_about_tokens_is_answered_alike(tmp_path: Path) -> None:
    try:
        broker = ApacheKafka(tmp_path / "zk", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    port = free_port()
    broker.set(settings(port, broker.port))
    with broker:
        theirs = run(port, broker.port)
    ours = on_kavka(tmp_path / "kavka", run)
    assert len(theirs) > 100
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert not different, "\n".join(f"{name}:\n  kafka {a}\n  kavka {b}" for name, (a, b) in different.items())
