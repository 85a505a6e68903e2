"""One seed's whole simulation: a cluster, knobs and faults of its own, then healing, then the final check.

Decides what a seed stands for, and puts what came of it into a `SeedResult`. Two runs of a seed with one program are
the same, step by step: their digests are equal.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Final

from kavka.logger import Level, LogLevels, levels, sink
from kavka.simulator.faults.mix import FaultMix, Strike
from kavka.simulator.host.scheduler import Milestone, SimulationStuck
from kavka.simulator.rules.invariants import Violation
from kavka.simulator.world import BrokerBug, World

HOURS: Final = 1 / 6
"""What one seed simulates, if nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a seed draws before its world begins. `mean_pause_s`: between two writes of a producer.

    The defaults are those of a calm world: a failing plan is made smaller towards them.
    """

    seed: int
    brokers: int = 3
    partitions: int = 1
    producers: int = 1
    mean_pause_s: float = 1.0
    settings: dict[str, str] = field(default_factory=dict)
    clock_drift: float = 0.0
    members: int = 0
    transactors: int = 0
    core_first: bool = False
    hasty: bool = False
    secured: bool = False
    """Whether there are TLS, logins and access control, and changes of them among the faults."""
    sharers: int = 0
    """Members of a share group; 0: there are no share groups."""
    streamers: int = 0
    """Members of a streams group; 0: there are no streams groups."""

    @staticmethod
    def draw(
        seed: int,
        *,
        brokers: int | None = None,
        secured: bool = False,
        sharing: bool = False,
        streaming: bool = False,
    ) -> Plan:
        """Small values where they make rare things frequent: short lags, small segments, few in flight."""
        random = Random(f"plan {seed}")
        count = random.choices((3, 5, 2), (0.75, 0.15, 0.10))[0]
        count = count if brokers is None else brokers
        settings = _draw_settings(random, count)
        plan = Plan(
            seed,
            brokers=count,
            partitions=random.choice((1, 3, 3, 6)),
            producers=random.choice((1, 2, 2)),
            mean_pause_s=random.choice((2.0, 3.0, 5.0)),
            settings=settings,
            clock_drift=random.choice((0.0, 0.000_1, 0.02)),
            members=random.choice((0, 0, 0, 2, 3)),
            transactors=random.choice((0, 0, 0, 0, 0, 0, 0, 0, 2, 3)),
            core_first=random.random() < 0.5,
            hasty=random.random() < 0.3,
            secured=secured,
            # Of a lot of its own, so that all else of a seed is as it is without.
            sharers=Random(f"sharers {seed}").choice((2, 3, 4)) if sharing else 0,
            streamers=Random(f"streamers {seed}").choice((2, 3, 4)) if streaming else 0,
        )
        if sharing and not plan.transactors:  # What members are given depends on transactions.
            plan = replace(plan, transactors=Random(f"transactions of sharers {seed}").choice((0, 1, 2)))
        return plan


def _draw_settings(random: Random, count: int) -> dict[str, str]:
    """The settings of `count` brokers. Their order is that of the draws."""
    return {
        "min.insync.replicas": "1" if count < 3 or random.random() < 0.1 else "2",
        "replica.lag.time.max.ms": str(random.choice((5_000, 10_000, 30_000))),
        "replica.fetch.wait.max.ms": str(random.choice((1_000, 2_000, 3_000))),
        "num.replica.fetchers": str(random.choice((1, 1, 2))),
        "zookeeper.session.timeout.ms": str(random.choice((4_000, 6_000, 12_000))),
        "log.segment.bytes": str(random.choice((16_384, 65_536, 1_048_576))),
        "unclean.leader.election.enable": "false",
        "kavka.controller.fast.failover": random.choice(("true", "true", "false")),
        "kavka.eligible.leader.replicas.enable": random.choice(("true", "true", "true", "false")),
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": str(min(3, count)),
        "transaction.state.log.min.isr": str(max(1, min(2, count - 1))),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "4000",
        "offsets.topic.num.partitions": str(random.choice((1, 2, 4))),
        "offsets.topic.replication.factor": str(min(3, count)),
        "log.initial.task.delay.ms": "20000",
        "log.retention.check.interval.ms": "20000",
        "log.dirs": random.choice(("/logs", "/logs", "/logs,/logs2")),
    }


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What became of a seed. `violation` is empty if all went as it must."""

    seed: int
    digest: str
    simulated_hours: float
    events_checked: int
    changes_checked: int
    acknowledged: int
    consumed: int
    wall_seconds: float
    mix: str
    faults: dict[str, int] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    violation: str = ""
    rule: str = ""
    """The name of the rule that was broken; of what is no rule the exception's."""
    detail: str = ""
    plan: Plan | None = None
    strikes: tuple[Strike, ...] = ()
    """The faults that it made, to be had again or in part."""
    swarm_seconds: float = 0.0
    """How long there were faults and writes before all was healed or a rule was broken."""
    milestones: tuple[Milestone, ...] = ()

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def run_seed(  # noqa: PLR0913 - each caller names what is not as usual
    seed: int,
    *,
    hours: float = HOURS,
    brokers: int | None = None,
    mix: FaultMix | None = None,
    secured: bool = False,
    sharing: bool = False,
    streaming: bool = False,
) -> SeedResult:
    """Runs a seed to its end, or to the first rule that it breaks. `mix`: other faults than the seed would draw."""
    plan = Plan.draw(seed, brokers=brokers, secured=secured, sharing=sharing, streaming=streaming)
    return run_plan(plan, hours=hours, mix=mix)


