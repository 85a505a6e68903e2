"""What an operator or a bug may do to a cluster's metadata: a clear error or a recovery, and the rest goes on."""

from __future__ import annotations

import pytest
from cluster_client import FAILOVER_S, TOPIC, ClusterClient

from conftest import BOTH, StartCluster
from kavka.errors import ErrorCode
from kavka.protocol.messages import DeleteTopicsRequest
from kavka_process import free_port
from process_cluster import Server, eventually

GARBAGE = [b"", b"{", b"\xff\xfe", b'{"version":1}', b'{"leader":"zero"}', b"[]"]

both = pytest.mark.parametrize("flavour", BOTH, indirect=True)


def delete_topic(client: ClusterClient, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=15_000)
    answer = client.ask(client.cluster.controller(), request, 5, timeout_s=25)
    assert ErrorCode(answer.responses[0].error_code) is ErrorCode.NONE


@both
def test_a_second_broker_with_the_same_id_ends_with_a_clear_error(start_cluster: StartCluster) -> None:
    client = start_cluster()
    cluster = client.cluster
    client.create_topic(min_insync_replicas="2")
    czxid = cluster.zookeeper.get("/brokers/ids/1")[1].czxid
    directory = cluster.directory / "twin"
    (directory / "data").mkdir(parents=True)
    first = cluster.brokers[1]
    port = free_port()
    properties = (first.directory / "server.properties").read_text()
    properties = properties.replace(str(first.port), str(port)).replace(str(first.directory), str(directory))
    (directory / "server.properties").write_text(properties)
    its_file = str(first.directory / "server.properties")
    command = [str(directory / "server.properties") if part == its_file else part for part in first.command]
    twin = Server("twin", command, host=first.host, port=port, directory=directory)
    twin.start()
    try:
        assert twin.wait_until_ended(timeout_s=60) != 0
    finally:
        twin.kill()
    assert "/brokers/ids/1" in twin.log_file.read_text()
    assert cluster.zookeeper.get("/brokers/ids/1")[1].czxid == czxid
    client.accepted(b"one", at=0)
    client.wait_for_isr(0, 1, 2)


@both
@pytest.mark.parametrize("down", [1, 0], ids=["a-follower-missed-it", "the-leader-missed-it"])
def test_a_topic_deleted_and_created_again_has_nothing_of_the_old_one(start_cluster: StartCluster, down: int) -> None:
    """One replica is down meanwhile and comes back with the old topic's files."""
    client = start_cluster(controller=2)
    client.create_topic(min_insync_replicas="1")
    client.accepted(b"old one", b"old two", at=0)
    client.wait_for_equal_logs(0, 1, 2)
    client.cluster.kill(down)
    eventually("its registration is gone", lambda: down not in client.cluster.registered())
    up = sorted({0, 1, 2} - {down})
    # Apache Kafka keeps a topic "marked for deletion" while a replica is down, and then refuses the name.
    if client.cluster.kind == "kafka":
        client.cluster.start_broker(down)
        client.wait_for_isr(0, 1, 2)
    delete_topic(client, TOPIC)
    eventually(
        "it is gone", lambda: not client.cluster.zookeeper.exists(f"/brokers/topics/{TOPIC}"), timeout_s=FAILOVER_S
    )
    client.create_topic(replicas=[(up[0], up[1], down)], min_insync_replicas="1", in_sync=False)
    client.accepted(b"new", at=up[0])
    if client.cluster.kind == "kavka":
        client.cluster.start_broker(down)
    client.wait_for_isr(0, 1, 2)
    client.wait_for_equal_logs(0, 1, 2)
    client.wait_for_values(b"new", at=up[0])


@pytest.mark.parametrize("data", GARBAGE, ids=repr)
def test_garbage_in_a_partitions_state_concerns_that_partition_only(start_cluster: StartCluster, data: bytes) -> None:
    client = start_cluster(controller=2)
    client.create_topic(min_insync_replicas="1")
    client.create_topic("other", min_insync_replicas="1")
    path = f"/brokers/topics/{TOPIC}/partitions/0/state"
    good, _stat = client.cluster.zookeeper.get(path)
    client.cluster.zookeeper.set(path, data)
    epoch = client.cluster.controller_epoch()
    client.cluster.kill(2)  # another controller has to read it
    eventually("another controller", lambda: client.cluster.controller_epoch() > epoch, timeout_s=FAILOVER_S)
    client.wait_for_isr(0, 1, topic="other")
    client.accepted(b"goes on", at=0, topic="other")
    client.cluster.start_broker(2)
    client.wait_for_isr(0, 1, 2, topic="other")
    logs = "".join(server.log_file.read_text() for server in client.cluster.brokers.values())
    assert path in logs, "nobody says where the garbage is"
    # Put right by hand, the partition is back with the next controller.
    client.cluster.zookeeper.set(path, good)
    client.cluster.zookeeper.delete("/controller")
    eventually("its leader serves", lambda: client.metadata(at=0).leader in (0, 1, 2), timeout_s=FAILOVER_S)
    client.wait_for_isr(0, 1, 2)
    client.accepted(b"back", at=client.cluster.state(TOPIC).leader)


GARBAGE_PATHS = [
    "/brokers/topics/garbage",
    "/isr_change_notification/isr_change_0000000099",
    "/log_dir_event_notification/log_dir_event_0000000099",
    "/config/changes/config_change_0000000099",
    "/config/topics/garbage",
    "/admin/delete_topics/garbage",
    "/admin/preferred_replica_election",
    "/admin/reassign_partitions",
    "/brokers/ids/77",
]


@pytest.mark.parametrize("path", GARBAGE_PATHS)
def test_garbage_anywhere_else_stops_neither_the_controller_nor_a_broker(
    start_cluster: StartCluster, path: str
) -> None:
    client = start_cluster(controller=2)
    client.create_topic(min_insync_replicas="1")
    pids = [server.pid for server in client.cluster.brokers.values()]
    client.cluster.zookeeper.create(path, b"\xff{garbage", makepath=True)
    client.create_topic("after", min_insync_replicas="1")  # the controller still works
    client.cluster.zookeeper.delete("/controller")
    eventually("a controller", lambda: client.cluster.controller() in (0, 1, 2), timeout_s=FAILOVER_S)
    client.create_topic("later", min_insync_replicas="1")
    client.accepted(b"one", at=0)
    assert [server.pid for server in client.cluster.brokers.values() if server.is_running] == pids
