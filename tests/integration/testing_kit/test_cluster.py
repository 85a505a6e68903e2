"""kavka.testing.Cluster: each fault is what it says, seen by clients and by the brokers that are left."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kazoo.client import KazooClient

from kavka.errors import ConfigError, ErrorCode, KavkaError
from kavka.runtime.server import Server, Started
from kavka.testing import BrokerHalted, Cluster
from kavka.zookeeper.port import SessionExpired
from tests.kit.broker_client import BrokerClient, Closed, batch

ANSWER_S = 60.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


def port_of(cluster: Cluster, broker_id: int) -> int:
    return int(cluster.address(broker_id).rpartition(":")[2])


def client_of(cluster: Cluster, broker_id: int, timeout_s: float = ANSWER_S) -> BrokerClient:
    return BrokerClient(port_of(cluster, broker_id), timeout_s=timeout_s)


def write(cluster: Cluster, topic: str, *values: str) -> None:
    """Every value is acknowledged by all replicas in sync."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 2})
    failed: list[object] = []

    def on_delivery(error: object, _message: object) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(30) == 0
    assert failed == []


def read(cluster: Cluster, topic: str) -> list[bytes]:
    """What the leader has below its high watermark."""
    with client_of(cluster, cluster.wait_for_leader(topic)) as client:
        return client.values(topic)


def a_follower(cluster: Cluster, topic: str) -> int:
    leader = cluster.leader(topic)
    return next(broker_id for broker_id in cluster.isr(topic) if broker_id not in (leader, cluster.controller()))


def led_by(cluster: Cluster, topic: str, leader: int) -> None:
    """A topic of one partition that this broker leads."""
    others = [broker_id for broker_id in cluster.broker_ids if broker_id != leader]
    cluster.create_topic(topic, assignment={0: [leader, *others]})
    assert cluster.leader(topic) == leader


def not_controller(cluster: Cluster) -> int:
    return next(broker_id for broker_id in cluster.broker_ids if broker_id != cluster.controller())


# -- life


def test_brokers_replicate_and_tell_the_test_how_far(cluster: Cluster) -> None:
    cluster.create_topic("t", partitions=2)
    write(cluster, "t", "a", "b")
    cluster.wait_until(lambda: all(cluster.log_end_offset(broker_id, "t") == 2 for broker_id in cluster.broker_ids))
    assert cluster.high_watermarks("t") == {0: 2, 1: 0}
    assert cluster.isr("t") == [1, 2, 3]
    assert cluster.partition("t").replicas[0] == cluster.leader("t")
    assert read(cluster, "t") == [b"a", b"b"]


def test_nothing_is_left_of_a_cluster_that_has_ended() -> None:
    threads = set(threading.enumerate())
    descriptors = len(os.listdir("/proc/self/fd"))
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("t")
        write(cluster, "t", "a")
        directory = cluster.directory
        assert (directory / "broker-2" / "t-0").exists()
    assert not directory.exists()
    assert set(threading.enumerate()) <= threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_a_directory_that_was_given_keeps_everything(tmp_path: Path) -> None:
    with Cluster(brokers=2, directory=tmp_path / "kept") as cluster:
        cluster.create_topic("t")
        write(cluster, "t", "a")
    assert (tmp_path / "kept" / "broker-1" / ".kafka_cleanshutdown").exists()
    with Cluster(brokers=2, directory=tmp_path / "kept") as cluster:
        cluster.wait_in_sync("t")
        assert read(cluster, "t") == [b"a"]


def test_two_clusters_know_nothing_of_each_other() -> None:
    with Cluster(brokers=1) as one, Cluster(brokers=1) as other:
        one.create_topic("t")
        with pytest.raises(KeyError):
            other.leader("t")


@pytest.mark.parametrize(
    "settings",
    [
        {"log.dirs": "/x"},
        {"zookeeper.connect": "h"},
        {"num.network.threads": 3},
        {"log.segment.bytes": "many"},
        {"zookeeper.set.acl": True},
    ],
)
def test_settings_that_a_cluster_cannot_have_are_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Cluster(settings=settings)


def test_a_broker_that_is_not_there_or_not_in_that_state_is_a_mistake_of_the_test(cluster: Cluster) -> None:
    for act in (
        lambda: cluster.kill(4),
        lambda: cluster.cut(1, 7),
        lambda: cluster.cut(2, 2),
        lambda: cluster.start(1),
    ):
        with pytest.raises(ValueError):
            act()
    cluster.kill(1)
    for act in (lambda: cluster.kill(1), lambda: cluster.pause(1), lambda: cluster.stop(1), lambda: cluster.resume(2)):
        with pytest.raises(ValueError):
            act()


