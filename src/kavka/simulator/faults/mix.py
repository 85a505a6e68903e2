"""Faults of a simulated cluster, drawn at random: which, when, for how long. Each seed draws its own mix.

Decides what goes wrong. It keeps within what acknowledged records must survive: at any moment at most `bearable`
brokers have lost what was not synced, or a disk, for replication factor 3 and min.insync.replicas 2 that is one.
Pauses, cuts, kills and lost sessions may hit all of them at once: they cost availability, not records.

The kinds are those of one broker (`broker_faults`) and its disks (`disk_faults`), of the network and ZooKeeper
(`network_faults`), of members of a consumer group (`member_faults`), of transactional producers (`transactor_faults`),
and what administrators do in the middle of it (`operations`); in secured worlds also changes of who may do what
(`access_faults`), in those with share or streams groups also what happens to their members (`share_faults`,
`streams_faults`).

A fault is a `Strike`: when, which kind, and everything random about it. Strikes are recorded, and can be given instead
of a mix: then exactly these happen, and leaving one out does not change the others (`shrink`).

    I1  drawing changes nothing, striking draws nothing: the strikes that a run made, given to a run of the same seed
        and plan, make the same run
    I2  a strike not allowed at its scheduled time (a second dead broker) is skipped, drawn or given
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from kavka.simulator.faults import (
    access_faults,
    broker_faults,
    disk_faults,
    member_faults,
    network_faults,
    operations,
    share_faults,
    streams_faults,
    transactor_faults,
)
from kavka.simulator.faults.access_faults import AccessFaults
from kavka.simulator.faults.broker_faults import BrokerFaults
from kavka.simulator.faults.disk_faults import DiskFaults
from kavka.simulator.faults.fault_group import Argument, Arguments, FaultGroup
from kavka.simulator.faults.member_faults import MemberFaults
from kavka.simulator.faults.network_faults import NetworkFaults
from kavka.simulator.faults.operations import Operations
from kavka.simulator.faults.share_faults import ShareFaults
from kavka.simulator.faults.streams_faults import StreamsFaults
from kavka.simulator.faults.transactor_faults import TransactorFaults
from kavka.simulator.host.trace import SIMULATOR

if TYPE_CHECKING:
    from kavka.simulator.world import World

KINDS: Final = (
    *broker_faults.PROCESS_KINDS,
    *disk_faults.KINDS,
    *broker_faults.OTHER_KINDS,
    *network_faults.KINDS,
    *operations.KINDS,
    *member_faults.KINDS,
    *transactor_faults.KINDS,
)
SECURED_KINDS: Final = (*KINDS, *access_faults.KINDS)
"""In a secured world."""
ALL_KINDS: Final = (*SECURED_KINDS, *share_faults.KINDS, *streams_faults.KINDS)
FIRST: Final = 0.0
"""The lot of a strike among what is due at its instant. It is not drawn: a strike left out takes no chance along."""


def kinds_of(*, secured: bool, sharing: bool, streaming: bool) -> tuple[str, ...]:
    """What may go wrong in a world."""
    groups = (share_faults.KINDS if sharing else ()) + (streams_faults.KINDS if streaming else ())
    return (SECURED_KINDS if secured else KINDS) + groups


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault. `at_ms` counts from the moment when faults began; `arguments` are values that JSON has."""

    at_ms: int
    kind: str
    arguments: Arguments

    def __str__(self) -> str:
        """Kind and arguments, as a trace shows them."""
        arguments = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.kind} ({arguments})" if arguments else self.kind

    def as_json(self) -> dict[str, object]:
        return {"at_ms": self.at_ms, "kind": self.kind, **self.arguments}

    @staticmethod
    def from_json(values: Mapping[str, object]) -> Strike:
        """Raises ValueError."""
        rest = {name: value for name, value in values.items() if name not in ("at_ms", "kind")}
        at_ms, kind = values.get("at_ms"), values.get("kind")
        if not isinstance(at_ms, int) or kind not in ALL_KINDS:
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
        """The frequent ones first; those below half a percent are left out."""
        total = sum(self.weights.values())
        shares = {kind: 100 * weight / total for kind, weight in self.weights.items() if 200 * weight >= total}
        named = sorted(shares.items(), key=lambda share: -share[1])
        return f"every {self.mean_pause_s:.1f} s: {', '.join(f'{kind} {share:.0f} %' for kind, share in named)}"


