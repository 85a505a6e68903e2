"""The liveness phase: faults are over, and the cluster must come together within a bound of virtual time.

First a core alone: some brokers have no more faults, with ZooKeeper; the others stay dead, paused or cut off from all.
The core must elect, shrink, serve and answer every request. Then no broker has a fault, and everything must be as if
there had been none (R20): logs equal byte for byte, nothing acknowledged lost, groups stable, moves done.

The core is drawn so that it can do that: it has the leader of every partition, without faults and with a session that
lasts, or, if a partition has no such leader, all of its replicas. Fewer brokers would do if the controller could elect
another member of the ISR, but that depends on what the member lost.

Source: TigerBeetle's VOPR (its liveness mode).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.errors import RequestError
from kavka.simulator.clients.share_members import GROUP as SHARERS
from kavka.simulator.clients.streams_members import COUNTING, REPARTITIONS
from kavka.simulator.clients.transactors import GROUP as TRANSFORMERS
from kavka.simulator.host.scheduler import SimulationStuck
from kavka.simulator.host.zookeeper import NODE as ZOOKEEPER
from kavka.simulator.rules import convergence
from kavka.simulator.rules.transaction_rules import LEDGER

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kavka.model import Offset, TopicPartition
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.world import World

    _Found = dict[TopicPartition, dict[Offset, bytes]]

CONVERGENCE_S: Final = 180.0
"""R20's bound: by then everything has come together, after the last fault was healed."""
CORE_S: Final = 120.0
"""The same for the core: sessions end, ISRs shrink after replica.lag.time.max.ms, restarted brokers recover."""
ANSWER_S: Final = 60.0
"""By then every record that a producer holds was acknowledged or given up."""
REST: Final = 0.7
"""How often a broker that is not needed stays broken."""
DEAD, ASLEEP, CUT_OFF = "dead", "asleep", "cut off"


class Liveness:
    """The phases of one world. `settling_s`: how long a silent session may last."""

    def __init__(self, world: World, random: Random, *, settling_s: float) -> None:
        self._world = world
        self._random = random
        self._settling_s = settling_s
        self.cores = 0
        """How many cores smaller than the cluster came together."""

    def settle_core(self) -> bool:
        """The first phase. Returns whether there is a core smaller than the cluster. The others stay broken
        afterwards."""
        world = self._world
        world.faults.stop()
        world.faults.heal_surroundings()
        # Who was not heard for too long loses its session now, not when it is relied upon.
        world.run_for(self._settling_s)
        rest = self._draw_rest()
        if not rest:
            return False
        core = [broker_id for broker_id in world.brokers if broker_id not in rest]
        world.note(f"the core is {core}")
        world.faults.heal(core)
        for broker_id in rest:
            self._break(world.brokers[broker_id])
        self._until(lambda: convergence.missing_of_core(world.observer, world.brokers, core), CORE_S, f"core {core}")
        world.clients.is_writing = False
        self._until(lambda: _waiting(world), ANSWER_S, f"core {core}")
        self.cores += 1
        return True

    def settle(self) -> None:
        """The last phase: without faults, everything must become whole again."""
        world = self._world
        world.faults.heal()
        world.clients.is_writing = world.transactors.is_writing = False
        world.sharers.is_honest = world.streamers.is_honest = True
        found, ledger = self._audit()
        observer = world.observer
        observer.check_nothing_lost(found)
        observer.groups.check_at_least_once(found)
        observer.transactions.check(ledger)
        observer.transactions.check_inputs(ledger, found, observer.groups.positions(TRANSFORMERS))
        if len(world.sharers):
            observer.shares.check_nothing_lost(SHARERS, {**found, **ledger}, observer.log_starts())
            observer.shares.check_states(world.brokers.values())
        if len(world.streamers):
            observer.streams.check_standbys({COUNTING: REPARTITIONS})
            observer.streams.check_states(world.brokers.values())
        # While all was read, brokers wrote on by themselves: a share group's state when a leader changes or a snapshot
        # is due. Followers may lack the last of it for now.
        self._until(self._missing, CONVERGENCE_S, "all, after it was read")
        different = convergence.differing_bytes(observer)
        observer.require("R20", not different, f"{different}")

    def _audit(self) -> tuple[_Found, _Found]:
        """Waits until all has come together, and returns what new readers find: of all that is written without
        transactions, and what is committed of the ledger. An administrator's request that a fault held up may delete a
        topic while it is read: then all of it again."""
        world = self._world
        while True:
            self._until(lambda: _waiting(world) + self._missing(), CONVERGENCE_S, "all")
            partitions = list(world.observer.stored)
            try:
                return self._read(), self._read(LEDGER)
            except RequestError:
                if list(world.observer.stored) == partitions:
                    raise

    def _read(self, topic: str | None = None) -> _Found:
        """What a new reader finds; of `topic` only what is committed."""
        world = self._world
        loop = world.clients.node("auditor")
        if topic is None:
            task = loop.create_task(world.clients.read_all(loop))
        else:
            partitions = [partition for partition in world.observer.stored if partition.topic == topic]
            if not partitions:
                return {}
            task = loop.create_task(world.clients.read_all(loop, partitions, read_committed=True))
        world.run_until(task.done, within_s=60)
        return task.result()

    def _missing(self) -> list[str]:
        world = self._world
        unwell = [broker.node for broker in world.brokers.values() if not broker.is_whole]
        if unwell:
            return [f"{unwell} do not serve"]
        if world.insisting:
            return ["administrators still set back what was changed"]
        return convergence.missing(world.observer, world.brokers) + world.missing_of_members()

    def _draw_rest(self) -> dict[int, None]:
        """Who stays broken: as many as chance and every partition's need of a leader allow."""
        world = self._world
        needed: dict[int, None] = {}
        for partition, stored in world.observer.stored.items():
            leader = world.brokers.get(stored.state.leader)
            if leader is not None and leader.is_whole and not leader.is_paused:
                needed[leader.broker_id] = None
            else:
                needed |= dict.fromkeys(world.observer.assigned[partition])
        free = [broker_id for broker_id in world.brokers if broker_id not in needed]
        return {broker_id: None for broker_id in free if self._random.random() < REST}

    def _break(self, broker: SimulatedBroker) -> None:
        """Breaks it until it is healed."""
        world = self._world
        how = (DEAD, ASLEEP, CUT_OFF)[int(self._random.random() * 3)]
        world.note(f"{broker.node} stays {how}")
        broker.is_given_up = True
        if how == CUT_OFF:
            for other in (ZOOKEEPER, *(each.node for each in world.brokers.values() if each is not broker)):
                world.network.cut_for_good(broker.node, other)
        elif how == DEAD and broker.is_alive:
            broker.kill()
        elif broker.is_alive and not broker.is_paused:
            broker.pause()

    def _until(self, missing: Callable[[], list[str]], within_s: float, what: str) -> None:
        try:
            self._world.run_until(lambda: not missing(), within_s=within_s, every_s=0.5)
        except SimulationStuck as stuck:
            raise SimulationStuck(f"R20: {what}: {stuck}: {missing()}") from stuck


def _waiting(world: World) -> list[str]:
    found = [f"{world.clients.writers} producers wait for answers"] if world.clients.writers else []
    # A coordinator that lost what it had stored (KIP-966) may never end what it has told others of.
    if not world.transactors.is_writing and world.transactors.waiting and not world.observer.stands_last:
        found.append(f"{world.transactors.waiting} transactional producers wait for an outcome")
    return found