# -- kill, stop, start


def test_a_killed_leader_is_followed_by_another_and_what_was_acknowledged_is_there(cluster: Cluster) -> None:
    cluster.create_topic("t", settings={"min.insync.replicas": 2})
    write(cluster, "t", "before")
    leader = cluster.leader("t")
    cluster.kill(leader)
    assert leader not in cluster.running
    assert cluster.wait_for_leader("t", other_than=leader) != leader
    write(cluster, "t", "after")
    cluster.start(leader)
    cluster.wait_in_sync("t")
    assert cluster.isr("t") == [1, 2, 3]
    assert cluster.log_end_offset(leader, "t") == 2
    assert read(cluster, "t") == [b"before", b"after"]


def test_a_killed_broker_holds_no_lock_whatever_fails_while_it_is_taken_apart(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_server: Server) -> None:
        raise RuntimeError("dictionary changed size during iteration")

    with monkeypatch.context() as patched:
        patched.setattr(Server, "abort", fail)
        cluster.kill(2)
    cluster.start(2)
    assert 2 in cluster.running


@pytest.mark.parametrize("whose", ["the controller", "another"])
def test_a_killed_broker_that_is_started_at_once_need_not_wait_for_its_former_session(whose: str) -> None:
    session_s = 50  # A start takes a second, and on a busy machine several.
    with Cluster(brokers=3, settings={"zookeeper.session.timeout.ms": session_s * 1_000}) as cluster:
        victim = cluster.controller() if whose == "the controller" else not_controller(cluster)
        led_by(cluster, "t", victim)
        write(cluster, "t", "before")
        began = time.monotonic()
        cluster.kill(victim)
        cluster.start(victim)
        assert time.monotonic() - began < session_s - 5
        cluster.wait_in_sync("t")
        assert cluster.controller() in cluster.running
        write(cluster, "t", "after")
        assert read(cluster, "t") == [b"before", b"after"]


def test_a_killed_broker_closes_its_connections_and_marks_nothing_clean(cluster: Cluster) -> None:
    victim = not_controller(cluster)
    with client_of(cluster, victim) as client:
        cluster.kill(victim)
        assert client.is_closed_by_broker()
    with pytest.raises(ConnectionRefusedError):
        client_of(cluster, victim)
    assert not (cluster.directory / f"broker-{victim}" / ".kafka_cleanshutdown").exists()


def test_a_killed_broker_leaves_its_session_to_expire(cluster: Cluster) -> None:
    victim = not_controller(cluster)
    with kazoo_of(cluster) as client:  # Connected before: a busy machine may take as long for that as a session lasts.
        began = time.monotonic()
        cluster.kill(victim)
        assert client.exists(f"/brokers/ids/{victim}") is not None
    cluster.wait_until(lambda: not is_registered(cluster, victim))
    assert time.monotonic() - began > 1.0


