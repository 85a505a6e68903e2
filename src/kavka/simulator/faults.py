"""Faults of a simulated cluster, drawn by lot: which, when, for how long; each seed draws its own mix.

Decides what goes wrong. It keeps within what acknowledged records must survive: at any moment at most `bearable`
brokers are dead or have lost what was not synced, for replication factor 3 and min.insync.replicas 2 that is one.
Pauses, cuts and lost sessions may hit all of them at once: they cost availability, not records.

    kill         a broker process dies and is started again
    power cut    the same, and unsynced writes are lost or torn, and nobody hears a goodbye
    restart      a broker is stopped in order and started again
    pause        a broker does nothing for a while, often longer than its session lasts
    cut          brokers, or a broker and ZooKeeper, do not hear each other, one way or both
    clog         a link is slow for a while
    resets       connections break
    zookeeper    the server dies and comes back
    slow disk    flushes take long
    session      ZooKeeper ends a broker's session
    clock        a broker's wall clock jumps
    move         an administrator moves a partition to other brokers, or in another order
    elect        an administrator has the preferred leaders elected
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from kavka.client.admin import ElectionType
from kavka.simulator.zookeeper import NODE as ZOOKEEPER

if TYPE_CHECKING:
    from kavka.simulator.broker import SimulatedBroker
    from kavka.simulator.world import World

KINDS: Final = (
    "kill",
    "power cut",
    "restart",
    "pause",
    "cut",
    "clog",
    "resets",
    "zookeeper",
    "slow disk",
    "session",
    "clock",
    "move",
    "elect",
)


MAX_CLOCK_JUMP_MS: Final = 7_200_000


@dataclass(frozen=True, slots=True)
class FaultMix:
    """How often each kind happens, as weights, and how long it is between two faults on average."""

    weights: dict[str, float]
    mean_pause_s: float

    @staticmethod
    def draw(random: Random, kinds: tuple[str, ...] = KINDS) -> FaultMix:
        """A mix of its own for each seed: some kinds never, some often."""
        weights = {kind: random.random() ** 3 if random.random() < 0.7 else 0.0 for kind in kinds}
        if not any(weights.values()):
            weights[kinds[int(random.random() * len(kinds))]] = 1.0
        return FaultMix(weights, 2.0 + random.random() * 15.0)

    def __str__(self) -> str:
        total = sum(self.weights.values())
        shares = ", ".join(f"{kind} {100 * weight / total:.0f} %" for kind, weight in self.weights.items() if weight)
        return f"every {self.mean_pause_s:.1f} s: {shares}"


class Faults:
    """Makes faults in a world from `start` to `stop`; `heal` undoes what still is."""

    def __init__(self, world: World, mix: FaultMix, *, bearable: int = 1) -> None:
        self._world = world
        self._mix = mix
        self._bearable = bearable
        self._random = world.scheduler.new_random()
        self._active = False
        self.counts: Counter[str] = Counter()

    def start(self) -> None:
        self._active = True
        self._next()

    def stop(self) -> None:
        self._active = False

    def heal(self) -> None:
        """Everybody runs, hears everybody, and has a quick disk."""
        self.stop()
        world = self._world
        world.network.heal_all()
        if not world.zookeeper.is_up:
            world.zookeeper.start()
        for broker in world.brokers.values():
            broker.disk_delay_s = 0.0
            if broker.is_paused:
                broker.resume()
            if not broker.is_alive:
                broker.start()

    def _next(self) -> None:
        self._world.scheduler.after(self._random.expovariate(1 / self._mix.mean_pause_s), self._strike)

    def _strike(self) -> None:
        if not self._active:
            return
        kinds = list(self._mix.weights)
        kind = self._random.choices(kinds, [self._mix.weights[name] for name in kinds])[0]
        action: Callable[[], bool] = getattr(self, f"_{kind.replace(' ', '_')}")
        if action():
            self.counts[kind] += 1
            self._world.note(f"fault: {kind}")
        self._next()

    # -- the kinds; each returns whether it could be had

    def _kill(self) -> bool:
        return self._end_one(lambda broker: broker.kill())

    def _power_cut(self) -> bool:
        if len(self._world.brokers) < 3:
            return False  # A record on one disk, not synced, is not promised to survive this.

        def cut(broker: SimulatedBroker) -> None:
            broker.power_cut()
            self._world.observer.on_power_cut(broker.broker_id)

        return self._end_one(cut)

    def _end_one(self, end: Callable[[SimulatedBroker], None]) -> bool:
        broker = self._victim()
        if broker is None:
            return False
        end(broker)
        self._later(broker.start, 0.2, 25.0, lambda: not broker.is_alive)
        return True

    def _restart(self) -> bool:
        broker = self._victim()
        if broker is None or broker.is_paused:
            return False
        broker.stop()
        # One that cannot stop in order, cut off as it may be, is killed in the end, as an operator would.
        self._later(broker.kill, 20.0, 20.0, lambda life=broker.life: broker.is_alive and broker.life == life)  # type: ignore[misc]
        self._later(broker.start, 21.0, 25.0, lambda: not broker.is_alive)
        return True

    def _victim(self) -> SimulatedBroker | None:
        """A broker that may be taken away: the others, as many as must be, are in sync and running."""
        brokers = list(self._world.brokers.values())
        down = [broker for broker in brokers if not broker.is_serving]
        if len(down) >= self._bearable or not self._world.is_fully_replicated():
            return None
        running = [broker for broker in brokers if broker.is_serving]
        return running[int(self._random.random() * len(running))] if running else None

    def _pause(self) -> bool:
        running = [broker for broker in self._world.brokers.values() if broker.is_serving and not broker.is_paused]
        if not running:
            return False
        broker = running[int(self._random.random() * len(running))]
        broker.pause()
        life = broker.life
        self._later(broker.resume, 0.1, 20.0, lambda: broker.is_paused and broker.life == life)
        return True

    def _cut(self) -> bool:
        nodes = [*(broker.node for broker in self._world.brokers.values()), ZOOKEEPER]
        one, other = self._random.sample(nodes, 2)
        both = self._random.random() < 0.5
        self._world.network.cut(one, other, both=both)
        self._later(lambda: self._world.network.heal(one, other, both=both), 0.1, 20.0)
        return True

    def _clog(self) -> bool:
        nodes = [*(broker.node for broker in self._world.brokers.values()), ZOOKEEPER]
        one, other = self._random.sample(nodes, 2)
        until_s = self._world.scheduler.now_ns / 1e9 + self._random.random() * 5.0
        self._world.network.link(one, other).clogged_until_s = until_s
        self._world.tell("network", "clogged", f"{one} --> {other} until {until_s:.3f}")
        return True

    def _resets(self) -> bool:
        count = self._world.network.reset_some(self._random.random())
        if count:
            self._world.tell("network", "connections reset", f"{count} of them")
        return count > 0

    def _zookeeper(self) -> bool:
        zookeeper = self._world.zookeeper
        if not zookeeper.is_serving:
            return False
        zookeeper.kill()
        self._later(zookeeper.start, 0.1, 10.0, lambda: not zookeeper.is_up)
        return True

    def _slow_disk(self) -> bool:
        brokers = list(self._world.brokers.values())
        broker = brokers[int(self._random.random() * len(brokers))]
        broker.disk_delay_s = self._random.random()
        self._world.tell(broker.node, "disk slow", f"a flush takes {broker.disk_delay_s:.3f} s")

        def quick() -> None:
            broker.disk_delay_s = 0.0
            self._world.tell(broker.node, "disk quick")

        self._later(quick, 1.0, 20.0)
        return True

    def _session(self) -> bool:
        zookeeper, broker = self._world.zookeeper, self._one_that_serves()
        if not zookeeper.is_serving or broker is None or broker.broker is None:
            return False
        zookeeper.expire(broker.broker.session_id)
        return True

    def _clock(self) -> bool:
        broker = self._one_that_serves()
        if broker is None:
            return False
        broker.clock_skew_ms = round((self._random.random() - 0.5) * MAX_CLOCK_JUMP_MS)
        return True

    def _move(self) -> bool:
        world = self._world
        partition = world.partitions[int(self._random.random() * len(world.partitions))]
        target = self._random.sample(sorted(world.brokers), world.replicas)
        world.administer(lambda admin: admin.alter_partition_reassignments({partition: target}))
        return True

    def _elect(self) -> bool:
        partitions = list(self._world.partitions)
        self._world.administer(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, partitions))
        return True

    def _one_that_serves(self) -> SimulatedBroker | None:
        serving = [broker for broker in self._world.brokers.values() if broker.is_serving]
        return serving[int(self._random.random() * len(serving))] if serving else None

    def _later(
        self, action: Callable[[], object], least_s: float, most_s: float, condition: Callable[[], bool] = lambda: True
    ) -> None:
        """Undoes a fault after a while, also when no new ones are made any more; unless it was undone already."""

        def act() -> None:
            if condition():
                action()

        self._world.scheduler.after(least_s + self._random.random() * (most_s - least_s), act)
