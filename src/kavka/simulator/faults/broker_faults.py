"""Faults of one broker: its process, its machine, its disks, its clock, its session.

    kill         the process dies and is started again
    power cut    the same, but unsynced writes are lost or torn, and no connection is closed
    restart      the broker is stopped in order and started again
    pause        it does nothing for a while, often longer than its session lasts
    slow disk    flushes take long
    disk errors  writes, reads or syncs of one log directory fail, each with some probability, until it is repaired, or
                 an empty disk put in its place; a broker that had to give the directory up is started again then
    disk full    no byte more goes onto one log directory for a while
    session      ZooKeeper ends the broker's session
    clock        its wall clock jumps

A fault that loses unsynced writes, or a whole disk, happens only if others have all that is committed
(`FaultGroup.may_lose`). A killed process loses nothing, so sometimes any number of them is killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.fault_group import FaultGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kavka.simulator.faults.fault_group import Arguments
    from kavka.simulator.host.broker import SimulatedBroker

KINDS: Final = ("kill", "power cut", "restart", "pause", "slow disk", "disk errors", "disk full", "session", "clock")
MAX_CLOCK_JUMP_MS: Final = 7_200_000
WRITES, READS, SYNCS = "writes", "reads", "syncs"
STOPPING_MS: Final = 20_000
"""How long a broker may take to stop in order."""
REGARDLESS: Final = 0.1
"""How often a process is killed regardless of how many others are down."""
REPLACED: Final = 0.4
"""How often a broken disk is replaced by an empty one."""


class BrokerFaults(FaultGroup):
    """See the module."""

    def heal(self, brokers: Collection[int]) -> None:
        for broker_id in brokers:
            self._heal(self.world.brokers[broker_id])

    def _heal(self, broker: SimulatedBroker) -> None:
        broker.is_given_up = False
        broker.disk_delay_s = 0.0
        if broker.disk.is_broken:
            broker.disk.repair()
            self.world.tell(broker.node, "disk repaired")
        if broker.is_paused:
            broker.resume()
        if broker.is_alive and broker.has_offline_directory:
            broker.kill()
        if not broker.is_alive:
            broker.start()

    # -- its process

    def draw_kill(self) -> Arguments | None:
        broker = self.draw_serving()
        if broker is None:
            return None
        regardless = self.random.random() < REGARDLESS
        return {"broker": broker, "back_ms": self.draw_ms(0.2, 25.0), "regardless": regardless}

    def kill(self, broker: int, back_ms: int, *, regardless: bool = False) -> bool:
        victim = self.world.brokers[broker]
        if not victim.is_serving or not (regardless or self.others_are_whole(broker)):
            return False
        self._end(victim, back_ms, victim.kill)
        return True

    def draw_power_cut(self) -> Arguments | None:
        broker = self.draw_serving()
        return None if broker is None else {"broker": broker, "back_ms": self.draw_ms(0.2, 25.0)}

    def power_cut(self, broker: int, back_ms: int) -> bool:
        """Also where nothing runs: whoever stopped or killed the broker starts it again."""
        victim = self.world.brokers[broker]
        if not victim.is_alive and self.others_are_whole(broker) and self.world.observer.bears_loss_at(broker):
            victim.lose_power()
        elif self.may_lose(broker):
            self._end(victim, back_ms, victim.power_cut)
        else:
            return False
        self.world.observer.on_power_cut(broker)
        return True

    def _end(self, victim: SimulatedBroker, back_ms: int, end: Callable[[], None]) -> None:
        end()
        self.later(victim.start, back_ms, lambda: not victim.is_alive)

    def draw_restart(self) -> Arguments | None:
        broker = self.draw_serving()
        return None if broker is None else {"broker": broker, "back_ms": self.draw_ms(0.5, 25.0)}

    def restart(self, broker: int, back_ms: int) -> bool:
        victim = self.world.brokers[broker]
        if not victim.is_serving or victim.is_paused or not self.others_are_whole(broker):
            return False
        victim.stop()
        life = victim.life
        # One that cannot stop in order, cut off as it may be, is killed in the end, as an operator would.
        self.later(victim.kill, STOPPING_MS, lambda: victim.is_alive and victim.life == life)
        self.later(victim.start, back_ms, lambda: not victim.is_alive)
        self.later(victim.start, STOPPING_MS + 1, lambda: not victim.is_alive)
        return True

    def draw_pause(self) -> Arguments | None:
        running = [each.broker_id for each in self.world.brokers.values() if each.is_serving and not each.is_paused]
        return {"broker": self.one_of(running), "ms": self.draw_ms(0.1, 20.0)} if running else None

    def pause(self, broker: int, ms: int) -> bool:
        sleeper = self.world.brokers[broker]
        if not sleeper.is_serving or sleeper.is_paused:
            return False
        sleeper.pause()
        life = sleeper.life
        self.later(sleeper.resume, ms, lambda: sleeper.is_paused and sleeper.life == life)
        return True

    # -- its disks

    def draw_slow_disk(self) -> Arguments | None:
        return {"broker": self.draw_broker(), "flush_ms": self.draw_ms(0.0, 1.0), "ms": self.draw_ms(1.0, 20.0)}

    def slow_disk(self, broker: int, flush_ms: int, ms: int) -> bool:
        slow = self.world.brokers[broker]
        slow.disk_delay_s = flush_ms / 1_000
        self.world.tell(slow.node, "disk slow", f"a flush takes {slow.disk_delay_s:.3f} s")

        def quick() -> None:
            slow.disk_delay_s = 0.0
            self.world.tell(slow.node, "disk quick")

        self.later(quick, ms)
        return True

    def draw_disk_errors(self) -> Arguments | None:
        broker = self.draw_broker()
        directories = self.world.brokers[broker].log_directories
        return {
            "broker": broker,
            "directory": directories[int(self.random.random() * len(directories))],
            "what": (WRITES, READS, SYNCS)[int(self.random.random() * 3)],
            "share": round(10 ** (-2 * self.random.random()), 3),
            "ms": self.draw_ms(1.0, 25.0),
            "replaced": self.random.random() < REPLACED,
        }

    def disk_errors(self, broker: int, directory: str, what: str, share: float, ms: int, *, replaced: bool) -> bool:
        if not self.may_lose(broker):
            return False  # A directory that is offline holds nothing that others could have.
        owner = self.world.brokers[broker]
        volume = owner.disk.volume(directory)
        match what:
            case "writes":
                volume.failing_writes = share
            case "reads":
                volume.failing_reads = share
            case _:
                volume.failing_syncs = share
        self.world.tell(owner.node, "disk broken", f"{directory}: {100 * share:.1f} % of its {what} fail")
        self.later(lambda: self._mend(owner, directory, replaced=replaced), ms, lambda: volume.is_broken)
        return True

    def _mend(self, owner: SimulatedBroker, directory: str, *, replaced: bool) -> None:
        world = self.world
        owner.disk.volume(directory).repair()
        self.world.tell(owner.node, "disk repaired", directory)
        if replaced and world.observer.bears_loss_at(owner.broker_id):
            if owner.is_alive:
                owner.kill()
            owner.disk.wipe(directory)
            world.observer.on_disk_damaged(owner.broker_id)
            world.note(f"an empty disk for {directory} of {owner.node}")
            world.tell(owner.node, "disk replaced", f"{directory} is empty")
        elif owner.is_alive and owner.has_offline_directory:
            owner.kill()
        if not owner.is_alive:
            owner.start()

    def draw_disk_full(self) -> Arguments | None:
        broker = self.draw_broker()
        directories = self.world.brokers[broker].log_directories
        directory = directories[int(self.random.random() * len(directories))]
        return {"broker": broker, "directory": directory, "ms": self.draw_ms(0.5, 20.0)}

    def disk_full(self, broker: int, directory: str, ms: int) -> bool:
        if not self.may_lose(broker):
            return False
        owner = self.world.brokers[broker]
        volume = owner.disk.volume(directory)
        volume.is_full = True
        self.world.tell(owner.node, "disk full", directory)
        self.later(lambda: self._mend(owner, directory, replaced=False), ms, lambda: volume.is_broken)
        return True

    # -- its session, its clock

    def draw_session(self) -> Arguments | None:
        broker = self.draw_serving()
        return None if broker is None else {"broker": broker}

    def session(self, broker: int) -> bool:
        zookeeper, running = self.world.zookeeper, self.world.brokers[broker].broker
        if not zookeeper.is_serving or running is None:
            return False
        zookeeper.expire(running.session_id)
        return True

    def draw_clock(self) -> Arguments | None:
        broker = self.draw_serving()
        skew_ms = round((self.random.random() - 0.5) * MAX_CLOCK_JUMP_MS)
        return None if broker is None else {"broker": broker, "skew_ms": skew_ms}

    def clock(self, broker: int, skew_ms: int) -> bool:
        self.world.brokers[broker].clock_skew_ms = skew_ms
        return True