def run_plan(
    plan: Plan,
    *,
    hours: float = HOURS,
    mix: FaultMix | None = None,
    schedule: Sequence[Strike] | None = None,
    closely: range = range(0),
) -> SeedResult:
    """Runs a plan as `run_seed` does. `schedule`: these faults and no others. `closely`: steps that are milestones."""
    began_s = time.perf_counter()
    seed = plan.seed
    world = World(
        seed,
        brokers=plan.brokers,
        partitions=plan.partitions,
        settings=plan.settings,
        mix=mix,
        schedule=schedule,
        clock_drift=plan.clock_drift,
        secured=plan.secured,
        sharing=plan.sharers > 0,
        streaming=plan.streamers > 0,
    )
    world.scheduler.look_closely(closely)
    violation, rule, detail = play_plan(world, plan, hours)
    return SeedResult(
        seed=seed,
        digest=world.digest,
        simulated_hours=world.scheduler.now_ns / 3.6e12,
        events_checked=world.observer.events_checked,
        changes_checked=world.observer.changes_checked,
        acknowledged=world.clients.acked,
        consumed=world.clients.consumed,
        wall_seconds=time.perf_counter() - began_s,
        mix=str(world.mix),
        faults=dict(world.faults.counts),
        states=dict(world.observer.states.counts),
        violation=violation,
        rule=rule,
        detail=detail,
        plan=plan,
        strikes=tuple(world.faults.struck),
        swarm_seconds=min(world.faults.elapsed_s, 3_600 * hours),
        milestones=tuple(world.scheduler.milestones),
    )


def play_plan(world: World, plan: Plan, hours: float) -> tuple[str, str, str]:
    """Plays the plan to its end or first failure: what was broken, which rule, where; '' for each if nothing was."""
    lines = sink.set(world.observer.states.on_line)
    all_lines = levels.set(LogLevels(Level.DEBUG))
    try:
        world.start()
        world.run_swarm(
            hours=hours,
            producers=plan.producers,
            mean_pause_s=plan.mean_pause_s,
            hasty=plan.hasty,
            members=plan.members,
            transactors=plan.transactors,
            sharers=plan.sharers,
            streamers=plan.streamers,
        )
        world.settle(core_first=plan.core_first)
    except (Violation, BrokerBug) as failure:
        return str(failure), rule_of(failure), _trace_of(failure, world)
    except Exception as failure:  # noqa: BLE001  # whatever ends a simulation is a finding: it must not end the campaign
        return f"{type(failure).__name__}: {failure}", rule_of(failure), _trace_of(failure, world)
    finally:
        sink.reset(lines)
        levels.reset(all_lines)
    return "", "", ""


def rule_of(failure: BaseException) -> str:
    """The rule that an exception says was broken: of a Violation its own, R20 (all comes together) of a run that got
    stuck, else the exception's name."""
    if isinstance(failure, Violation):
        return failure.rule
    return "R20" if isinstance(failure, SimulationStuck) else type(failure).__name__


def _trace_of(failure: BaseException, world: World) -> str:
    lines = traceback.format_exception(failure)[-12:]
    if failure.__cause__ is not None:
        lines += traceback.format_exception(failure.__cause__)[-12:]
    return "".join(lines) + "\n".join(world.trace[-20:])
