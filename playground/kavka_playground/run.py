"""Run: one simulated cluster, its virtual time, and what a visitor does to it.

run = Run(Choices(seed=7))
run.advance(5_000)                  # to this virtual millisecond
run.click("kill", "1")
again = Run(run.choices, run.clicks)
again.advance(run.at_ms)            # the same run: again.digest == run.digest

I1  a click takes place at the moment when `advance` stopped. That moment depends on its millisecond alone, however
    many calls led there: so a run is repeated from its clicks
I2  looking at a run (`picture`) changes nothing in it
I3  every rule of the simulator is checked after every step; the first one that is broken ends the run
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kavka.client.admin import Admin, ElectionType, NewTopic
from kavka.client.cluster import Cluster
from kavka.logger import set_level
from kavka.model import BrokerId
from kavka.simulator.faults.mix import FaultMix
from kavka.simulator.host.scheduler import SimulationStuck
from kavka.simulator.host.trace import MOVES, Event, Trace, recording
from kavka.simulator.rules.invariants import Violation
from kavka.simulator.world import TOPIC, BrokerBug, World
from kavka_playground.choices import MAX_MS, ZOOKEEPER, BadChoice, Choices, Click, check_clicks
from kavka_playground.records import Loss, ReplicaRecords
from kavka_playground.traffic import CONSUMER, PARTITION, PRODUCER, ProduceWatcher, Traffic

FIRST_MS: Final = 100
"""A run's first moment is the first tenth of a second at which the topic is there and in sync."""
START_WITHIN_S: Final = 60
STEP_WITHIN_MS: Final = 5_000
"""How far a step looks for something that happens."""
CALM: Final = FaultMix({"kill": 1.0}, 1.0)
"""Never started: faults are the visitor's."""
LOOK_S: Final = 0.05
ROUTINE: Final = (*MOVES, "follower asks", "produce came", "produce answered", "told: written", "read")
"""Kinds of events that healthy traffic makes all the time."""


