"""Known races of Kafka's replication and its controller, told again with real processes. The names S1, S2 ... are those
of docs/design/known-bugs.md; S13, S14, S15 and S17 need a step in the middle of another and are unit tests.

    S1   a follower that does not yet know the high watermark is elected
    S2   both replicas crash, the one with less comes first
    S16  the state znode was written by somebody else
    S18  a follower comes back at once with an empty disk
    S25  a controller goes on after its session has expired
    S26  a broker comes back before anybody noticed, and gets what was meant for its former self
    R14  requests with an epoch that is not the current one
"""

from __future__ import annotations

import shutil

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import FetchRequest, StopReplicaRequest
from kavka.protocol.messages.fetch_request import FetchPartition, FetchTopic
from kavka.protocol.messages.stop_replica_request import StopReplicaPartitionState, StopReplicaTopicState
from tests.integration.cluster.cluster_client import BOTH, ONE, TOPIC, ClusterClient, Produced, StartCluster, holds_for
from tests.kit.process_cluster import eventually

STOP_REPLICA_VERSION = 3

pytestmark = pytest.mark.parametrize("flavour", BOTH, indirect=True)


def both_die(client: ClusterClient, *, survivor: int) -> None:
    """0 and 1 at once; skips where the cluster's accident does not leave the survivor in the isr."""
    client.cluster.kill(0, 1)
    state = client.wait_for_state("no leader", lambda state: state.leader == -1)
    eventually("no old registration", lambda: not {0, 1} & client.cluster.registered())
    if survivor not in state.isr:
        pytest.skip(f"this cluster kept {state.isr} of two that died at once")


def test_s1_a_follower_that_does_not_know_the_high_watermark_keeps_what_was_acknowledged(
    start_cluster: StartCluster,
) -> None:
    never = {"replica.high.watermark.checkpoint.interval.ms": "3600000"}
    client = start_cluster(controller=2, settings=never)
    client.create_topic(replicas=[(0, 1)], min_insync_replicas="1")
    assert client.accepted(b"m1", at=0) == 0
    assert client.accepted(b"m2", at=0) == 1
    both_die(client, survivor=1)
    client.cluster.start_broker(1)
    client.wait_for_state("broker 1 leads", lambda state: state.leader == 1)
    client.wait_for_values(b"m1", b"m2", at=1)
    client.cluster.start_broker(0)
    client.wait_for_isr(0, 1)
    client.wait_for_equal_logs(0, 1)


def test_s2_a_leader_that_comes_second_gives_up_what_only_it_had(start_cluster: StartCluster) -> None:
    client = start_cluster(controller=2)
    client.create_topic(replicas=[(0, 1)], min_insync_replicas="1")
    assert client.accepted(b"m1", at=0) == 0
    client.wait_for_equal_logs(0, 1)
    client.cluster.brokers[1].pause()
    assert client.produce(b"m2", at=0, acks=ONE) == Produced(ErrorCode.NONE, 1)
    both_die(client, survivor=1)
    client.cluster.start_broker(1)
    client.wait_for_state("broker 1 leads", lambda state: state.leader == 1)
    assert client.accepted(b"m3", at=1) == 1
    client.cluster.start_broker(0)
    client.wait_for_isr(0, 1)
    client.wait_for_equal_logs(0, 1)
    client.wait_for_values(b"m1", b"m3", at=1)


def test_s16_a_state_that_somebody_else_wrote_does_not_stop_the_isr_from_changing(start_cluster: StartCluster) -> None:
    client = start_cluster()
    client.create_topic(min_insync_replicas="1")
    path = f"/brokers/topics/{TOPIC}/partitions/0/state"
    client.cluster.zookeeper.set(path, client.cluster.zookeeper.get(path)[0])
    client.cluster.brokers[2].pause()
    client.accepted(b"one", at=0)  # acks=all waits until 2 is out
    client.wait_for_isr(0, 1)
    client.cluster.brokers[2].resume()
    client.wait_for_isr(0, 1, 2)
    client.wait_for_equal_logs(0, 1, 2)


