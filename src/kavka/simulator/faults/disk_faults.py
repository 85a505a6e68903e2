"""Faults of one broker's disks.

    slow disk    flushes take long
    disk errors  writes, reads or syncs of one log directory fail, each with some probability, until it is repaired, or
                 an empty disk put in its place; a broker that had to give the directory up is started again then
    disk full    no byte more goes onto one log directory for a while

What a power cut leaves of files that were not synced is decided by `host.disk`. A fault that loses a whole disk happens
only if others have all that is committed (`FaultGroup.may_lose`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.simulator.faults.fault_group import FaultGroup

if TYPE_CHECKING:
    from kavka.simulator.faults.fault_group import Arguments
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.world import World

KINDS: Final = ("slow disk", "disk errors", "disk full")
WRITES, READS, SYNCS = "writes", "reads", "syncs"
REPLACED: Final = 0.4
"""How often a broken disk is replaced by an empty one."""


def heal_disks(world: World, broker: SimulatedBroker) -> None:
    """Its disks are fast and whole; part of a broker's healing, before it is started again."""
    broker.disk_delay_s = 0.0
    if broker.disk.is_broken:
        broker.disk.repair()
        world.tell(broker.node, "disk repaired")


class DiskFaults(FaultGroup):
    """See the module."""

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
