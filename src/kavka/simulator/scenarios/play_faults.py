"""What strikes the cluster of a scenario: its brokers, links, clocks, ZooKeeper and disks.

Decides how a fault is made, and that the observer knows of it. Which one strikes when is the scenario's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kavka.model import BrokerId, Offset, TopicPartition
from kavka.records.batch import iterate_batches
from kavka.simulator.host.broker import BrokerSurroundings, Halt, SimulatedBroker
from kavka.simulator.scenarios.play_clients import PARTITION
from kavka.simulator.scenarios.play_view import Unexpected, View
from kavka.simulator.world import SETTINGS as WORLD_SETTINGS
from kavka.simulator.world import World
from kavka.zookeeper.znode_paths import CONTROLLER_PATH


class Faults(View):
    """The faults that a scenario can make. `settings`: those of all brokers."""

    def __init__(self, world: World, settings: Mapping[str, str]) -> None:
        super().__init__(world)
        self._settings = settings
        self._damaged: dict[BrokerId, None] = {}

    # -- brokers

    def kill(self, *broker_ids: BrokerId) -> None:
        """Kills brokers with kill -9, all at once."""
        for broker_id in broker_ids:
            self._note("kill", broker_id)
            self.world.brokers[broker_id].kill()
            if broker_id in self._damaged:
                del self._damaged[broker_id]
                self.world.observer.on_disk_damaged(broker_id)

    def power_cut(self, *broker_ids: BrokerId) -> None:
        for broker_id in broker_ids:
            self._note("power cut", broker_id)
            self.world.brokers[broker_id].power_cut()
            self.world.observer.on_power_cut(broker_id)

    def start(self, *broker_ids: BrokerId) -> None:
        """Starts brokers, and waits until they serve."""
        self.start_only(*broker_ids)
        self.until(lambda: all(self.world.brokers[each].is_serving for each in broker_ids), f"{broker_ids} serve")

    def start_only(self, *broker_ids: BrokerId) -> None:
        for broker_id in broker_ids:
            self._note("start", broker_id)
            self.world.brokers[broker_id].start()

    def start_twin(self, broker_id: BrokerId, halts: list[Halt]) -> SimulatedBroker:
        """Starts another broker with the same id on its own machine. Calls `halts` when it gives up."""
        world = self.world
        around = BrokerSurroundings(world.scheduler, world.network, world.zookeeper.connect_string, world.bugs, halts)
        twin = SimulatedBroker(around, broker_id, {**WORLD_SETTINGS, **self._settings})
        twin.node = f"twin-{broker_id}"
        twin.start()
        return twin

    def stop(self, broker_id: BrokerId) -> asyncio.Task[None]:
        """Stops a broker with SIGTERM."""
        self._note("stop", broker_id)
        return self.world.brokers[broker_id].stop()

    def pause(self, broker_id: BrokerId) -> None:
        self._note("pause", broker_id)
        self.world.brokers[broker_id].pause()

    def resume(self, broker_id: BrokerId) -> None:
        self._note("resume", broker_id)
        self.world.brokers[broker_id].resume()

    def _note(self, what: str, broker_id: BrokerId) -> None:
        self.world.note(f"{what} broker {broker_id}")

    # -- links

    def cut(self, one: BrokerId | str, other: BrokerId | str, *, both: bool = True) -> None:
        """Cuts the link from `one` to `other`, and also back if `both`."""
        self.world.network.cut(node_of(one), node_of(other), both=both)

    def heal(self, one: BrokerId | str, other: BrokerId | str, *, both: bool = True) -> None:
        self.world.network.heal(node_of(one), node_of(other), both=both)

    def slow(self, source: BrokerId | str, target: BrokerId | str, delay_s: float) -> None:
        """Everything on this link takes at least this long."""
        self.world.network.link(node_of(source), node_of(target)).least_delay_s = delay_s

    def hold_answers(self, source: BrokerId, target: BrokerId) -> None:
        """Holds the answers of `source` to `target` until `release`. Its requests get through."""
        self.world.network.hold(node_of(source), node_of(target), answers=True)

    def hold_requests(self, source: BrokerId, target: BrokerId) -> None:
        """Holds the requests of `source` to `target` until `release`. Its answers get through."""
        self.world.network.hold(node_of(source), node_of(target), answers=False)

    def release(self, source: BrokerId, target: BrokerId) -> None:
        self.world.network.release(node_of(source), node_of(target))

    # -- clocks and ZooKeeper

    def jump(self, broker_id: BrokerId, seconds: float) -> None:
        """Sets the wall clock of the broker's machine."""
        self._note(f"clock set by {seconds} s,", broker_id)
        self.world.brokers[broker_id].clock_skew_ms += round(seconds * 1_000)

    def lose_session(self, broker_id: BrokerId) -> None:
        """ZooKeeper ends the broker's session."""
        broker = self.world.brokers[broker_id].broker
        assert broker is not None
        self.world.zookeeper.expire(broker.session_id)

    def delete_controller_node(self) -> None:
        """Deletes /controller, as by hand. No session ends."""
        server = self.world.zookeeper

        async def delete() -> None:
            await (await server.embedded.connect()).delete(CONTROLLER_PATH)

        task = server.loop.create_task(delete())
        self.until(task.done, "the node is deleted")
        task.result()

    def delete_below(self, path: str) -> None:
        """Deletes the znodes right below `path`, as old change nodes are purged."""
        server = self.world.zookeeper

        async def delete() -> None:
            session = await server.embedded.connect()
            for name in await session.children(path):
                await session.delete(f"{path}/{name}")

        task = server.loop.create_task(delete())
        self.until(task.done, "the nodes are deleted")
        task.result()

    # -- disks

    def flip_bit(self, broker_id: BrokerId, offset: Offset, which: TopicPartition = PARTITION) -> None:
        """Flips a bit of the last byte of the batch that holds the record at `offset`."""
        disk = self.world.brokers[broker_id].disk
        for path in self.files(broker_id, ".log", which):
            position = 0
            for batch in iterate_batches(memoryview(bytes(disk.files[path].data))):
                position += len(batch.view)
                if batch.header.base_offset <= offset <= batch.header.last_offset:
                    disk.damage(path, position - 1)
                    self._on_damage(broker_id)
                    return
        raise Unexpected(f"broker {broker_id} has no record at {offset}")

    def tear(self, broker_id: BrokerId, size_bytes: int) -> None:
        """Removes the last bytes of a replica's log."""
        data = self.world.brokers[broker_id].disk.files[self.files(broker_id, ".log")[-1]].data
        del data[-size_bytes:]
        self._on_damage(broker_id)

    def overwrite(self, broker_id: BrokerId, path: str, data: bytes) -> None:
        """Replaces the content of a file, as a person might, or a file system after a crash."""
        self.world.brokers[broker_id].disk.files[path].data[:] = data
        self._on_damage(broker_id)

    def remove(self, broker_id: BrokerId, path: str) -> None:
        del self.world.brokers[broker_id].disk.files[path]

    def _on_damage(self, broker_id: BrokerId) -> None:
        """The observer no longer knows what the broker comes back with."""
        if self.world.brokers[broker_id].is_alive:
            self._damaged[broker_id] = None
        else:
            self.world.observer.on_disk_damaged(broker_id)


def node_of(name: BrokerId | str) -> str:
    return name if isinstance(name, str) else f"broker-{name}"
