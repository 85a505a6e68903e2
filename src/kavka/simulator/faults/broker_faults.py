"""Faults of one broker: its process, its machine, its clock, its session. Those of its disks are `disk_faults`.

    kill         the process dies and is started again
    power cut    the same, but unsynced writes are lost or torn, and no connection is closed
    restart      the broker is stopped in order and started again
    pause        it does nothing for a while, often longer than its session lasts
    session      ZooKeeper ends the broker's session
    clock        its wall clock jumps

A power cut happens only if others have all that is committed (`FaultGroup.may_lose`). A killed process loses nothing,
so sometimes any number of them is killed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.disk_faults import heal_disks
from kavka.simulator.faults.fault_group import FaultGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kavka.simulator.faults.fault_group import Arguments
    from kavka.simulator.host.broker import SimulatedBroker

PROCESS_KINDS: Final = ("kill", "power cut", "restart", "pause")
OTHER_KINDS: Final = ("session", "clock")
KINDS: Final = (*PROCESS_KINDS, *OTHER_KINDS)
MAX_CLOCK_JUMP_MS: Final = 7_200_000
STOPPING_MS: Final = 20_000
"""How long a broker may take to stop in order."""
REGARDLESS: Final = 0.1
"""How often a process is killed regardless of how many others are down."""


class BrokerFaults(FaultGroup):
    """See the module."""

    def heal(self, brokers: Collection[int]) -> None:
        for broker_id in brokers:
            self._heal(self.world.brokers[broker_id])

    def _heal(self, broker: SimulatedBroker) -> None:
        broker.is_given_up = False
        heal_disks(self.world, broker)
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
        """Also if no process runs: the fault that stopped or killed the broker starts it again."""
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
