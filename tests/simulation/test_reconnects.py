"""How often what is not there is asked for: steps of a simulation stand for work of a processor."""

from __future__ import annotations

import pytest

from kavka.simulator.world import World

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("seed", [2, 5])
def test_a_follower_that_gave_up_a_fetch_does_not_spin_while_its_leader_refuses_connections(seed: int) -> None:
    """Broker 2 loses power when it was just made leader, and its machine is back before the broker is."""
    world = World(seed, brokers=3, partitions=6, settings={"replica.fetch.wait.max.ms": "2000"})
    world.start()
    world.run_for(5)
    world.brokers[1].kill()
    stored = world.observer.stored
    world.run_until(lambda: all(stored[each].state.leader != 1 for each in world.partitions), within_s=30)
    world.brokers[2].power_cut()
    world.run_for(3)

    steps = world.scheduler.steps
    world.network.machine_up("broker-2")
    world.run_for(5)

    assert world.scheduler.steps - steps < 1_000
