"""The crash cases of a partition with replicas 0, 1, 2, in-sync replicas 0, 1, leader 0, min.insync.replicas=2 and no
unclean election, replica 2 lagging and kept out; and the case of a leader that dies with a record nobody else has.

Broker 3 holds no replica and is the controller, so that somebody is there to decide whoever dies.

    A1  1 dies           0 leads, isr (0): reads go on, acks=all is refused at once, acks=1 is taken
    A2  0 dies           1 leads in the next epoch, isr (1): the same
    B   0, then 1 die    no leader, isr (1): nothing goes until 1 returns, whatever 0 and 2 do
    C   0 and 1 at once  no leader, isr (0, 1): whichever returns first leads

The same tests run against Apache Kafka 3.9, but for C's isr, where it keeps one of both by accident.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum

import pytest

from kavka.errors import ErrorCode
from kavka.protocol.messages import AlterPartitionReassignmentsRequest
from kavka.protocol.messages.alter_partition_reassignments_request import ReassignablePartition, ReassignableTopic
from tests.integration.cluster.cluster_client import (
    ALL,
    BOTH,
    FAILOVER_S,
    ONE,
    TOPIC,
    ClusterClient,
    Produced,
    StartCluster,
    holds_for,
)
from tests.kit.process_cluster import eventually

CONTROLLER = 3
COMMITTED = (b"one", b"two", b"three")
AT_ONCE_S = 20.0
"""For an answer that waits for nothing; a fraction of the 5 s that the request would allow."""
NO_LEADER = ErrorCode.LEADER_NOT_AVAILABLE
REFUSED = Produced(ErrorCode.NOT_ENOUGH_REPLICAS, -1)

pytestmark = pytest.mark.parametrize("flavour", BOTH, indirect=True)


class Death(Enum):
    """How a broker dies, for its cluster."""

    KILL = "kill -9"
    PAUSE = "SIGSTOP beyond the session"
    ISOLATION = "cut from everything"


DEATHS = [
    pytest.param(Death.KILL, id="kill"),
    pytest.param(Death.PAUSE, id="pause", marks=pytest.mark.thorough),
    pytest.param(Death.ISOLATION, id="isolation", marks=pytest.mark.thorough),
]


def die(client: ClusterClient, death: Death, *broker_ids: int) -> None:
    cluster = client.cluster
    match death:
        case Death.KILL:
            cluster.kill(*broker_ids)
        case Death.PAUSE:
            for broker_id in broker_ids:
                cluster.brokers[broker_id].pause()
        case Death.ISOLATION:
            for broker_id in broker_ids:
                cluster.cut_from_zookeeper(broker_id)
                cluster.cut_from_brokers(broker_id)
                cluster.cut_from_clients(broker_id)


def come_back(client: ClusterClient, death: Death, broker_id: int) -> None:
    cluster = client.cluster
    match death:
        case Death.KILL:
            # Apache Kafka does not start while ZooKeeper holds its former self's registration.
            eventually("the old registration is gone", lambda: broker_id not in cluster.registered())
            cluster.brokers[broker_id].start()
        case Death.PAUSE:
            cluster.brokers[broker_id].resume()
        case Death.ISOLATION:
            cluster.heal_from_zookeeper(broker_id)
            cluster.heal_from_brokers(broker_id)
            cluster.heal_from_clients(broker_id)
    cluster.wait_for_broker(broker_id)


Prepare = Callable[[Death], ClusterClient]


@pytest.fixture
def prepare(start_cluster: StartCluster) -> Prepare:
    """COMMITTED is acknowledged by 0 and 1; 2 is down and has none of it."""

    def make(death: Death) -> ClusterClient:
        client = start_cluster(brokers=4, controller=CONTROLLER, network=death is Death.ISOLATION)
        client.create_topic(min_insync_replicas="2")
        client.cluster.kill(2)
        client.wait_for_isr(0, 1)
        commit(client)
        return client

    return make


def commit(client: ClusterClient) -> None:
    """COMMITTED, and both know that it is, on disk too: Apache Kafka 3.9 does not raise the high watermark of a leader
    that is alone below min.insync.replicas, not even to what it had before."""
    for offset, value in enumerate(COMMITTED):
        assert client.accepted(value, at=0) == offset
    for broker_id in (0, 1):
        client.wait_for_checkpoint(len(COMMITTED), at=broker_id)


def assert_reads_go_on_and_all_is_refused(client: ClusterClient, leader: int) -> None:
    """Until |isr| is 2 again: reads up to the high watermark, 19 at once for acks=all, nothing of it appended."""
    client.wait_for_values(*COMMITTED, at=leader)
    appended = 0
    while (produced := client.produce(b"early", at=leader)).error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        appended += 1  # ZooKeeper has the new state, and the leader has not yet
    assert produced == REFUSED
    began_at = time.monotonic()
    assert client.produce(b"refused", at=leader, timeout_ms=60_000) == REFUSED
    assert time.monotonic() - began_at < AT_ONCE_S
    # The next offset shows that nothing of it was appended; acks=1 asks for no in-sync replicas.
    assert client.produce(b"acks=1", at=leader, acks=ONE) == Produced(ErrorCode.NONE, len(COMMITTED) + appended)


def assert_nothing_goes(client: ClusterClient, *reachable: int) -> None:
    for at in reachable:
        found = client.metadata(at=at)
        assert (found.leader, found.error) == (-1, NO_LEADER), (at, found)
    for at in set(reachable) - {CONTROLLER}:
        # One that led before it was stopped or cut off has to be told first.
        eventually(
            f"{at} does not lead", lambda at=at: client.list_offsets_error(at=at) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        for acks in (ALL, ONE):
            assert client.produce(b"refused", at=at, acks=acks).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("death", DEATHS)
def test_a1_the_follower_dies(prepare: Prepare, death: Death) -> None:
    client = prepare(death)
    before = client.cluster.state(TOPIC)
    die(client, death, 1)
    state = client.wait_for_isr(0)
    assert state.leader == 0
    assert state.leader_epoch >= before.leader_epoch
    assert_reads_go_on_and_all_is_refused(client, leader=0)
    come_back(client, death, 1)
    client.wait_for_isr(0, 1)
    client.accepted(b"healed", at=0)
    client.wait_for_equal_logs(0, 1)


@pytest.mark.parametrize("death", DEATHS)
def test_a2_the_leader_dies(prepare: Prepare, death: Death) -> None:
    client = prepare(death)
    before = client.cluster.state(TOPIC)
    die(client, death, 0)
    state = client.wait_for_isr(1)
    assert (state.leader, state.leader_epoch) == (1, before.leader_epoch + 1)
    eventually("broker 1 leads", lambda: client.metadata(at=1).leader == 1)
    assert_reads_go_on_and_all_is_refused(client, leader=1)
    come_back(client, death, 0)
    client.wait_for_isr(0, 1)
    client.accepted(b"healed", at=1)
    client.wait_for_equal_logs(0, 1)


def test_a_produce_that_waits_when_the_follower_dies_is_never_acknowledged(prepare: Prepare) -> None:
    client = prepare(Death.KILL)
    client.cluster.brokers[1].pause()
    with client.connection(0, timeout_s=60) as connection:
        request = client.send(connection, b"pending", timeout_ms=30_000)
        eventually("it is appended", lambda: client.end_of_stored(0) == len(COMMITTED) + 1)
        client.cluster.kill(1)
        produced = client.receive_produced(connection, request)
    assert produced.error in (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT)


def test_a_with_a_third_replica_that_keeps_up_heals_itself(start_cluster: StartCluster) -> None:
    client = start_cluster(brokers=4, controller=CONTROLLER)
    client.create_topic(min_insync_replicas="2")
    assert client.accepted(*COMMITTED, at=0) == 0
    client.cluster.kill(1)
    client.wait_for_isr(0, 2)
    assert client.accepted(b"still two", at=0) == len(COMMITTED)


@pytest.mark.parametrize("death", DEATHS)
def test_b_the_leader_dies_and_then_the_last(prepare: Prepare, death: Death) -> None:
    client = prepare(death)
    die(client, death, 0)
    client.wait_for_isr(1)
    eventually("broker 1 leads", lambda: client.metadata(at=1).leader == 1)
    die(client, death, 1)
    lost = client.wait_for_state("no leader", lambda state: state.leader == -1)
    assert lost.isr == (1,)
    eventually("the controller says so", lambda: client.metadata(at=CONTROLLER).error is NO_LEADER)
    assert_nothing_goes(client, CONTROLLER)

    come_back(client, death, 0)
    client.cluster.start_broker(2)
    for at in (0, 2, CONTROLLER):
        eventually(f"{at} says so", lambda at=at: client.metadata(at=at).error is NO_LEADER)
    # Apache Kafka does not tell a leader that was stopped or cut off that there is no leader now: it goes on as one.
    told = [0, 2] if death is Death.KILL or client.cluster.kind == "kavka" else [2]
    assert_nothing_goes(client, *told, CONTROLLER)
    # Whoever asks: a preferred election, a reassignment, another controller.
    assert client.elect_preferred(at=CONTROLLER) is not ErrorCode.NONE
    ask_for_reassignment(client, [0, 2])
    epoch = client.cluster.controller_epoch()
    client.cluster.kill(CONTROLLER)
    eventually("another controller", lambda: client.cluster.controller() in (0, 2), timeout_s=FAILOVER_S)
    assert client.cluster.controller_epoch() > epoch
    holds_for(1.5, "neither 0 nor 2 leads", lambda: client.cluster.state(TOPIC).leader == -1)
    assert client.cluster.state(TOPIC).isr == (1,)
    assert_nothing_goes(client, *told)
    ask_for_reassignment(client, None)

    come_back(client, death, 1)
    state = client.wait_for_state("broker 1 leads", lambda state: state.leader == 1)
    assert state.leader_epoch > lost.leader_epoch
    eventually("and says so", lambda: client.metadata(at=1).leader == 1)
    client.wait_for_values(*COMMITTED, at=1)
    client.wait_for_isr(0, 1, 2)
    client.accepted(b"healed", at=1)
    client.wait_for_equal_logs(0, 1, 2)


def ask_for_reassignment(client: ClusterClient, replicas: list[int] | None) -> None:
    """None cancels. Its answer does not matter here: what it does must not be an election."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=5000, topics=[ReassignableTopic(name=TOPIC, partitions=[partition])]
    )
    client.ask(client.cluster.controller(), request, 0)


