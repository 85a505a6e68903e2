"""ZooKeeper sessions in the simulator: the client, the wire and the server are those of production."""

from __future__ import annotations

import asyncio

import pytest

from kavka.simulator.host.network import SimulatedNetwork
from kavka.simulator.host.scheduler import NodeLoop, Scheduler
from kavka.simulator.host.zookeeper import NODE, SimulatedZooKeeper
from kavka.zookeeper.client import ZooKeeperClient
from kavka.zookeeper.port import ConnectionLoss, CreateMode, Event, SessionEvent, SessionExpired, SessionState

SESSION_TIMEOUT_MS = 6_000


class World:
    """A ZooKeeper server and two clients, each on a node of its own."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(seed)
        self.network = SimulatedNetwork(self.scheduler)
        self.zookeeper = SimulatedZooKeeper(self.scheduler, self.network)
        self.first, self.second = self.scheduler.node("first"), self.scheduler.node("second")

    async def connect(self, loop: NodeLoop) -> ZooKeeperClient:
        while not self.zookeeper.is_serving:  # noqa: ASYNC110 - another node's state
            await asyncio.sleep(0.001)
        return await ZooKeeperClient.connect(
            self.network.port_of(loop.name, loop),
            self.zookeeper.connect_string,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=60_000,
            rng=self.scheduler.new_random(),
        )

    def connect_both(self) -> tuple[ZooKeeperClient, ZooKeeperClient]:
        return (
            self.scheduler.run(self.first, self.connect(self.first), within_s=10),
            self.scheduler.run(self.second, self.connect(self.second), within_s=10),
        )


@pytest.mark.parametrize("seed", range(5))
def test_a_session_that_is_cut_off_too_long_expires_and_its_ephemeral_nodes_go(seed: int) -> None:
    world = World(seed)
    run, network = world.scheduler.run, world.network
    first, second = world.connect_both()
    events: list[Event] = []
    first.subscribe(events.append)
    run(world.first, first.create("/alive", b"1", mode=CreateMode.EPHEMERAL), within_s=5)

    network.cut("first", NODE)
    world.scheduler.run_for(SESSION_TIMEOUT_MS / 1000 / 2)
    assert run(world.second, second.exists("/alive"), within_s=5) is not None
    world.scheduler.run_for(SESSION_TIMEOUT_MS / 1000)
    assert run(world.second, second.exists("/alive"), within_s=5) is None
    assert SessionEvent(SessionState.EXPIRED) not in events, "only the server may say so"
    network.heal("first", NODE)
    world.scheduler.run_until(lambda: SessionEvent(SessionState.EXPIRED) in events, within_s=30)

    with pytest.raises(SessionExpired):
        run(world.first, first.exists("/"), within_s=5)
    run(world.first, first.renew(), within_s=10)
    assert run(world.first, first.exists("/alive"), within_s=5) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_session_outlives_the_servers_restart_and_sees_what_it_missed(seed: int) -> None:
    world = World(seed)
    run = world.scheduler.run
    first, second = world.connect_both()
    events: list[Event] = []
    first.subscribe(events.append)
    run(world.first, first.create("/alive", b"1", mode=CreateMode.EPHEMERAL), within_s=5)
    assert run(world.first, first.exists("/later", watch=True), within_s=5) is None
    session_id = first.session_id

    world.zookeeper.kill()
    world.scheduler.run_for(1.0)
    world.zookeeper.start()
    run(world.second, second.create("/later"), within_s=30)

    stat = run(world.first, first.exists("/alive"), within_s=30)
    assert stat is not None
    assert stat.ephemeral_owner == first.session_id == session_id
    world.scheduler.run_until(lambda: any(getattr(event, "path", "") == "/later" for event in events), within_s=10)


def test_a_write_under_a_cut_has_an_unknown_outcome_and_either_happened_or_not() -> None:
    happened = set()
    for seed in range(30):
        world = World(seed)
        run = world.scheduler.run
        first, second = world.connect_both()
        writing = world.first.create_task(first.create(f"/written-{seed}"))
        world.scheduler.run_for(0.000_2)
        world.network.reset_some(1.0)
        try:
            world.scheduler.run_until(writing.done, within_s=30)
            writing.result()
        except ConnectionLoss:
            world.scheduler.run_for(1.0)
            happened.add(run(world.second, second.exists(f"/written-{seed}"), within_s=30) is not None)
    assert happened == {True, False}
