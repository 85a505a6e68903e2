"""Share groups on three brokers, of which the leader of a partition, the coordinator of its states, or both are killed,
stopped, or cut off.

    F1  what a member was told is accepted is never delivered again to a fetch that begins later
    F2  every record is delivered, and in the end each is accepted, or its acceptance was sent and not answered
    F3  what was held and not acknowledged is delivered again, by the count that was stored

The state of a partition is kept by another broker than its leader, so that each can die alone.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kavka.errors import ErrorCode
from tests.kit.network_lab import NetworkLab, NoNetworkLab
from tests.kit.process_cluster import eventually
from tests.kit.share_cluster import FAILURES, Queue, ShareCluster
from tests.kit.share_member import ACCEPT, RELEASE, ShareMember

PATIENCE_S = 10.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareCluster]:
    made = ShareCluster(tmp_path_factory.mktemp("share-failover"))
    with made.cluster:
        yield made


def victims(queue: Queue, who: str) -> list[int]:
    leader, keeper = queue.apart()
    return {"leader": [leader], "keeper": [keeper], "both": [leader, keeper]}[who]


@pytest.mark.parametrize("who", ["leader", "keeper", "both"])
def test_what_was_accepted_is_not_delivered_again_and_what_was_held_is(brokers: ShareCluster, who: str) -> None:
    queue = Queue(brokers)
    queue.produce(10)
    queue.joined()
    killed = victims(queue, who)
    with queue.member() as member:
        assert member.fetch(queue.topic_id) == [(0, 9, 1)]
        assert member.acknowledge(queue.topic_id, (0, 2, [ACCEPT]), (4, 4, [RELEASE]), (6, 7, [ACCEPT])) == 0
        brokers.cluster.kill(*killed)
        if who == "keeper":
            # The leader is there, and so are its locks. It writes to who keeps the state next.
            assert member.acknowledge(queue.topic_id, (3, 3, [ACCEPT])) in (0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if who == "both":
        brokers.come_back(*killed)
    expected = [(3, 3, 1), (4, 4, 2), (5, 5, 1), (8, 9, 1)]
    if who == "keeper":
        # Its session has ended with its connection: what it held was released, and 3 is done.
        # The broker may notice the end of a connection after the next one has begun.
        seen: set[int] = set()

        def released() -> bool:
            found = {offset for first, last, _count in queue.fetched() for offset in range(first, last + 1)}
            seen.update(found)
            return found == {4, 5, 8, 9}

        eventually("what it held is released", released)
        assert seen == {4, 5, 8, 9}
    else:
        assert queue.fetched() == expected
    if who != "both":
        brokers.come_back(*killed)


class History:
    """Members that fetch, wait, accept, release and let go of records, and what they were told."""

    def __init__(self, queue: Queue, seed: int, *, allows_two_leaders: bool = False) -> None:
        """`allows_two_leaders`: a leader that is cut off still gives out what another one has given out and stored as
        done. F1 holds of leaders that know of each other."""
        self.queue = queue
        self.allows_two_leaders = allows_two_leaders
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.told: dict[int, float] = {}
        """When it was answered that an offset is accepted."""
        self.tried: set[int] = set()
        """Offsets of which an acceptance was sent."""
        self.delivered: dict[int, int] = {}
        self.problems: list[str] = []
        self.ended = threading.Event()

    def live(self) -> None:
        while not self.ended.is_set():
            try:
                with self.queue.member() as member:
                    member.socket.settimeout(PATIENCE_S)  # Who is paused answers nothing.
                    self._serve(member)
            except (*FAILURES, AssertionError):
                time.sleep(0.05)

    def _serve(self, member: ShareMember) -> None:
        while not self.ended.is_set():
            began = time.monotonic()
            pieces = member.fetch(self.queue.topic_id, wait_ms=300, max_records=40)
            with self.lock:
                for first, last, count in pieces:
                    for offset in range(first, last + 1):
                        self.delivered[offset] = self.delivered.get(offset, 0) + 1
                        if self.told.get(offset, began) < began and not self.allows_two_leaders:
                            self.problems.append(f"{offset} was accepted, and delivered again with count {count}")
                        if count > 10:
                            self.problems.append(f"{offset} was delivered with count {count}")
                drawn = self.random.random()
            if not pieces:
                continue
            if drawn < 0.1:
                return  # The connection closes, and what it held is free.
            kinds = [(first, last, [RELEASE if drawn < 0.2 else ACCEPT]) for first, last, _count in pieces]
            offsets = [offset for first, last, _count in pieces for offset in range(first, last + 1)]
            if drawn >= 0.2:
                with self.lock:
                    self.tried.update(offsets)
            error = member.acknowledge(self.queue.topic_id, *kinds)
            if error == 0 and drawn >= 0.2:
                with self.lock:
                    answered = time.monotonic()
                    self.told.update(dict.fromkeys(offsets, answered))

    def verdict(self) -> None:
        everything = set(range(self.queue.end))
        assert self.problems == []
        assert everything - set(self.delivered) == set()  # F2
        assert everything - self.tried == set()


def kill(brokers: ShareCluster, queue: Queue, killed: list[int]) -> None:
    brokers.cluster.kill(*killed)
    time.sleep(1.0)
    brokers.come_back(*killed)


def pause(brokers: ShareCluster, queue: Queue, paused: list[int]) -> None:
    """For as long as it takes until others have what these had, and a while longer: they go on as if nothing were."""
    for number in paused:
        brokers.cluster.brokers[number].pause()
    try:
        eventually("others lead", lambda: queue.leader() not in (*paused, -1) and queue.keeper() not in (*paused, -1))
        time.sleep(1.0)
    finally:
        for number in paused:
            brokers.cluster.brokers[number].resume()
    brokers.cluster.wait_for_brokers(*paused)


def cut_off(brokers: ShareCluster, queue: Queue, lonely: list[int]) -> None:
    """From ZooKeeper and the other brokers, until these have what they had, and a while longer. Members reach all."""
    cluster = brokers.cluster
    for number in lonely:
        cluster.cut_from_zookeeper(number)
        cluster.cut_from_brokers(number)
    try:
        eventually("others lead", lambda: queue.leader() not in (*lonely, -1) and queue.keeper() not in (*lonely, -1))
        time.sleep(1.0)
    finally:
        for number in lonely:
            cluster.heal_from_zookeeper(number)
            cluster.heal_from_brokers(number)
    cluster.wait_for_brokers(*lonely)


@pytest.mark.thorough
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", [kill, pause], ids=["kills", "pauses"])
@pytest.mark.parametrize("who", ["leader", "keeper", "both"])
def test_a_history_under_faults(
    brokers: ShareCluster, who: str, fault: Callable[[ShareCluster, Queue, list[int]], None]
) -> None:
    if fault is pause and who == "both":
        pytest.skip("with two of three brokers away nobody has enough replicas in sync, and nothing moves")
    play(brokers, who, fault)


@pytest.mark.thorough
@pytest.mark.timeout(400)
@pytest.mark.parametrize("who", ["leader", "keeper"])
def test_a_history_under_cuts(tmp_path: Path, who: str) -> None:
    try:
        lab = NetworkLab()
    except NoNetworkLab as missing:
        pytest.skip(str(missing))
    with lab:
        brokers = ShareCluster(tmp_path, lab=lab)
        with brokers.cluster:
            play(brokers, who, cut_off)


def play(brokers: ShareCluster, who: str, fault: Callable[[ShareCluster, Queue, list[int]], None]) -> None:
    queue = Queue(brokers, leader=1)
    queue.produce(50)
    queue.joined()
    history = History(queue, seed=17, allows_two_leaders=fault is cut_off)
    members = [threading.Thread(target=history.live) for _ in range(3)]
    for member in members:
        member.start()
    try:
        for _ in range(4):
            for _ in range(4):
                queue.produce(50)
                time.sleep(0.3)
            fault(brokers, queue, list(dict.fromkeys(victims(queue, who))))
        eventually("everything is done", queue.is_done, timeout_s=90.0)
    finally:
        history.ended.set()
        for member in members:
            member.join()
    history.verdict()