@pytest.mark.parametrize(
    ("first", "controller"),
    [
        pytest.param(0, CONTROLLER, id="0-returns"),
        pytest.param(1, CONTROLLER, id="1-returns"),
        pytest.param(0, 0, id="controller-among-them-0-returns", marks=pytest.mark.thorough),
        pytest.param(1, 0, id="controller-among-them-1-returns"),
    ],
)
def test_c_both_die_at_once(start_cluster: StartCluster, flavour: str, first: int, controller: int) -> None:
    client = start_cluster(brokers=4, controller=controller)
    client.create_topic(min_insync_replicas="2")
    client.cluster.kill(2)
    client.wait_for_isr(0, 1)
    commit(client)
    client.cluster.kill(0, 1)
    lost = client.wait_for_state("no leader", lambda state: state.leader == -1)
    if flavour == "kavka":
        assert lost.isr == (0, 1)
    elif lost.isr != (0, 1):  # Apache Kafka takes them out one by one; only the one it kept may lead
        (first,) = lost.isr
    eventually("the controller says so", lambda: client.metadata(at=CONTROLLER).error is NO_LEADER)
    assert_nothing_goes(client, CONTROLLER)
    other = 1 - first

    come_back(client, Death.KILL, first)
    state = client.wait_for_state(f"broker {first} leads", lambda state: state.leader == first)
    assert state.isr == (first,)
    assert state.leader_epoch > lost.leader_epoch
    eventually("and says so", lambda: client.metadata(at=first).leader == first)
    assert_reads_go_on_and_all_is_refused(client, leader=first)

    come_back(client, Death.KILL, other)
    client.wait_for_isr(0, 1)
    client.accepted(b"healed", at=first)
    client.wait_for_equal_logs(0, 1)