class Run:
    """One run. `trace` has everything that happened in it."""

    def __init__(self, choices: Choices, clicks: Iterable[Click] = ()) -> None:
        """Plays the cluster's start. `clicks` are played when `advance` reaches them. Raises BadChoice."""
        self.choices = choices
        self.clicks: list[Click] = []
        """What was done so far."""
        self.skipped: list[Click] = []
        """What could not be done when its time came: a link of another version."""
        self._planned = list(clicks)
        check_clicks(self._planned, choices)
        self.ended = ""
        """Why the run does not go on; empty while it does."""
        set_level("error")
        with recording() as trace:
            self.trace: Trace = trace
            self.world = World(
                choices.seed,
                brokers=choices.brokers,
                partitions=1,
                replicas=choices.replicas,
                settings=choices.settings,
                mix=CALM,
                allow_loss=choices.unclean,
            )
        self.slowed: dict[tuple[str, str], None] = {}
        self.world.observer.watchers.append(ProduceWatcher(self.world))
        for broker in self.world.brokers.values():
            # The world gave its wire the watchers that there were.
            broker.wire = type(broker.wire)(self.world.observer.watchers) if broker.wire is not None else None
        self.traffic = Traffic(self.world, choices.acks, choices.rate)
        self.records = {broker_id: ReplicaRecords() for broker_id in self.world.brokers}
        self.lost: dict[int, Loss] = {}
        """Promised records that a leader lacked when it was looked, by number; for good."""
        self._start()
        self._nodes = [*(broker.node for broker in self.world.brokers.values()), "zookeeper"]
        self._nodes += [node for node in self.traffic.nodes if node not in self._nodes]
        for one in self._nodes:
            for other in self._nodes:
                if one != other:
                    self.world.network.link(one, other).least_delay_s = choices.delay_ms / 1_000
        self.at_ms = -(-(self.world.scheduler.now_ms + 1) // FIRST_MS) * FIRST_MS
        self.first_ms = self.at_ms
        self._run_to(self.at_ms)
        self.traffic.start()
        self._look_for_losses()

    def _start(self) -> None:
        """Broker 1 leads, and the last broker is the controller: it starts before the others."""
        world, choices = self.world, self.choices
        last = world.brokers[choices.brokers]
        last.start()
        world.run_until(lambda: last.is_serving, within_s=START_WITHIN_S)
        for broker in world.brokers.values():
            if broker is not last:
                broker.start()
        world.run_until(world.is_healthy, within_s=START_WITHIN_S)
        world.run_for(1.0)  # Brokers learn of each other.
        replicas = [BrokerId(each) for each in range(1, choices.replicas + 1)]

        async def create(cluster: Cluster) -> None:
            await Admin(cluster).create_topics([NewTopic(TOPIC, assignments=[replicas])])

        world.run_in_client("admin", create)
        world.run_until(world.is_fully_replicated, within_s=START_WITHIN_S)

    @property
    def digest(self) -> str:
        """Of all that happened so far. Two runs of the same clicks have the same."""
        return self.world.digest

    # -- time

    def advance(self, to_ms: int) -> None:
        """Lets virtual time pass up to this millisecond, with the clicks that are planned until then."""
        to_ms = min(to_ms, MAX_MS)
        while self._planned and self._planned[0].at_ms <= to_ms and not self.ended:
            click = self._planned.pop(0)
            self._run_to(click.at_ms)
            self.at_ms = max(self.at_ms, click.at_ms)
            try:
                self._do(click)
            except BadChoice:
                self.skipped.append(click)
            else:
                self.clicks.append(click)
        self._run_to(to_ms)
        self.at_ms = max(self.at_ms, to_ms)
        if self.at_ms >= MAX_MS and not self.ended:
            self.ended = f"a run has {MAX_MS // 60_000} virtual minutes, and they are over"

    def step(self, *, closely: bool = False) -> None:
        """To the next thing that happens: a decision, a fault, a refusal. `closely`: to the next event of any kind."""
        end_ms = self.at_ms + STEP_WITHIN_MS
        seen = self.trace.recorded
        while self.at_ms < end_ms and not self.ended:
            self.advance(self.at_ms + 1)
            if any(closely or event.kind not in ROUTINE for event in self.events_after(seen)):
                return
            seen = self.trace.recorded

    def events_after(self, number: int) -> list[Event]:
        """Events of the trace with greater numbers, in order."""
        return self.trace.last(self.trace.recorded - number) if self.trace.recorded > number else []

    def _run_to(self, ms: int) -> None:
        world = self.world
        seconds = ms / 1_000 - world.scheduler.now_ns / 1e9
        if seconds <= 0 or self.ended:
            return
        try:
            world.run_for(seconds)
        except Violation as violation:
            self.ended = f"rule {violation.rule} is broken: {violation}"
        except (BrokerBug, SimulationStuck) as bug:
            self.ended = str(bug)

    def _look_for_losses(self) -> None:
        """Asks the leader's log, every now and then, for good. While nobody leads, nothing is lost yet."""
        world = self.world
        world.scheduler.after(LOOK_S, self._look_for_losses)
        stored = world.observer.stored[PARTITION].state
        broker = world.brokers[stored.leader].broker if stored.leader >= 0 else None
        partition = broker.replicas.partition(*PARTITION) if broker is not None else None
        if partition is None or not partition.is_leader or partition.leader_epoch != stored.leader_epoch:
            return
        records = self.records[stored.leader]
        records.follow(partition)
        for record in records.missing(self.traffic.sent):
            if record.number not in self.lost:
                loss = Loss(record.number, record.offset, record.acks, stored.leader, stored.leader_epoch)
                self.lost[record.number] = loss
                world.tell("simulator", "record lost", loss.text)

    # -- clicks

    def click(self, what: str, target: str = "") -> Click:
        """Does something to the cluster now. Raises BadChoice if that cannot be done to it as it is."""
        click = Click(self.at_ms, what, target)
        click.check(self.choices)
        if self._planned:
            raise BadChoice("the clicks of the link are not all played yet")
        self._do(click)
        self.clicks.append(click)
        return click

    def _do(self, click: Click) -> None:
        match click.what:
            case "kill" | "start" | "pause" | "resume" | "session":
                self._do_to_broker(click.what, click.broker(self.choices))
            case "isolate" | "rejoin":
                self._part(click.broker(self.choices), cut=click.what == "isolate")
            case "cut":
                self.world.network.cut(*click.link(self.choices))
            case "heal":
                self.world.network.heal(*click.link(self.choices))
            case "slow" | "fast":
                self._slow(click.link(self.choices), slow=click.what == "slow")
            case "write":
                self.traffic.write(click.count())
            case "rate":
                self.traffic.rate = click.count()
            case "acks":
                self.traffic.acks = click.target
            case "unclean":
                self._elect(ElectionType.UNCLEAN)
            case "preferred":
                self._elect(ElectionType.PREFERRED)

    def _do_to_broker(self, what: str, broker_id: int) -> None:
        broker = self.world.brokers[broker_id]
        if broker.is_alive is (what == "start"):
            raise BadChoice(f"broker {broker_id} {'runs' if broker.is_alive else 'does not run'}")
        if what in ("pause", "resume") and broker.is_paused is (what == "pause"):
            raise BadChoice(f"broker {broker_id} {'is' if broker.is_paused else 'is not'} paused")
        match what:
            case "kill":
                broker.kill()
            case "start":
                broker.start()
            case "pause":
                broker.pause()
            case "resume":
                broker.resume()
            case "session":
                if broker.broker is None:
                    raise BadChoice(f"broker {broker_id} has no session yet")
                self.world.zookeeper.expire(broker.broker.session_id)

    def _part(self, broker_id: int, *, cut: bool) -> None:
        network = self.world.network
        for other in self.world.brokers:
            if other != broker_id:
                (network.cut if cut else network.heal)(f"broker-{broker_id}", f"broker-{other}")

    def _slow(self, link: tuple[str, str], *, slow: bool) -> None:
        delay_s = SLOW_S if slow else self.choices.delay_ms / 1_000
        for one, other in (link, link[::-1]):
            self.world.network.link(one, other).least_delay_s = delay_s
            if slow:
                self.slowed[one, other] = None
            else:
                self.slowed.pop((one, other), None)
        self.world.tell("network", "slow" if slow else "fast", f"{link[0]} <-> {link[1]}: {delay_s * 1_000:g} ms")

    def _elect(self, election_type: ElectionType) -> None:
        if election_type is ElectionType.UNCLEAN:
            self.world.observer.allow_loss = True
        self.world.tell("operator", "asks", f"{election_type.name.lower()} election")
        self.world.administer(lambda admin: admin.elect_leaders(election_type, [PARTITION]))


SLOW_S: Final = 0.8
"""One way of a slow link: a follower behind it asks often enough to count as alive, and is never quite there."""

__all__ = ["CONSUMER", "PARTITION", "PRODUCER", "ROUTINE", "ZOOKEEPER", "Run"]
