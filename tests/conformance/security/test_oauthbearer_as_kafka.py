"""OAUTHBEARER, right and wrong: kavka answers as Apache Kafka 3.9 with the same keys does, and where it is stricter."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.apache_kafka import ApacheKafka, PeerMissing
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.kit.oauthbearer_script import CASES, CLOSED_BY_KAFKA, STRICTER, run, settings, write_keys
from tests.kit.ports import free_port
from tests.kit.sasl_script import LISTENER

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


@pytest.mark.timeout(700)
def test_every_token_is_answered_alike(tmp_path: Path) -> None:
    own = settings(write_keys(tmp_path / "keys.json"))
    try:
        kafka = ApacheKafka(tmp_path / "zk", heap="-Xmx512M -Xms256M")
    except PeerMissing as missing:
        pytest.skip(str(missing))
    port = free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{kafka.port},{LISTENER}://127.0.0.1:{port}"
    kafka.set({**own, "listeners": listeners, "advertised.listeners": listeners})
    with kafka:
        theirs, lenient, closed = (run(port, cases) for cases in (CASES, STRICTER, CLOSED_BY_KAFKA))

    own["kavka.authentication.free.failures"] = "0"

    async def scenario() -> list[dict[str, object]]:
        async with InProcessCluster(tmp_path / "kavka", count=1, settings=own, more_listeners=[LISTENER]) as cluster:
            there = cluster.ports_of[LISTENER][1]
            return [await asyncio.to_thread(run, there, cases) for cases in (CASES, STRICTER, CLOSED_BY_KAFKA)]

    ours, strict, told = asyncio.run(asyncio.wait_for(scenario(), 300))
    different = {name: (theirs[name], ours[name]) for name in theirs if theirs[name] != ours[name]}
    assert not different, "\n".join(f"{name}:\n  kafka {a}\n  kavka {b}" for name, (a, b) in different.items())
    for cases, fails in ((lenient, False), (closed, False), (strict, True), (told, True)):
        for name, found in cases.items():
            assert ("SASL_AUTHENTICATION_FAILED" in repr(found)) == fails, (name, found)
    assert all(found[-1] == "closed" for found in closed.values())