@contextmanager
def kazoo_of(cluster: Cluster) -> Iterator[KazooClient]:
    client = KazooClient(cluster.zookeeper_connect)
    client.start(timeout=ANSWER_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def is_registered(cluster: Cluster, broker_id: int) -> bool:
    with kazoo_of(cluster) as client:
        return client.exists(f"/brokers/ids/{broker_id}") is not None


def test_a_stopped_broker_hands_over_and_marks_its_logs_clean(cluster: Cluster) -> None:
    leader = not_controller(cluster)
    led_by(cluster, "t", leader)
    write(cluster, "t", "a")
    cluster.stop(leader)
    assert cluster.leader("t") in cluster.running
    assert not is_registered(cluster, leader)
    assert (cluster.directory / f"broker-{leader}" / ".kafka_cleanshutdown").exists()
    cluster.start(leader)
    cluster.wait_in_sync("t")


def test_the_controllers_death_is_followed_by_another_controller(cluster: Cluster) -> None:
    former = cluster.controller()
    cluster.kill(former)
    cluster.wait_until(lambda: cluster.controller() in cluster.running)
    cluster.create_topic("t", replicas=2)
    write(cluster, "t", "a")


# -- pause


def test_a_paused_broker_is_connected_to_and_answers_when_it_goes_on(cluster: Cluster) -> None:
    victim = not_controller(cluster)
    cluster.pause(victim)
    with client_of(cluster, victim, timeout_s=0.3) as client:
        with pytest.raises(TimeoutError):
            client.topics()
        cluster.resume(victim)
        client.socket.settimeout(ANSWER_S)
        assert client.receive_frame()


def test_a_follower_that_is_paused_leaves_the_replicas_in_sync_and_comes_back(cluster: Cluster) -> None:
    cluster.create_topic("t", settings={"min.insync.replicas": 2})
    follower = a_follower(cluster, "t")
    cluster.pause(follower)
    write(cluster, "t", "a")
    assert follower not in cluster.isr("t")
    cluster.resume(follower)
    cluster.wait_in_sync("t")
    assert cluster.log_end_offset(follower, "t") == 1


def test_a_leader_paused_beyond_its_session_is_replaced_and_takes_nothing_when_it_wakes(cluster: Cluster) -> None:
    leader = not_controller(cluster)
    led_by(cluster, "t", leader)
    write(cluster, "t", "before")
    with client_of(cluster, leader) as client:
        cluster.pause(leader)
        cluster.wait_for_leader("t", other_than=leader)
        write(cluster, "t", "meanwhile")
        cluster.resume(leader)
        answer = client.produce("t", bytes(batch(b"by a zombie")))
        assert answer.error_code != 0
    cluster.wait_in_sync("t")
    assert read(cluster, "t") == [b"before", b"meanwhile"]


def test_a_paused_broker_can_be_killed(cluster: Cluster) -> None:
    victim = not_controller(cluster)
    cluster.pause(victim)
    cluster.kill(victim)
    cluster.start(victim)
    assert sorted(cluster.running) == [1, 2, 3]


def test_brokers_go_on_while_zookeeper_stands_still(cluster: Cluster) -> None:
    cluster.create_topic("t")
    cluster.pause("zookeeper")
    write(cluster, "t", "a")
    cluster.resume("zookeeper")
    cluster.wait_in_sync("t")
    assert read(cluster, "t") == [b"a"]


# -- network


def test_a_follower_that_is_cut_off_leaves_the_replicas_in_sync_and_comes_back(cluster: Cluster) -> None:
    cluster.create_topic("t")
    leader, follower = cluster.leader("t"), a_follower(cluster, "t")
    cluster.cut(leader, follower)
    write(cluster, "t", "a")
    assert follower not in cluster.isr("t")
    assert cluster.log_end_offset(follower, "t") == 0
    cluster.heal(leader, follower)
    cluster.wait_in_sync("t")
    assert cluster.log_end_offset(follower, "t") == 1


@pytest.mark.parametrize("requests_are_cut", [True, False], ids=["its requests", "their answers"])
def test_one_way_is_enough_to_keep_a_follower_from_following(cluster: Cluster, requests_are_cut: bool) -> None:
    cluster.create_topic("t")
    leader, follower = cluster.leader("t"), a_follower(cluster, "t")
    source, target = (follower, leader) if requests_are_cut else (leader, follower)
    cluster.cut(source, target, both_ways=False)
    write(cluster, "t", "a")
    assert follower not in cluster.isr("t")
    cluster.heal()
    cluster.wait_in_sync("t")


def test_what_only_an_isolated_leader_took_is_never_acknowledged_and_goes(cluster: Cluster) -> None:
    leader = not_controller(cluster)
    led_by(cluster, "t", leader)
    write(cluster, "t", "before")
    cluster.isolate(leader)
    with client_of(cluster, leader) as client:
        client.socket.settimeout(0.5)
        try:
            assert client.produce("t", bytes(batch(b"lonely"))).error_code != 0
        except (TimeoutError, Closed):
            pass  # No answer is none.
    cluster.wait_for_leader("t", other_than=leader)
    write_without(cluster, leader, "t", "after")
    cluster.heal()
    cluster.wait_in_sync("t")
    assert read(cluster, "t") == [b"before", b"after"]
    assert cluster.log_end_offset(leader, "t") == 2


def write_without(cluster: Cluster, broker_id: int, topic: str, value: str) -> None:
    """By a client that does not know this broker."""
    leader = cluster.wait_for_leader(topic, other_than=broker_id)

    def taken() -> bool:
        with client_of(cluster, leader) as client:
            return client.produce(topic, bytes(batch(value.encode()))).error_code == 0

    cluster.wait_until(taken)


def test_a_broker_cut_off_from_zookeeper_alone_loses_its_session_and_registers_again(cluster: Cluster) -> None:
    victim = not_controller(cluster)
    led_by(cluster, "t", victim)
    cluster.cut(victim, "zookeeper")
    cluster.wait_until(lambda: not is_registered(cluster, victim))
    assert cluster.wait_for_leader("t", other_than=victim) != victim
    cluster.heal(victim)
    cluster.wait_until(lambda: is_registered(cluster, victim))
    cluster.wait_in_sync("t")


# -- disk and session


def produced(cluster: Cluster, broker_id: int, value: bytes) -> int:
    with client_of(cluster, broker_id) as client:
        return int(client.produce("t", bytes(batch(value))).error_code)


def test_a_slow_disk_makes_writes_slow_and_no_more(cluster: Cluster) -> None:
    cluster.create_topic("t")
    leader = cluster.leader("t")
    cluster.wait_in_sync("t")  # A leader that is still making its log would be slow to lead.
    with client_of(cluster, leader) as client:
        assert client.produce("t", bytes(batch(b"first"))).error_code == 0
    cluster.slow_disk(leader, 200)
    began = time.monotonic()
    while (found := produced(cluster, leader, b"a")) == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        # A machine that stood still for two seconds ended the leader's session: another one leads, or the same again.
        assert time.monotonic() - began < 60
        cluster.slow_disk(leader, 0)
        leader = cluster.leader("t")
        cluster.slow_disk(leader, 200)
        began = time.monotonic()
    assert found == ErrorCode.NONE
    assert time.monotonic() - began >= 0.2
    cluster.slow_disk(leader, 0)
    cluster.wait_in_sync("t")
    assert read(cluster, "t") == [b"first", b"a"]


def test_a_broker_whose_session_expired_registers_again(cluster: Cluster) -> None:
    cluster.create_topic("t")
    victim = not_controller(cluster)
    cluster.expire_session(victim)
    cluster.wait_until(lambda: is_registered(cluster, victim))
    cluster.wait_in_sync("t")
    write(cluster, "t", "a")


def test_restore_undoes_every_fault(cluster: Cluster) -> None:
    cluster.create_topic("t")
    cluster.kill(1)
    cluster.pause(2)
    cluster.cut(2, 3)
    cluster.slow_disk(3, 5)
    cluster.restore()
    assert sorted(cluster.running) == [1, 2, 3]
    assert cluster.isr("t") == [1, 2, 3]
    write(cluster, "t", "a")


def test_waiting_ends_with_what_is_missing(cluster: Cluster) -> None:
    with pytest.raises(TimeoutError, match="there is no topic nothing"):
        cluster.wait_in_sync("nothing", timeout=0.05)
    with pytest.raises(TimeoutError, match="is not true"):
        cluster.wait_until(lambda: False, timeout=0.05)


def test_a_broker_that_halts_makes_the_end_of_the_cluster_fail() -> None:
    def scenario() -> None:
        with Cluster(brokers=1) as cluster:
            cluster.create_topic("t")
            home = cluster.directory / "broker-1"
            home.rename(cluster.directory / "taken-away")
            with client_of(cluster, 1) as client, suppress(Closed):
                client.try_to_create_topic("u")
            cluster.wait_until(lambda: not cluster.running)

    with pytest.raises(BrokerHalted, match="no usable log directory is left"):
        scenario()


def test_a_broker_that_cannot_start_says_why() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.kill(2)
        (cluster.directory / "broker-2" / "meta.properties").write_text("version=0\nbroker.id=7\n")
        with pytest.raises(KavkaError, match="broker"):
            cluster.start(2)
        assert cluster.running == [1]


# -- on an event loop


def test_an_event_loop_goes_on_while_the_test_waits_for_its_cluster() -> None:
    async def scenario() -> int:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.001)
                turns += 1

        async with Cluster(brokers=3) as cluster:
            turning = asyncio.create_task(turn())
            await cluster.create_topic("t")
            leader = await cluster.leader("t")
            await cluster.kill(leader)
            assert await cluster.wait_for_leader("t", other_than=leader) != leader
            await cluster.start(leader)
            await cluster.wait_in_sync("t")
            assert await cluster.isr("t") == [1, 2, 3]
            turning.cancel()
        return turns

    assert asyncio.run(scenario()) > 10


def test_ports_stay_those_of_the_brokers_over_their_lives(cluster: Cluster) -> None:
    before = cluster.bootstrap_servers
    cluster.kill(2)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port_of(cluster, 2))) != 0
    cluster.start(2)
    assert cluster.bootstrap_servers == before


def test_a_broker_whose_session_ends_while_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real, lives = Server.start, dict[int, int]()

    async def expire_first(server: Server) -> Started:
        broker_id = server._config.broker_id
        lives[broker_id] = lives.get(broker_id, 0) + 1
        if (broker_id, lives[broker_id]) == (2, 1):
            raise SessionExpired("/brokers/ids/2")
        return await real(server)

    monkeypatch.setattr(Server, "start", expire_first)
    with Cluster(brokers=2) as cluster:
        topic = "orders"
        cluster.create_topic(topic, replicas=2)
        write(cluster, topic, "after a second start")
        assert read(cluster, topic) == [b"after a second start"]
    assert lives == {1: 1, 2: 2}
