"""One machine that loses power again and again, at the worst moments too, while the others are paused and cut off.

Without eligible leader replicas about one seed in four loses acknowledged records; test_scenarios.py has the case in
which each does.
"""

from __future__ import annotations

from random import Random

import pytest

from kavka.simulator.faults.mix import FaultMix
from kavka.simulator.world import World

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEEDS = (5, 8, 13)
FAULTS = 40
UNSAFE = 1
"""The broker whose machine loses power, whoever else is in sync."""


def storm(seed: int) -> World:
    """Writes go on all the while. Raises Violation where something acknowledged is lost."""
    own = {"kavka.eligible.leader.replicas.enable": "true", "replica.lag.time.max.ms": "3000"}
    world = World(seed, settings=own, mix=FaultMix({"kill": 1.0}, 1e9))
    world.start()
    world.run_swarm(hours=0.0)
    random = Random(seed)
    unsafe = world.brokers[UNSAFE]
    others = [broker for broker_id, broker in world.brokers.items() if broker_id != UNSAFE]
    for _ in range(FAULTS):
        other = random.choice(others)
        match random.choice(("power cut", "pause", "cut", "cut")):
            case "power cut":
                if unsafe.is_alive:
                    unsafe.power_cut()
                    world.observer.on_power_cut(UNSAFE)
                else:
                    unsafe.start()
            case "pause":
                if other.is_paused:
                    other.resume()
                elif other.is_serving:
                    other.pause()
            case "cut":
                if random.random() < 0.5:
                    world.network.cut(unsafe.node, other.node)
                else:
                    world.network.heal(unsafe.node, other.node)
        world.run_for(random.expovariate(1 / 4.0))
    world.settle()
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_with_eligible_leader_replicas_one_unsafe_machine_loses_nothing_that_was_acknowledged(seed: int) -> None:
    world = storm(seed)

    assert world.clients.acked > FAULTS
