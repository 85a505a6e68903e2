"""Bugs that the simulator found, each as the smallest scenario that shows it. The seed it was found with stands in
seeds.txt beside."""

from __future__ import annotations

import pytest

from kavka.simulator.scenarios import play
from kavka.simulator.world import World

# Coroutines of killed brokers are dropped where they stood: that is what killed means.
pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("seed", range(8))
def test_a_machine_that_lost_power_right_after_its_first_start_starts_again(seed: int) -> None:
    world = World(seed, brokers=1, settings={"min.insync.replicas": "1"})
    broker = world.brokers[1]
    broker.start()
    world.run_until(lambda: broker.is_serving, within_s=60)

    broker.power_cut()
    broker.start()

    world.run_until(lambda: broker.is_serving or bool(world.halts), within_s=60)
    assert not world.halts


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_leader_that_was_the_controller_and_lost_power_does_not_lead_on_as_if_nothing_had_been(seed: int) -> None:
    play("S26: a leader that was the controller, too, loses power and is back before its session ends", seed)
