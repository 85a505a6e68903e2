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

A fault is a `Strike`: when, which kind, and everything about it that was left to chance. What strikes is recorded, and
can be given instead of a mix: then just these strike, and leaving one out leaves the others as they are (`shrink`).

    I1  drawing changes nothing, striking draws nothing: the strikes that a run made, given to a run of the same seed
        and plan, make the same run
    I2  a strike that must not be had when its time comes (a second dead broker) is passed over, drawn or given
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from kavka.client.admin import ElectionType
from kavka.model import TopicPartition
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
FIRST: Final = 0.0
"""The lot of a strike among what is due at its instant. It is not drawn: a strike left out takes no chance along."""

Argument = int | float | str | bool | Sequence[int]
Arguments = Mapping[str, Argument]


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault. `at_ms` counts from the moment when faults began; `arguments` are values that JSON has."""

    at_ms: int
    kind: str
    arguments: Arguments

    def as_json(self) -> dict[str, object]:
        return {"at_ms": self.at_ms, "kind": self.kind, **self.arguments}

    @staticmethod
    def from_json(values: Mapping[str, object]) -> Strike:
        """Raises ValueError."""
        rest = {name: value for name, value in values.items() if name not in ("at_ms", "kind")}
        at_ms, kind = values.get("at_ms"), values.get("kind")
        if not isinstance(at_ms, int) or kind not in KINDS:
            raise ValueError(f"no strike: {dict(values)}")
        return Strike(at_ms, str(kind), rest)  # type: ignore[arg-type]  # what they are, the kind checks


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
    """Makes faults in a world from `start` to `stop`; `heal` undoes what still is.

    `schedule`: these strikes, in order of time, instead of what the mix would draw.
    """

    def __init__(
        self, world: World, mix: FaultMix, *, bearable: int = 1, schedule: Sequence[Strike] | None = None
    ) -> None:
        self._world = world
        self._mix = mix
        self._bearable = bearable
        self._schedule = schedule
        self._random = world.scheduler.new_random()
        self._active = False
        self._began_ns = 0
        self._at_ms = 0
        self._played = 0
        """How many of the schedule had their time."""
        self.counts: Counter[str] = Counter()
        self.struck: list[Strike] = []

    def start(self) -> None:
        self._active = True
        self._began_ns = self._world.scheduler.now_ns
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
        if self._schedule is None:
            # Whole milliseconds, as a strike is told in them.
            self._at_ms += max(round(1_000 * self._random.expovariate(1 / self._mix.mean_pause_s)), 1)
        elif self._played < len(self._schedule):
            self._at_ms = self._schedule[self._played].at_ms
        else:
            return
        scheduler = self._world.scheduler
        due_ns = self._began_ns + 1_000_000 * self._at_ms
        scheduler.after((due_ns - scheduler.now_ns) / 1e9, self._strike, lot=FIRST)

    def _strike(self) -> None:
        if not self._active:
            return
        strike = self._draw() if self._schedule is None else self._schedule[self._played]
        self._played += 1
        if strike is not None and self._make(strike):
            self.struck.append(strike)
            self.counts[strike.kind] += 1
            self._world.note(f"fault: {strike.kind}")
        self._next()

    def _draw(self) -> Strike | None:
        kinds = list(self._mix.weights)
        kind = self._random.choices(kinds, [self._mix.weights[name] for name in kinds])[0]
        draw: Callable[[], Arguments | None] = getattr(self, f"_draw_{kind.replace(' ', '_')}")
        arguments = draw()
        return None if arguments is None else Strike(self._at_ms, kind, arguments)

    def _make(self, strike: Strike) -> bool:
        action: Callable[..., bool] = getattr(self, f"_{strike.kind.replace(' ', '_')}")
        return action(**strike.arguments)

    # -- the kinds: of each what is left to chance (None where it cannot be had now), and what it does (I1); a kind
    #    returns False where it must not be had now (I2)

    def _draw_kill(self) -> Arguments | None:
        return self._draw_end()

    def _kill(self, broker: int, back_ms: int) -> bool:
        return self._end(broker, back_ms, lambda victim: victim.kill())

    def _draw_power_cut(self) -> Arguments | None:
        return self._draw_end()

    def _power_cut(self, broker: int, back_ms: int) -> bool:
        if len(self._world.brokers) < 3:
            return False  # A record on one disk, not synced, is not promised to survive this.

        def cut(victim: SimulatedBroker) -> None:
            victim.power_cut()
            self._world.observer.on_power_cut(victim.broker_id)

        return self._end(broker, back_ms, cut)

    def _draw_end(self) -> Arguments | None:
        broker = self._draw_serving()
        return None if broker is None else {"broker": broker, "back_ms": self._draw_ms(0.2, 25.0)}

    def _end(self, broker: int, back_ms: int, end: Callable[[SimulatedBroker], None]) -> bool:
        if not self._may_be_taken(broker):
            return False
        victim = self._world.brokers[broker]
        end(victim)
        self._later(victim.start, back_ms, lambda: not victim.is_alive)
        return True

    def _draw_restart(self) -> Arguments | None:
        broker = self._draw_serving()
        return None if broker is None else {"broker": broker, "back_ms": self._draw_ms(21.0, 25.0)}

    def _restart(self, broker: int, back_ms: int) -> bool:
        if not self._may_be_taken(broker) or self._world.brokers[broker].is_paused:
            return False
        victim = self._world.brokers[broker]
        victim.stop()
        life = victim.life
        # One that cannot stop in order, cut off as it may be, is killed in the end, as an operator would.
        self._later(victim.kill, 20_000, lambda: victim.is_alive and victim.life == life)
        self._later(victim.start, back_ms, lambda: not victim.is_alive)
        return True

    def _may_be_taken(self, broker: int) -> bool:
        """Whether the others, as many as must be, are in sync and running."""
        down = [each for each in self._world.brokers.values() if not each.is_serving]
        if len(down) >= self._bearable or not self._world.is_fully_replicated():
            return False
        return self._world.brokers[broker].is_serving

    def _draw_pause(self) -> Arguments | None:
        running = [each.broker_id for each in self._world.brokers.values() if each.is_serving and not each.is_paused]
        return {"broker": self._one_of(running), "ms": self._draw_ms(0.1, 20.0)} if running else None

    def _pause(self, broker: int, ms: int) -> bool:
        sleeper = self._world.brokers[broker]
        if not sleeper.is_serving or sleeper.is_paused:
            return False
        sleeper.pause()
        life = sleeper.life
        self._later(sleeper.resume, ms, lambda: sleeper.is_paused and sleeper.life == life)
        return True

    def _draw_cut(self) -> Arguments | None:
        one, other = self._draw_nodes()
        return {"one": one, "other": other, "both": self._random.random() < 0.5, "ms": self._draw_ms(0.1, 20.0)}

    def _cut(self, one: str, other: str, *, both: bool, ms: int) -> bool:
        self._world.network.cut(one, other, both=both)
        self._later(lambda: self._world.network.heal(one, other, both=both), ms)
        return True

    def _draw_clog(self) -> Arguments | None:
        one, other = self._draw_nodes()
        return {"one": one, "other": other, "ms": self._draw_ms(0.0, 5.0)}

    def _clog(self, one: str, other: str, ms: int) -> bool:
        until_s = self._world.scheduler.now_ns / 1e9 + ms / 1_000
        self._world.network.link(one, other).clogged_until_s = until_s
        self._world.tell("network", "clogged", f"{one} --> {other} until {until_s:.3f}")
        return True

    def _draw_resets(self) -> Arguments | None:
        return {"share": round(self._random.random(), 2)}

    def _resets(self, share: float) -> bool:
        count = self._world.network.reset_some(share)
        if count:
            self._world.tell("network", "connections reset", f"{count} of them")
        return True

    def _draw_zookeeper(self) -> Arguments | None:
        return {"back_ms": self._draw_ms(0.1, 10.0)}

    def _zookeeper(self, back_ms: int) -> bool:
        zookeeper = self._world.zookeeper
        if not zookeeper.is_serving:
            return False
        zookeeper.kill()
        self._later(zookeeper.start, back_ms, lambda: not zookeeper.is_up)
        return True

    def _draw_slow_disk(self) -> Arguments | None:
        broker = self._one_of(list(self._world.brokers))
        return {"broker": broker, "flush_ms": self._draw_ms(0.0, 1.0), "ms": self._draw_ms(1.0, 20.0)}

    def _slow_disk(self, broker: int, flush_ms: int, ms: int) -> bool:
        slow = self._world.brokers[broker]
        slow.disk_delay_s = flush_ms / 1_000
        self._world.tell(slow.node, "disk slow", f"a flush takes {slow.disk_delay_s:.3f} s")

        def quick() -> None:
            slow.disk_delay_s = 0.0
            self._world.tell(slow.node, "disk quick")

        self._later(quick, ms)
        return True

    def _draw_session(self) -> Arguments | None:
        broker = self._draw_serving()
        return None if broker is None else {"broker": broker}

    def _session(self, broker: int) -> bool:
        zookeeper, running = self._world.zookeeper, self._world.brokers[broker].broker
        if not zookeeper.is_serving or running is None:
            return False
        zookeeper.expire(running.session_id)
        return True

    def _draw_clock(self) -> Arguments | None:
        broker = self._draw_serving()
        skew_ms = round((self._random.random() - 0.5) * MAX_CLOCK_JUMP_MS)
        return None if broker is None else {"broker": broker, "skew_ms": skew_ms}

    def _clock(self, broker: int, skew_ms: int) -> bool:
        self._world.brokers[broker].clock_skew_ms = skew_ms
        return True

    def _draw_move(self) -> Arguments | None:
        world = self._world
        partition = world.partitions[int(self._random.random() * len(world.partitions))]
        to = self._random.sample(sorted(world.brokers), world.replicas)
        return {"topic": partition.topic, "partition": partition.partition, "to": to}

    def _move(self, topic: str, partition: int, to: list[int]) -> bool:
        moved = TopicPartition(topic, partition)
        self._world.administer(lambda admin: admin.alter_partition_reassignments({moved: to}))
        return True

    def _draw_elect(self) -> Arguments | None:
        return {}

    def _elect(self) -> bool:
        partitions = list(self._world.partitions)
        self._world.administer(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, partitions))
        return True

    # -- what kinds share

    def _draw_serving(self) -> int | None:
        serving = [broker.broker_id for broker in self._world.brokers.values() if broker.is_serving]
        return self._one_of(serving) if serving else None

    def _draw_nodes(self) -> list[str]:
        return self._random.sample([*(broker.node for broker in self._world.brokers.values()), ZOOKEEPER], 2)

    def _draw_ms(self, least_s: float, most_s: float) -> int:
        return round(1_000 * (least_s + self._random.random() * (most_s - least_s)))

    def _one_of(self, brokers: Sequence[int]) -> int:
        return brokers[int(self._random.random() * len(brokers))]

    def _later(self, action: Callable[[], object], after_ms: int, condition: Callable[[], bool] = lambda: True) -> None:
        """Undoes a fault after a while, also when no new ones are made any more; unless it was undone already."""

        def act() -> None:
            if condition():
                action()

        self._world.scheduler.after(after_ms / 1_000, act)