def test_a_record_that_only_the_dead_leader_had_was_never_seen_and_is_gone(start_cluster: StartCluster) -> None:
    """acks=1: the leader has m1, m2, m3, one follower m1 and m2, the other m1. The leader dies.

    The followers are kept from it by cuts: one that is stopped would find the next records in its socket."""
    client = start_cluster(brokers=4, controller=CONTROLLER, network=True)
    cluster = client.cluster
    client.create_topic(min_insync_replicas="1")
    assert client.accepted(b"m1", at=0) == 0
    client.wait_for_equal_logs(0, 1, 2)
    cluster.cut(0, 2)
    assert client.produce(b"m2", at=0, acks=ONE) == Produced(ErrorCode.NONE, 1)
    eventually("1 has m2", lambda: client.end_of_stored(1) == 2)
    cluster.cut(0, 1)
    assert client.produce(b"m3", at=0, acks=ONE) == Produced(ErrorCode.NONE, 2)
    assert client.values(at=0) == [b"m1"]
    cluster.kill(0)
    state = client.wait_for_state("another leads", lambda state: state.leader in (1, 2))
    leader = state.leader
    assert leader == 1, "the replicas' order prefers 1"
    client.wait_for_isr(1, 2)
    client.wait_for_values(b"m1", b"m2", at=1)
    client.wait_for_equal_logs(1, 2)

    cluster.heal_from_brokers(0)
    come_back(client, Death.KILL, 0)
    client.wait_for_isr(0, 1, 2)
    assert client.accepted(b"m3 anew", at=leader) == 2
    client.wait_for_equal_logs(0, 1, 2)
    client.wait_for_values(b"m1", b"m2", b"m3 anew", at=leader)
