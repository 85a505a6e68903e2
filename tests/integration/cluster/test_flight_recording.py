"""A cluster of real processes under load: its leader killed, a follower paused until it is out of the ISR, both back.
When all of it is down, `kavka replay` decides everything again from the brokers' directories, and differs nowhere."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from kavka.flight.format import FLIGHT_FILES, MAGIC
from tests.integration.cluster.checked_load import checked_load, wait_for_progress
from tests.integration.cluster.cluster_client import TOPIC, StartCluster
from tests.kit.process_cluster import ProcessCluster, eventually, kavka_command

PARTITIONS = range(2)


def replay(cluster: ProcessCluster, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit status and what `kavka replay --json` says of the brokers' directories."""
    directories = [str(cluster.data_dir(number)) for number in cluster.brokers]
    done = subprocess.run(
        [kavka_command(), "replay", *directories, "--json", *words], capture_output=True, text=True, timeout=120
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_every_decision_of_a_cluster_that_lost_a_leader_and_a_follower_is_made_again(
    start_cluster: StartCluster, tmp_path: Path
) -> None:
    # A paused broker keeps its session: its leader is to throw it out, not the controller.
    settings = {"kavka.decisions.topic.enable": "false", "zookeeper.session.timeout.ms": "18000"}
    client = start_cluster(settings=settings)
    cluster = client.cluster
    client.create_topic(replicas=((0, 1, 2), (1, 2, 0)), min_insync_replicas="2")
    with checked_load(client, partitions=len(PARTITIONS)) as workload:
        wait_for_progress(workload, PARTITIONS)
        leader = cluster.state(TOPIC).leader
        cluster.kill(leader)
        eventually("another leads", lambda: cluster.state(TOPIC).leader not in (leader, -1))
        wait_for_progress(workload, PARTITIONS)
        cluster.start_broker(leader)
        client.wait_for_isr(0, 1, 2)

        # It leads nothing now, and is not the controller, which has to store that it is out.
        cluster.brokers[leader].pause()
        eventually("it is out", lambda: leader not in cluster.state(TOPIC).isr)
        wait_for_progress(workload, PARTITIONS)
        cluster.brokers[leader].resume()
        client.wait_for_isr(0, 1, 2)
        wait_for_progress(workload, PARTITIONS)
    stored = {number: cluster.state(TOPIC, number) for number in PARTITIONS}
    # Decisions and inputs reach the ring within 50 ms; two are stopped in order, the third one is killed.
    for number in (0, 1):
        cluster.brokers[number].stop()
    cluster.kill(2)
    trace, page = tmp_path / "trace.txt", tmp_path / "page.html"

    status, told = replay(cluster, "--trace", str(trace), "--page", str(page))

    assert told["differences"] == []
    assert told["unreadable"] == []
    assert status == 0
    assert told["brokers"] == [0, 1, 2]
    assert told["leader_elections"] >= 1
    assert told["isr_changes"] >= 6  # each of both partitions lost the leader and the follower, and got them back
    assert told["isr_shrinks"] >= 3
    lines = trace.read_text().splitlines()
    assert any("killed" in line and f"broker-{leader}" in line for line in lines)
    assert any("isr shrunk" in line and f"broker {leader} last caught up" in line for line in lines)
    assert any("leader elected" in line and "first live in-sync replica" in line for line in lines)
    for number, state in stored.items():
        told_isrs = [line for line in lines if "state stored" in line and f"{TOPIC}-{number} " in line]
        assert any(f"version {state.version}" in line for line in told_isrs)
    assert "replica.lag.time.max.ms allows 3000 ms" in page.read_text()


def test_of_a_damaged_recording_the_rest_is_replayed_and_the_damage_is_named(start_cluster: StartCluster) -> None:
    client = start_cluster(brokers=2, settings={"kavka.decisions.topic.enable": "false"})
    cluster = client.cluster
    client.create_topic(replicas=((0, 1),))
    ring = cluster.data_dir(0) / FLIGHT_FILES[1]
    with checked_load(client, partitions=1) as workload:
        wait_for_progress(workload, {0})
        eventually("some blocks are written", lambda: ring.read_bytes().count(MAGIC) > 5)
    cluster.kill(0, 1)
    whole = ring.read_bytes()
    second = whole.index(MAGIC, 4)
    ring.write_bytes(whole[: second + 30] + bytes(5) + whole[second + 35 : -5])
    assert whole.count(MAGIC) > 4, "the damaged blocks are neighbours"

    status, told = replay(cluster)

    assert status == 0
    assert told["differences"] == []
    assert len(told["unreadable"]) == 2
    assert all(gap["file"] == str(ring.resolve()) for gap in told["unreadable"])
    assert told["unreadable"][-1]["position"] + told["unreadable"][-1]["bytes"] == len(whole) - 5
    assert told["inputs"] > 0