class Faults:
    """Makes faults in a world from `start` to `stop`; `heal` undoes those that still last.

    `schedule`: these strikes, in order of time, instead of what the mix would draw.
    """

    def __init__(
        self, world: World, mix: FaultMix, *, bearable: int = 1, schedule: Sequence[Strike] | None = None
    ) -> None:
        self._world = world
        self._mix = mix
        self._schedule = schedule
        self._random = world.scheduler.new_random()
        network = NetworkFaults(world, self._random, bearable)
        brokers = BrokerFaults(world, self._random, bearable)
        disks = DiskFaults(world, self._random, bearable)
        administrators = Operations(world, self._random, bearable)
        readers = MemberFaults(world, self._random, bearable)
        writers = TransactorFaults(world, self._random, bearable)
        keepers = AccessFaults(world, self._random, bearable)
        sharers = ShareFaults(world, self._random, bearable)
        streamers = StreamsFaults(world, self._random, bearable)
        self._groups: tuple[FaultGroup, ...] = (
            network,
            brokers,
            disks,
            administrators,
            readers,
            writers,
            keepers,
            sharers,
            streamers,
        )
        self._group_of: dict[str, FaultGroup] = {
            **dict.fromkeys(network_faults.KINDS, network),
            **dict.fromkeys(broker_faults.KINDS, brokers),
            **dict.fromkeys(disk_faults.KINDS, disks),
            **dict.fromkeys(operations.KINDS, administrators),
            **dict.fromkeys(member_faults.KINDS, readers),
            **dict.fromkeys(transactor_faults.KINDS, writers),
            **dict.fromkeys(access_faults.KINDS, keepers),
            **dict.fromkeys(share_faults.KINDS, sharers),
            **dict.fromkeys(streams_faults.KINDS, streamers),
        }
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

    @property
    def elapsed_s(self) -> float:
        """Since they began; 0.0 before."""
        return (self._world.scheduler.now_ns - self._began_ns) / 1e9 if self._began_ns else 0.0

    def stop(self) -> None:
        self._active = False

    @property
    def is_active(self) -> bool:
        """Between `start` and `stop`."""
        return self._active

    def heal(self, brokers: Collection[int] | None = None) -> None:
        """Everybody (of the brokers only these) runs, reaches everybody, and has a fast and whole disk."""
        self.stop()
        chosen = self._world.brokers if brokers is None else brokers
        for group in self._groups:
            group.heal(chosen)

    def heal_surroundings(self) -> None:
        """The network, ZooKeeper and clients are well; brokers are as they are."""
        self.heal(())

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
        if strike is not None:
            self.strike_now(strike)
        self._next()

    def strike_now(self, strike: Strike) -> bool:
        """Makes one fault, drawn or chosen, whatever its time. Returns whether it was allowed (I2)."""
        if not self._make(strike):
            return False
        self.struck.append(strike)
        self.counts[strike.kind] += 1
        self._world.note(f"fault: {strike.kind}")
        self._world.tell(SIMULATOR, "fault", str(strike))
        return True

    def _draw(self) -> Strike | None:
        kinds = list(self._mix.weights)
        kind = self._random.choices(kinds, [self._mix.weights[name] for name in kinds])[0]
        draw: Callable[[], Arguments | None] = getattr(self._group_of[kind], f"draw_{kind.replace(' ', '_')}")
        arguments = draw()
        return None if arguments is None else Strike(self._at_ms, kind, arguments)

    def _make(self, strike: Strike) -> bool:
        act: Callable[..., bool] = getattr(self._group_of[strike.kind], strike.kind.replace(" ", "_"))
        return act(**strike.arguments)


__all__ = ["KINDS", "Argument", "Arguments", "FaultMix", "Faults", "Strike"]
