"""Nemesis: draws faults from a seed, does them to a ProcessCluster, and to processes of clients, and undoes them.

Decides which fault when and to whom; never how bad it is for the records, which is the checker's to say.

I1  At no time are more brokers disturbed than `tolerated`, which the caller sets to replication factor less
    min.insync.replicas; and never a majority of ZooKeeper's members, but where their quorum is meant to be lost.
I2  The sequence of draws depends on the seed alone; on a slow machine fewer of them fit into the time.
I3  After `heal` nothing is stopped, cut or full any more.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.kit.bad_cable import Quality
from tests.kit.kavka_process import ProcessFailed
from tests.kit.memory_pressure import MemoryPressure
from tests.kit.memory_pressure import why_not as memory_cannot_be_pressed
from tests.kit.process_cluster import SESSION_TIMEOUT_MS, ProcessCluster, Server

SESSION_S = SESSION_TIMEOUT_MS / 1000
SOUGHT_SHARE = 0.3
"""Of the faults of brokers, for each who is sought."""
RESTART_S = 1.0
"""A broker that ended by itself is started again after that time, as a supervisor would."""


class Fault(Enum):
    """The value is what the report calls it."""

    KILL = "kill -9"
    PAUSE = "short pause"
    LONG_PAUSE = "pause beyond the session"
    CUT_FROM_BROKERS = "cut from the other brokers"
    CUT_ONE_WAY = "cut from the other brokers, one way"
    CUT_PAIR = "cut between two brokers"
    CUT_FROM_ZOOKEEPER = "cut from ZooKeeper"
    ISOLATE = "cut from everything"
    NETWORK_BAD = "packets lost, doubled and out of order"
    NETWORK_SLOW = "slow network"
    ZOOKEEPER_KILL = "ZooKeeper member kill -9"
    ZOOKEEPER_CUT = "ZooKeeper member cut off"
    ZOOKEEPER_QUORUM = "ZooKeeper without quorum"
    DISK_FULL = "disk full"
    DISK_ERRORS = "disk that fails now and then"
    DISK_SLOW = "slow disk"
    CLOCK_STEP = "clock step and back"
    MEMORY_PRESSURE = "memory pressure"
    RESTART = "restart"
    CLIENT_KILL = "client kill -9"
    CLIENT_PAUSE = "client pause"


NETWORK_FAULTS = frozenset(
    {
        Fault.CUT_FROM_BROKERS,
        Fault.CUT_ONE_WAY,
        Fault.CUT_PAIR,
        Fault.CUT_FROM_ZOOKEEPER,
        Fault.ISOLATE,
        Fault.NETWORK_BAD,
        Fault.NETWORK_SLOW,
        Fault.ZOOKEEPER_CUT,
    }
)
PROCESS_FAULTS = frozenset({Fault.DISK_ERRORS, Fault.DISK_SLOW, Fault.CLOCK_STEP})
"""They need tests/kit/process_faults.py."""
CLIENT_FAULTS = frozenset({Fault.CLIENT_KILL, Fault.CLIENT_PAUSE})
WEIGHTS: Mapping[Fault, int] = {
    Fault.KILL: 5,
    Fault.PAUSE: 2,
    Fault.LONG_PAUSE: 3,
    Fault.CUT_FROM_BROKERS: 2,
    Fault.CUT_ONE_WAY: 2,
    Fault.CUT_PAIR: 2,
    Fault.CUT_FROM_ZOOKEEPER: 2,
    Fault.ISOLATE: 2,
    Fault.NETWORK_BAD: 2,
    Fault.NETWORK_SLOW: 2,
    Fault.ZOOKEEPER_KILL: 2,
    Fault.ZOOKEEPER_CUT: 1,
    Fault.ZOOKEEPER_QUORUM: 1,
    Fault.DISK_FULL: 2,
    Fault.DISK_ERRORS: 3,
    Fault.DISK_SLOW: 2,
    Fault.CLOCK_STEP: 2,
    Fault.MEMORY_PRESSURE: 2,
    Fault.RESTART: 2,
    Fault.CLIENT_KILL: 7,
    Fault.CLIENT_PAUSE: 3,
}
DURATIONS_S: Mapping[Fault, tuple[float, float]] = {
    Fault.KILL: (0.2, 5.0),
    Fault.PAUSE: (0.3, SESSION_S / 2),
    Fault.LONG_PAUSE: (SESSION_S + 0.5, SESSION_S + 4),
    Fault.CUT_FROM_BROKERS: (1.0, 9.0),
    Fault.CUT_ONE_WAY: (1.0, 9.0),
    Fault.CUT_PAIR: (1.0, 9.0),
    Fault.CUT_FROM_ZOOKEEPER: (1.0, SESSION_S + 4),
    Fault.ISOLATE: (1.0, SESSION_S + 4),
    Fault.NETWORK_BAD: (2.0, SESSION_S + 4),
    Fault.NETWORK_SLOW: (2.0, SESSION_S + 4),
    Fault.ZOOKEEPER_KILL: (0.2, 4.0),
    Fault.ZOOKEEPER_CUT: (1.0, 6.0),
    Fault.ZOOKEEPER_QUORUM: (1.0, SESSION_S + 4),
    Fault.DISK_FULL: (1.0, 5.0),
    Fault.DISK_ERRORS: (1.0, 8.0),
    Fault.DISK_SLOW: (1.0, 8.0),
    Fault.CLOCK_STEP: (0.5, 6.0),
    Fault.MEMORY_PRESSURE: (1.0, 8.0),
    Fault.RESTART: (2.0, 6.0),
    Fault.CLIENT_KILL: (0.0, 3.0),
    Fault.CLIENT_PAUSE: (0.5, 16.0),  # beyond a group's session and a transaction's time-out
}
ERROR_SHARES = (0.0005, 0.05)
"""Of all reads, writes and syncs of a disk that fails now and then."""
SLOW_SHARE, SLOWEST_S = 0.1, 0.5
MOST_LOST, TWICE, OVERTAKEN, OVERTAKEN_BY_S = 0.2, 0.05, 0.25, 0.05
"""Shares of the packets of a bad network; with the most that are lost, TCP hardly gets anything through."""
FARTHEST_S, JITTER_S = 0.3, 0.01
"""Each way of a slow network, so that an answer takes twice as long."""
STEPS_S = (-3600.0, -60.0, -1.0, 1.0, 60.0, 3600.0)


class Done(NamedTuple):
    """One fault that was done, in the clock of time.monotonic()."""

    fault: Fault
    target: str
    began_at: float
    ended_at: float


@dataclass
class _Running:
    fault: Fault
    target: str
    began_at: float
    until: float
    undo: Callable[[], None]
    brokers: frozenset[int] = frozenset()
    zookeepers: frozenset[int] = frozenset()
    down: frozenset[int] = frozenset()
    """Brokers that are meant not to run."""
    client: Server | None = None


@dataclass
class Nemesis:
    """`step` again and again, then `heal`."""

    cluster: ProcessCluster
    random: random.Random
    tolerated: int
    faults: tuple[Fault, ...]
    mean_interval_s: float = 5.0
    say: Callable[[str], None] = print
    done: list[Done] = field(default_factory=list)
    clients: Sequence[Server] = ()
    """Each may be disturbed at any time, whatever happens to brokers; one that ends by itself is started again."""
    sought: Sequence[Callable[[], int]] = ()
    """Who is struck by preference, such as a coordinator: -1 where that is not known. The controller always is."""
    exits: list[str] = field(default_factory=list)
    """Brokers that ended without having been killed, with the end of what they logged."""
    client_exits: list[str] = field(default_factory=list)
    _running: list[_Running] = field(default_factory=list)
    _next_at: float = 0.0
    _restart_at: dict[int, float] = field(default_factory=dict)
    _client_restart_at: dict[str, float] = field(default_factory=dict)
    _returning: set[int] = field(default_factory=set)
    """Brokers that were started again and do not serve yet: still disturbed."""

    def step(self) -> None:
        now = time.monotonic()
        for running in [one for one in self._running if now >= one.until]:
            self._end(running)
        self._supervise(now)
        if now >= self._next_at and self._begin(now):
            self._next_at = now + self.random.uniform(0.4, 1.6) * self.mean_interval_s

    def heal(self, *, timeout_s: float = 90.0) -> None:
        """Ends all faults and waits until every process runs. Raises ProcessFailed."""
        for running in list(self._running):
            self._end(running)
        if self.cluster.lab is not None:
            self.cluster.lab.heal_all()
        deadline = time.monotonic() + timeout_s
        while not all(self._serves(server) for server in (*self._servers(), *self.clients)):
            if time.monotonic() > deadline:
                down = [one for one in (*self._servers(), *self.clients) if not self._serves(one)]
                raise ProcessFailed(f"after the faults: {down[0].name} does not serve: {down[0].log_tail()}")
            self._supervise(time.monotonic())
            time.sleep(0.1)

    def _servers(self) -> list[Server]:
        return [*self.cluster.brokers.values(), *self.cluster.zookeepers]

    def _serves(self, server: Server) -> bool:
        return server.is_running and (server in self.clients or server.accepts())

    # -- beginning

    def _begin(self, now: float) -> bool:
        fault = self.random.choices(self.faults, [WEIGHTS[one] for one in self.faults])[0]
        shortest, longest = DURATIONS_S[fault]
        until = now + self.random.uniform(shortest, longest)
        if fault in CLIENT_FAULTS:
            running = self._on_client(fault, now, until)
        elif fault.name.startswith("ZOOKEEPER_"):
            running = self._on_zookeeper(fault, now, until)
        else:
            running = self._on_broker(fault, now, until)
        if running is None:
            return False
        self.say(f"{fault.value}: {running.target}, {until - now:.1f} s")
        self._running.append(running)
        return True

    def _on_client(self, fault: Fault, now: float, until: float) -> _Running | None:
        client = self.clients[self.random.randrange(len(self.clients))]
        if not client.is_running or any(running.client is client for running in self._running):
            return None
        if fault is Fault.CLIENT_KILL:
            client.kill()
            undo = client.start
        else:
            client.pause()
            undo = client.resume
        return _Running(fault, client.name, now, until, undo, client=client)

    def _on_zookeeper(self, fault: Fault, now: float, until: float) -> _Running | None:
        cluster, members = self.cluster, len(self.cluster.zookeepers)
        index = self.random.randrange(members)
        disturbed = {one for running in self._running for one in running.zookeepers}
        if disturbed or (fault is Fault.ZOOKEEPER_CUT and members == 1):
            return None
        server = cluster.zookeepers[index]
        if fault is Fault.ZOOKEEPER_QUORUM:
            lost = [cluster.zookeepers[(index + one) % members] for one in range(members // 2 + 1)]
            for one in lost:
                one.kill()

            def begin_again() -> None:
                for one in lost:
                    one.start()

            name = " and ".join(one.name for one in lost)
            return _Running(fault, name, now, until, begin_again, zookeepers=frozenset(range(members)))
        if fault is Fault.ZOOKEEPER_KILL:
            server.kill()
            undo = server.start
        else:
            lab, others = cluster.lab, [cluster.zookeeper_host(one) for one in range(members) if one != index]
            assert lab is not None
            host = cluster.zookeeper_host(index)
            for other in others:
                lab.cut(host, other)

            def undo() -> None:
                for other in others:
                    lab.heal(host, other)

        return _Running(fault, server.name, now, until, undo, zookeepers=frozenset({index}))

    def _on_broker(self, fault: Fault, now: float, until: float) -> _Running | None:
        cluster = self.cluster
        disturbed = self._returning | self._restart_at.keys()
        disturbed |= {broker_id for running in self._running for broker_id in running.brokers}
        free = sorted(cluster.brokers.keys() - disturbed)
        preference, chosen, other_index = self.random.random(), self.random.random(), self.random.random()
        inwards, strength = self.random.random() < 0.5, self.random.random()
        if len(disturbed) >= self.tolerated or not free:
            return None
        target = free[int(chosen * len(free))]
        sought = (self.controller, *self.sought)
        share = SOUGHT_SHARE * len(sought)
        if preference < share and (found := sought[int(preference / SOUGHT_SHARE)]()) in free:
            target = found
        server, name = cluster.brokers[target], f"broker-{target}"
        if not server.is_running:
            return None
        down: frozenset[int] = frozenset()
        match fault:
            case Fault.KILL:
                server.kill()
                undo, down = self._starting(target), frozenset({target})
            case Fault.RESTART:
                server.terminate()
                undo, down = self._starting(target), frozenset({target})
            case Fault.PAUSE | Fault.LONG_PAUSE:
                server.pause()
                undo = server.resume
            case Fault.CUT_FROM_BROKERS:
                cluster.cut_from_brokers(target)
                undo = self._calling(cluster.heal_from_brokers, target)
            case Fault.CUT_ONE_WAY:
                peers = [one for one in cluster.brokers if one != target]
                for peer in peers:
                    source, sink = (peer, target) if inwards else (target, peer)
                    cluster.cut(source, sink, both_ways=False)
                name += ", hears no broker" if inwards else ", heard by no broker"
                undo = self._calling(cluster.heal_from_brokers, target)
            case Fault.CUT_PAIR:
                peers = [one for one in cluster.brokers if one != target]
                peer = peers[int(other_index * len(peers))]
                cluster.cut(target, peer)
                name += f" and broker-{peer}"
                undo = self._healing(target, peer)
            case Fault.CUT_FROM_ZOOKEEPER:
                cluster.cut_from_zookeeper(target)
                undo = self._calling(cluster.heal_from_zookeeper, target)
            case Fault.ISOLATE:
                cluster.cut_from_zookeeper(target)
                cluster.cut_from_brokers(target)
                cluster.cut_from_clients(target)
                undo = self._ending_isolation(target)
            case Fault.NETWORK_BAD:
                quality = Quality(MOST_LOST * strength, TWICE, OVERTAKEN, 0.0, OVERTAKEN_BY_S)
                cluster.spoil_network(target, quality)
                name += f", {quality.lost:.0%} lost"
                undo = self._calling(cluster.heal_network, target)
            case Fault.NETWORK_SLOW:
                delay_s = FARTHEST_S * strength
                cluster.spoil_network(target, Quality(late=1.0, shortest_s=delay_s, longest_s=delay_s + JITTER_S))
                name += f", {delay_s * 1000:.0f} ms each way"
                undo = self._calling(cluster.heal_network, target)
            case Fault.DISK_FULL:
                cluster.fill_disk(target)
                undo, down = self._calling(cluster.free_disk, target), frozenset({target})
            case Fault.DISK_ERRORS:
                least, most = ERROR_SHARES
                share = least * (most / least) ** strength
                cluster.faults[target].fail_disk(share)
                name += f", {share:.2%} of calls"
                undo = cluster.faults[target].heal_disk
            case Fault.DISK_SLOW:
                cluster.faults[target].slow_disk(SLOW_SHARE, SLOWEST_S * strength)
                name += f", {SLOWEST_S * strength * 1000:.0f} ms"
                undo = cluster.faults[target].heal_disk
            case Fault.CLOCK_STEP:
                step_s = STEPS_S[int(strength * len(STEPS_S))]
                cluster.faults[target].set_clock(step_s)
                name += f", {step_s:+.0f} s"
                undo = self._setting_clock_right(target)
            case Fault.MEMORY_PRESSURE:
                # The kernel may kill it.
                undo, down = self._lifting(target, MemoryPressure(server.pid)), frozenset({target})
            case _:
                raise ValueError(fault)
        return _Running(fault, name, now, until, undo, brokers=frozenset({target}), down=down)

    def controller(self) -> int:
        """-1 where ZooKeeper does not say at once."""
        try:
            data = self.cluster.zookeeper.get_async("/controller").get(timeout=1)[0]
            return int(data.split(b'"brokerid":')[1].split(b",")[0])
        except (KazooException, KazooTimeoutError, IndexError, ValueError, OSError):
            return -1

    # -- ending

    def _starting(self, broker_id: int) -> Callable[[], None]:
        def start() -> None:
            self._returning.add(broker_id)
            self.cluster.brokers[broker_id].kill()  # where it was told to end and has not done so
            self.cluster.brokers[broker_id].start()

        return start

    @staticmethod
    def _calling(action: Callable[[int], None], broker_id: int) -> Callable[[], None]:
        return lambda: action(broker_id)

    def _healing(self, one: int, other: int) -> Callable[[], None]:
        return lambda: self.cluster.heal(one, other)

    def _setting_clock_right(self, broker_id: int) -> Callable[[], None]:
        return lambda: self.cluster.faults[broker_id].set_clock(0)

    def _lifting(self, broker_id: int, pressure: MemoryPressure) -> Callable[[], None]:
        def lift() -> None:
            pressure.lift()
            if not self.cluster.brokers[broker_id].is_running:
                self._starting(broker_id)()

        return lift

    def _ending_isolation(self, broker_id: int) -> Callable[[], None]:
        def undo() -> None:
            self.cluster.heal_from_zookeeper(broker_id)
            self.cluster.heal_from_brokers(broker_id)
            self.cluster.heal_from_clients(broker_id)

        return undo

    def _end(self, running: _Running) -> None:
        running.undo()
        self._running.remove(running)
        self.done.append(Done(running.fault, running.target, running.began_at, time.monotonic()))

    # -- supervision

    def _supervise(self, now: float) -> None:
        """Brokers that end by themselves are noted and started again a second later, unless they are to be down."""
        self.supervise_clients(now)
        meant = {broker_id for running in self._running for broker_id in running.down}
        for broker_id, server in self.cluster.brokers.items():
            if server.is_running:
                if broker_id in self._returning and server.accepts():
                    self._returning.discard(broker_id)
                continue
            if broker_id in meant:
                continue
            if broker_id not in self._restart_at:
                self._restart_at[broker_id] = now + RESTART_S
                self.exits.append(f"{server.name} ended with {server.returncode}: {server.log_tail(lines=6)}")
                self.say(f"{server.name} ended by itself with {server.returncode}")
            elif now >= self._restart_at[broker_id]:
                del self._restart_at[broker_id]
                self._returning.add(broker_id)
                server.start()

    def supervise_clients(self, now: float) -> None:
        meant = {running.client.name for running in self._running if running.client is not None}
        for client in self.clients:
            if client.is_running or client.name in meant:
                continue
            if client.name not in self._client_restart_at:
                self._client_restart_at[client.name] = now + RESTART_S
                self.client_exits.append(f"{client.name} ended with {client.returncode}: {client.log_tail(lines=3)}")
                self.say(f"{client.name} ended by itself with {client.returncode}")
            elif now >= self._client_restart_at[client.name]:
                del self._client_restart_at[client.name]
                client.start()


def usable(
    cluster: ProcessCluster, wanted: tuple[Fault, ...], *, has_small_disks: bool, has_clients: bool = False
) -> tuple[Fault, ...]:
    """Those of the wanted faults that can be done here."""
    members = len(cluster.zookeepers)
    return tuple(
        fault
        for fault in wanted
        if (cluster.lab is not None or fault not in NETWORK_FAULTS)
        and (has_small_disks or fault is not Fault.DISK_FULL)
        and (members > 1 or fault not in (Fault.ZOOKEEPER_CUT, Fault.ZOOKEEPER_QUORUM))
        and (cluster.faults or fault not in PROCESS_FAULTS)
        and (has_clients or fault not in CLIENT_FAULTS)
        and (not memory_cannot_be_pressed() or fault is not Fault.MEMORY_PRESSURE)
    )
