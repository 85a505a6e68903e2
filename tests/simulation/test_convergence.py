"""What the brokers that run must have done while others are broken (R20): of a topic that is deleted meanwhile."""

from __future__ import annotations

import pytest

from kavka.model import TopicPartition
from kavka.simulator.rules.convergence import missing_of_core
from kavka.simulator.world import TOPIC, World

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

PARTITION = TopicPartition(TOPIC, 0)


@pytest.fixture
def world() -> World:
    """Three brokers and one topic, fully replicated."""
    world = World(11, partitions=1)
    world.start()
    return world


def without(world: World, broker_id: int) -> list[int]:
    """The broker is dead; its session is over and the others have shrunk the ISR."""
    core = [each for each in world.brokers if each != broker_id]
    world.brokers[broker_id].is_given_up = True
    world.brokers[broker_id].kill()
    world.run_until(lambda: not missing(world, core), within_s=30)
    return core


def missing(world: World, core: list[int]) -> list[str]:
    return missing_of_core(world.observer, world.brokers, core)


def follower(world: World) -> int:
    return next(each for each in world.brokers if each != world.observer.stored[PARTITION].state.leader)


def hosts(world: World, broker_id: int) -> bool:
    running = world.brokers[broker_id].broker
    return running is not None and running.replicas.partition(*PARTITION) is not None


def test_a_topic_that_waits_for_a_dead_broker_s_replica_has_no_leader_and_no_replica_in_the_core(world: World) -> None:
    core = without(world, follower(world))

    world.administer(lambda admin: admin.delete_topics([TOPIC]))
    world.run_until(lambda: not any(hosts(world, each) for each in core), within_s=30)
    world.run_for(5.0)

    assert PARTITION in world.observer.stored  # Its znodes wait for the broker that is dead.
    assert missing(world, core) == []


def test_a_topic_that_is_being_deleted_has_no_replica_left_in_the_core(world: World) -> None:
    core = without(world, follower(world))
    world.administer(lambda admin: admin.delete_topics([TOPIC]))

    world.run_until(lambda: bool(missing(world, core)), within_s=30)

    assert any("is being deleted, and still at brokers" in each for each in missing(world, core))


def test_a_topic_of_which_the_core_has_all_replicas_is_to_be_gone(world: World) -> None:
    core = list(world.brokers)
    world.administer(lambda admin: admin.delete_topics([TOPIC]))

    world.run_until(lambda: bool(missing(world, core)), within_s=30)

    assert f"topic {TOPIC} is not deleted, the core is {core}" in missing(world, core)
    world.run_until(lambda: not missing(world, core), within_s=30)
    assert PARTITION not in world.observer.stored
