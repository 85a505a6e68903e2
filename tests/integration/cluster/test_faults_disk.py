"""Faults of a broker's disk in a cluster: a clear error or a recovery, and never a wrong record to anybody."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chaos.replica_logs import BYTES_BEFORE_LENGTH_COUNTS, HEADER
from tests.integration.cluster.checked_load import checked_load, wait_for_progress
from tests.integration.cluster.cluster_client import BOTH, FAILOVER_S, TOPIC, ClusterClient, StartCluster
from tests.kit.process_cluster import eventually

VALUES = [b"%04d" % number + b"." * 200 for number in range(300)]
BATCHES = 10
CHECKPOINTS = ["replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
GARBAGE = b"\x00\xffgarbage\n\n-1 x\n"

pytestmark = pytest.mark.parametrize("flavour", BOTH, indirect=True)


def filled(start_cluster: StartCluster, *, disk_mb: int = 0) -> ClusterClient:
    """VALUES are acknowledged, in many batches; 2 is the controller and leads nothing."""
    client = start_cluster(controller=2, disk_mb=disk_mb)
    client.create_topic(min_insync_replicas="2")
    for start in range(0, len(VALUES), len(VALUES) // BATCHES):
        client.accepted(*VALUES[start : start + len(VALUES) // BATCHES], at=0)
    client.wait_for_equal_logs(0, 1, 2)
    return client


def start_again(client: ClusterClient, broker_id: int) -> None:
    eventually("no old registration", lambda: broker_id not in client.cluster.registered())
    client.cluster.start_broker(broker_id)


def wait_until_whole(client: ClusterClient) -> None:
    client.wait_for_isr(0, 1, 2)
    client.wait_for_equal_logs(0, 1, 2)


def segment(client: ClusterClient, broker_id: int) -> Path:
    return sorted(client.cluster.log_dir(broker_id, TOPIC, 0).glob("*.log"))[0]


def damage(path: Path, *, batch: int) -> None:
    """Another byte among the records of one batch, so that its checksum is wrong and its length is not."""
    data, position = path.read_bytes(), 0
    for _ in range(batch):
        position += BYTES_BEFORE_LENGTH_COUNTS + int.from_bytes(data[position + 8 : position + 12], "big")
    position += HEADER.size + 100
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 0xFF]))


@pytest.mark.thorough
def test_a_replica_whose_disk_was_wiped_gets_everything_again(start_cluster: StartCluster) -> None:
    client = filled(start_cluster)
    client.cluster.kill(1)
    client.wait_for_isr(0, 2)
    shutil.rmtree(client.cluster.data_dir(1))
    client.cluster.data_dir(1).mkdir()
    start_again(client, 1)
    wait_until_whole(client)


def test_a_leader_whose_disk_was_wiped_does_not_lead_with_nothing(start_cluster: StartCluster) -> None:
    client = filled(start_cluster)
    client.cluster.kill(0)
    state = client.wait_for_state("1 leads", lambda state: state.leader == 1)
    shutil.rmtree(client.cluster.data_dir(0))
    client.cluster.data_dir(0).mkdir()
    start_again(client, 0)
    wait_until_whole(client)
    assert client.values(at=state.leader) == VALUES


@pytest.mark.parametrize(
    "data", [pytest.param(GARBAGE, id="garbage"), pytest.param(b"", id="empty", marks=pytest.mark.thorough)]
)
def test_a_follower_with_damaged_checkpoints_and_epochs_comes_back_whole(
    start_cluster: StartCluster, data: bytes
) -> None:
    client = filled(start_cluster)
    if client.cluster.kind == "kafka" and data:
        pytest.skip("Apache Kafka takes the whole directory offline for it")
    client.cluster.kill(1)
    client.wait_for_isr(0, 2)
    client.accepted(b"meanwhile", at=0)
    if client.cluster.kind == "kavka":  # nor does Apache Kafka start with an empty checkpoint
        for name in CHECKPOINTS:
            (client.cluster.data_dir(1) / name).write_bytes(data)
    (client.cluster.log_dir(1, TOPIC, 0) / "leader-epoch-checkpoint").write_bytes(data)
    start_again(client, 1)
    wait_until_whole(client)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(BATCHES // 2, id="middle"),
        pytest.param(BATCHES - 1, id="end", marks=pytest.mark.thorough),
    ],
)
def test_a_follower_with_a_damaged_segment_gets_the_damaged_part_again(start_cluster: StartCluster, batch: int) -> None:
    client = filled(start_cluster)
    client.cluster.kill(1)
    client.wait_for_isr(0, 2)
    damage(segment(client, 1), batch=batch)
    start_again(client, 1)
    wait_until_whole(client)
    # What it serves when it leads is right too.
    client.cluster.kill(0)
    client.wait_for_state("1 leads", lambda state: state.leader == 1)
    client.wait_for_values(*VALUES, at=1)


def test_a_leaders_damaged_segment_is_copied_to_nobody_and_stops_no_other_partition(
    start_cluster: StartCluster,
) -> None:
    """A follower that has to copy the damaged part does not take it; another topic on the same connection goes on.
    When another replica leads, all is whole again."""
    client = filled(start_cluster)
    client.create_topic("other", min_insync_replicas="2")
    client.cluster.kill(1)
    client.wait_for_isr(0, 2)
    shutil.rmtree(client.cluster.log_dir(1, TOPIC, 0))
    damage(segment(client, 0), batch=BATCHES // 2)
    damaged = client.stored(0)
    start_again(client, 1)
    client.wait_for_isr(0, 1, 2, topic="other")
    client.accepted(b"goes on", at=0, topic="other")
    copied = client.stored(1)
    assert len(copied) < len(damaged)
    assert copied == client.stored(2)[: len(copied)], "the damage was copied"
    assert 1 not in client.cluster.state(TOPIC).isr

    client.cluster.kill(0)
    client.wait_for_state("2 leads", lambda state: state.leader == 2)
    start_again(client, 0)
    wait_until_whole(client)
    assert client.values(at=2) == VALUES


def test_a_full_disk_costs_one_broker_and_no_record(start_cluster: StartCluster) -> None:
    client = start_cluster(controller=2, disk_mb=64)
    client.create_topic(replicas=[(0, 1, 2), (1, 2, 0), (2, 0, 1)], min_insync_replicas="2")
    with checked_load(client, partitions=3) as load:
        client.cluster.fill_disk(0)
        client.wait_for_state("0 leads no more", lambda state: state.leader in (1, 2), timeout_s=FAILOVER_S)
        wait_for_progress(load, range(3))
        client.cluster.free_disk(0)
        server = client.cluster.brokers[0]
        server.wait_until_ended(timeout_s=FAILOVER_S)  # its only directory is offline
        start_again(client, 0)
        for partition in range(3):
            client.wait_for_isr(0, 1, 2, partition=partition)
