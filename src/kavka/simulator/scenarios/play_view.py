"""What a scenario sees of its cluster: what is stored, what each broker knows, what is on its disk; and how it waits.

Decides how a scenario waits until something holds, and that it fails where it does not (`Unexpected`). Changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kavka.decisions import Decision, DecisionKind
from kavka.model import NO_EPOCH, NO_LEADER, BrokerId, LeaderEpoch, Offset, TopicPartition
from kavka.records.batch import iterate_batches
from kavka.records.builder import ProducerStamp
from kavka.replication.decide.fetch_state import Stage
from kavka.replication.decide.partition import Partition
from kavka.simulator.host.scheduler import SimulationStuck
from kavka.simulator.scenarios.play_clients import PARTITION
from kavka.simulator.world import World
from kavka.zookeeper.znode_paths import CONTROLLER_EPOCH_PATH, broker_path
from kavka.zookeeper.znodes import PartitionState, decode_controller_epoch


class Unexpected(Exception):
    """A scenario did not go as expected."""


class View:
    """A cluster as a scenario sees it. Without another name, the partition is PARTITION."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.decisions: list[Decision] = []
        """What brokers decided, and why, as they recorded it."""

    # -- time

    def run_for(self, seconds: float) -> None:
        self.world.run_for(seconds)

    def until(self, condition: Callable[[], bool], what: str, *, within_s: float = 30.0) -> None:
        """Runs until a condition holds. It is checked after every step."""
        try:
            self.world.run_until(condition, within_s=within_s)
        except SimulationStuck as stuck:
            raise Unexpected(f"{what}: {stuck}; stored is {self.stored}") from stuck

    # -- what is stored

    @property
    def stored(self) -> tuple[BrokerId, tuple[BrokerId, ...]]:
        """(leader, ISR) in the state znode."""
        found = self.world.observer.stored.get(PARTITION)
        if found is None:
            return NO_LEADER, ()
        return found.state.leader, tuple(found.state.isr)

    @property
    def leader(self) -> BrokerId:
        return self.stored[0]

    @property
    def epoch(self) -> int:
        """The stored leader epoch."""
        return self.state().leader_epoch

    @property
    def version(self) -> int:
        """The state znode's version. It rises with every change of leader or ISR."""
        return self.world.observer.stored[PARTITION].version

    def state(self, which: TopicPartition = PARTITION) -> PartitionState:
        """The content of the state znode."""
        return self.world.observer.stored[which].state

    @property
    def has_topic(self) -> bool:
        return PARTITION in self.world.observer.stored

    @property
    def controller(self) -> BrokerId:
        """The controller's broker id; -1 if there is none."""
        return BrokerId(self.world.observer.controller)

    @property
    def controller_epoch(self) -> int:
        return decode_controller_epoch(self.world.zookeeper.embedded.database.tree.by_path[CONTROLLER_EPOCH_PATH].data)

    def registration(self, broker_id: BrokerId) -> int:
        """The broker epoch of the broker's registration; -1 if it is not registered."""
        node = self.world.zookeeper.embedded.database.tree.by_path.get(broker_path(broker_id))
        return node.czxid if node is not None else -1

    # -- what brokers know

    def partition(self, broker_id: BrokerId, which: TopicPartition = PARTITION) -> Partition | None:
        """The replica as its broker sees it; None if the broker hosts none."""
        broker = self.world.brokers[broker_id].broker
        return broker.replicas.partition(*which) if broker is not None else None

    def leads(self, broker_id: BrokerId, which: TopicPartition = PARTITION) -> bool:
        """Whether the broker itself believes that it leads."""
        found = self.partition(broker_id, which) if broker_id != NO_LEADER else None
        return found is not None and found.is_leader

    def told(self, broker_id: BrokerId) -> tuple[BrokerId, LeaderEpoch]:
        """(leader, leader epoch) in the broker's metadata for clients."""
        broker = self.world.brokers[broker_id].broker
        found = broker.metadata.partition(*PARTITION) if broker is not None else None
        return (found.state.leader, found.state.leader_epoch) if found is not None else (NO_LEADER, NO_EPOCH)

    def known_epoch(self, broker_id: BrokerId) -> LeaderEpoch:
        """The leader epoch that the broker is in."""
        found = self.partition(broker_id)
        return found.leader_epoch if found is not None else NO_EPOCH

    def epochs(self, broker_id: BrokerId) -> list[tuple[LeaderEpoch, Offset]]:
        """The leader epochs in the replica's log, with the start of each."""
        found = self.partition(broker_id)
        return [(each.epoch, each.start_offset) for each in found.log.epoch_entries] if found is not None else []

    def log_start(self, broker_id: BrokerId) -> Offset:
        found = self.partition(broker_id)
        return found.log.log_start_offset if found is not None else -1

    def log_end(self, broker_id: BrokerId, which: TopicPartition = PARTITION) -> Offset:
        found = self.partition(broker_id, which)
        return found.log.log_end_offset if found is not None else -1

    def high_watermark(self, broker_id: BrokerId) -> Offset:
        found = self.partition(broker_id)
        return found.log.high_watermark if found is not None else -1

    def last_stable_offset(self, broker_id: BrokerId) -> Offset:
        found = self.partition(broker_id)
        return found.log.last_stable_offset if found is not None else -1

    def stamp_at(self, offset: Offset) -> ProducerStamp:
        """The producer of the record at `offset`."""
        found = self.partition(self.leader)
        assert found is not None
        result = found.log.read(offset, 1, max_offset=found.log.log_end_offset, min_one_batch=True)
        (chunk,) = result.chunks
        header = next(iterate_batches(memoryview(chunk.tobytes()))).header
        return ProducerStamp(
            header.producer_id, header.producer_epoch, header.base_sequence, is_transactional=header.is_transactional
        )

    def committed_truncations(self, broker_id: BrokerId) -> int:
        """How often the broker logged that it truncated a log below its high watermark."""
        return sum(
            decision.kind is DecisionKind.LOG_TRUNCATED
            and decision.broker_id == broker_id
            and decision.evidence["below_high_watermark"] is True
            for decision in self.decisions
        )

    def is_asking_offsets(self, broker_id: BrokerId) -> bool:
        """Whether the follower waits for the start and end of its leader's log."""
        broker = self.world.brokers[broker_id].broker
        state = broker.inner.following.state(PARTITION) if broker is not None else None
        return state is not None and state.stage is Stage.ASKING_OFFSETS

    # -- what is on a broker's disk

    def files(self, broker_id: BrokerId, ending: str, which: TopicPartition = PARTITION) -> list[str]:
        """Paths of a replica's files with this ending, in order."""
        disk = self.world.brokers[broker_id].disk
        inside = f"/{which.topic}-{which.partition}/"
        return sorted(path for path in disk.files if inside in path and path.endswith(ending))

    def contents(self, broker_id: BrokerId) -> dict[str, bytes]:
        """All files of a replica that a restart does not remove, by path."""
        disk = self.world.brokers[broker_id].disk
        kept = (path for path in self.files(broker_id, "") if not path.endswith(".deleted"))
        return {path: bytes(disk.files[path].data) for path in kept}

    # -- what must be

    def expect(self, *, leader: BrokerId | None = None, isr: Sequence[BrokerId] | None = None) -> None:
        """Waits until the stored state is this one (an ISR in any order) and stays so for a moment."""

        def holds() -> bool:
            stored_leader, stored_isr = self.stored
            return leader in (None, stored_leader) and (isr is None or sorted(isr) == sorted(stored_isr))

        self.until(holds, f"leader {leader}, ISR {isr}")
        self.run_for(0.2)
        self.require(holds(), f"leader {leader}, ISR {isr} did not last: {self.stored}")

    def another_leader(self, former: BrokerId, which: TopicPartition = PARTITION) -> BrokerId:
        """Waits until another leader than `former` is stored, and returns it."""
        self.until(lambda: self.state(which).leader not in (former, NO_LEADER), f"another leader than {former}")
        return self.state(which).leader

    def require(self, condition: bool, what: str) -> None:
        if not condition:
            raise Unexpected(f"at {self.world.scheduler.now_ms} ms: {what}")

    def finish(self) -> None:
        """Heals all faults. Checks that all replicas are in sync again and every acknowledged record is there."""
        self.world.settle()