def test_s18_a_follower_that_comes_back_with_an_empty_disk_is_in_sync_only_when_it_has_everything(
    start_cluster: StartCluster,
) -> None:
    client = start_cluster(controller=0)
    client.create_topic(min_insync_replicas="2")
    values = [b"%05d" % number for number in range(200)]
    for start in range(0, 200, 20):
        client.accepted(*values[start : start + 20], at=0)
    before = client.cluster.state(TOPIC)
    client.cluster.kill(2)
    shutil.rmtree(client.cluster.data_dir(2))
    client.cluster.data_dir(2).mkdir()
    if client.cluster.kind == "kafka":
        eventually("no old registration", lambda: 2 not in client.cluster.registered())
    client.cluster.brokers[2].start()
    # Its former self is in the isr until its death, or its return, is noticed: that is another state.
    client.wait_for_state("in sync again", lambda state: state.version > before.version and 2 in state.isr)
    assert client.end_of_stored(2) == len(values)
    client.cluster.wait_for_broker(2)
    client.wait_for_isr(0, 1, 2)
    client.wait_for_equal_logs(0, 1, 2)
    client.cluster.kill(1)
    client.wait_for_isr(0, 2)
    client.cluster.kill(0)
    client.wait_for_state("2 leads", lambda state: state.leader == 2)
    client.wait_for_values(*values, at=2)


def test_s25_nothing_that_a_controller_does_after_its_session_has_effect(start_cluster: StartCluster) -> None:
    """It is stopped with work in its queue, the deaths of leaders, and goes on when another has done that work."""
    partitions = 30
    client = start_cluster(brokers=4, controller=0)
    cluster = client.cluster
    client.create_topic(replicas=[(1, 2, 3)] * partitions, min_insync_replicas="1")
    epoch = cluster.controller_epoch()
    cluster.kill(1)
    if cluster.kind == "kafka":  # its controller learns of the death when the session ends
        eventually("the session ends", lambda: 1 not in cluster.registered(), every_s=0.002)
    cluster.brokers[0].pause()
    eventually("another controller", lambda: cluster.controller() in (2, 3))
    eventually("a higher epoch", lambda: cluster.controller_epoch() > epoch)
    for partition in range(partitions):
        client.wait_for_state("a live leader", lambda state: state.leader in (2, 3), partition=partition)
    new_epoch, new_controller = cluster.controller_epoch(), cluster.controller()
    states = [cluster.state(TOPIC, partition) for partition in range(partitions)]

    cluster.brokers[0].resume()
    eventually("the old controller is back as a broker", lambda: 0 in cluster.registered())
    holds_for(
        1.5,
        "the old controller wrote",
        lambda: (
            [cluster.state(TOPIC, partition) for partition in range(partitions)] == states
            and (cluster.controller(), cluster.controller_epoch()) == (new_controller, new_epoch)
        ),
    )
    for at in (0, 2, 3):
        for partition, state in enumerate(states):
            eventually(
                f"broker {at} knows the leader of {partition}",
                lambda at=at, partition=partition, state=state: (
                    client.metadata(at=at, partition=partition).leader == state.leader
                ),
            )
    client.accepted(b"one", at=states[0].leader)


def stop_replica(client: ClusterClient, *, controller_epoch: int, broker_epoch: int, leader_epoch: int) -> ErrorCode:
    """What broker 2 answers to an order to delete its replica: the request's error, or the partition's."""
    state = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=True)
    request = StopReplicaRequest(
        controller_id=client.cluster.controller(),
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])],
    )
    answer = client.ask(2, request, STOP_REPLICA_VERSION)
    return ErrorCode(answer.error_code or answer.partition_errors[0].error_code)


def broker_epoch(client: ClusterClient, broker_id: int) -> int:
    """The zxid at which its registration was made."""
    return int(client.cluster.zookeeper.get(f"/brokers/ids/{broker_id}")[1].czxid)


def test_s26_orders_for_a_brokers_former_self_or_of_a_former_controller_change_nothing(
    start_cluster: StartCluster,
) -> None:
    client = start_cluster(controller=0)
    client.create_topic(min_insync_replicas="1")
    client.accepted(b"one", at=0)
    old = broker_epoch(client, 2)
    client.cluster.kill(2)
    if client.cluster.kind == "kafka":
        eventually("no old registration", lambda: 2 not in client.cluster.registered())
    client.cluster.brokers[2].start()
    eventually("a new registration", lambda: broker_epoch(client, 2) > old)
    client.cluster.wait_for_broker(2)
    client.wait_for_isr(0, 1, 2)
    epoch, state = client.cluster.controller_epoch(), client.cluster.state(TOPIC)
    new = broker_epoch(client, 2)

    def order(
        *, controller_epoch: int = epoch, broker_epoch: int = new, leader_epoch: int = state.leader_epoch
    ) -> ErrorCode:
        return stop_replica(
            client, controller_epoch=controller_epoch, broker_epoch=broker_epoch, leader_epoch=leader_epoch
        )

    assert order(broker_epoch=old) is ErrorCode.STALE_BROKER_EPOCH
    assert order(controller_epoch=epoch - 1) is ErrorCode.STALE_CONTROLLER_EPOCH
    assert order(leader_epoch=state.leader_epoch - 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert client.end_of_stored(2) == 1
    client.accepted(b"two", at=0)
    client.wait_for_equal_logs(0, 1, 2)


def test_r14_requests_of_another_leader_epoch_are_refused(start_cluster: StartCluster) -> None:
    client = start_cluster(controller=2)
    client.create_topic(min_insync_replicas="1")
    client.accepted(b"one", at=0)
    client.cluster.kill(0)
    state = client.wait_for_state("broker 1 leads", lambda state: state.leader == 1)
    eventually("and says so", lambda: client.metadata(at=1).leader == 1)

    def fetch(leader_epoch: int, *, replica_id: int = -1) -> ErrorCode:
        wanted = FetchPartition(
            partition=0, current_leader_epoch=leader_epoch, fetch_offset=0, partition_max_bytes=1 << 20
        )
        topics = [FetchTopic(topic=TOPIC, partitions=[wanted])]
        request = FetchRequest(
            replica_id=replica_id, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=topics
        )
        return ErrorCode(client.ask(1, request, 12).responses[0].partitions[0].error_code)

    for replica_id in (-1, 2):
        assert fetch(state.leader_epoch - 1, replica_id=replica_id) is ErrorCode.FENCED_LEADER_EPOCH
        assert fetch(state.leader_epoch + 1, replica_id=replica_id) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(state.leader_epoch) is ErrorCode.NONE


def test_a_zombie_leader_acknowledges_nothing_and_gives_nothing_that_is_not_committed(
    start_cluster: StartCluster,
) -> None:
    """S8, S24: the leader is stopped, another is elected and writes; the first goes on, and is asked before it can
    learn of it."""
    client = start_cluster(controller=2)
    cluster = client.cluster
    client.create_topic(min_insync_replicas="2")
    client.accepted(b"one", at=0)
    client.wait_for_values(b"one", at=1)
    with client.connection(0, timeout_s=40) as zombie:
        cluster.brokers[0].pause()
        request = client.send(zombie, b"to the zombie", timeout_ms=1500)  # it waits in the socket
        state = client.wait_for_state("broker 1 leads", lambda state: state.leader == 1)
        assert state.isr == (1, 2)
        assert client.accepted(b"two", at=1) == 1
        cluster.brokers[0].resume()
        produced = client.receive_produced(zombie, request)
    assert produced.error is not ErrorCode.NONE, produced
    client.wait_for_isr(0, 1, 2)
    client.wait_for_equal_logs(0, 1, 2)
    client.wait_for_values(b"one", b"two", at=1)
