"""What administrators do to a simulated cluster, at random, in the middle of its faults.

    move            a partition goes to other brokers, or in another order, of topics that come and go also to more or
                    fewer; some moves are cancelled half-way, some get another target, some see the controller change
    elect           the preferred leaders are elected
    new controller  the controller's znode is deleted, as operators do to have another one
    create topic    one of a few names: some are deleted and come again
    delete topic    one of those
    add partitions  to one of those
    configure       min.insync.replicas, segment size or retention of one of those
    delete records  of any partition, some way up to what is committed

They are strikes like faults, so that a failing run can be made smaller by leaving them out. Nobody waits for their
outcome, and each of them may fail: the cluster may be unable to carry it out.

    I1  topics "orders" and "ledger" are never deleted nor shortened by retention: what is acknowledged there must be
        there in the end; of the ledger's records none is deleted: its transactions must be whole
    I2  the observer learns first of anything that may remove records
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.client.admin import ConfigChange, ConfigResource, ElectionType, NewTopic, ResourceType
from kavka.model import TopicPartition
from kavka.simulator.faults.fault_group import FaultGroup
from kavka.simulator.rules.share_log import DEAD_LETTERS
from kavka.simulator.rules.transaction_rules import LEDGER
from kavka.zookeeper.znode_paths import CONTROLLER_PATH

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kavka.simulator.faults.fault_group import Argument, Arguments

CANCEL: Final = "cancel"
REPLACE: Final = "replace"
DEPOSE: Final = "new controller"
KINDS: Final = (
    "move",
    "elect",
    "new controller",
    "create topic",
    "delete topic",
    "add partitions",
    "configure",
    "delete records",
)
NAMES: Final = ("invoices", "shipments", "returns")
MOST_PARTITIONS: Final = 4
LEAST_REPLICAS: Final = 2
HALF_WAY: Final[Mapping[str, float]] = {"": 0.4, CANCEL: 0.3, REPLACE: 0.15, DEPOSE: 0.15}
"""What becomes of a move that is under way, and of what share of them."""
RETENTION: Final = "retention.bytes"
THIN: Final = ("min.insync.replicas", "1")
SETTINGS: Final = (
    ("min.insync.replicas", ("1", "2")),
    ("segment.bytes", ("16384", "65536")),
    (RETENTION, ("20000", "60000")),
)


class Operations(FaultGroup):
    """See the module."""

    # -- partitions

    def draw_move(self) -> Arguments | None:
        partition = self._draw_partition()
        if partition is None:
            return None
        replicas = min(len(self.world.observer.assigned[partition]), self.world.replicas)
        if partition.topic in NAMES:
            replicas = self._draw_replicas()
        to = self.random.sample(sorted(self.world.brokers), replicas)
        topic, number = partition
        then = self.random.choices(list(HALF_WAY), list(HALF_WAY.values()))[0]
        drawn: dict[str, Argument] = {"topic": topic, "partition": number, "to": to, "then": then}
        if then:
            drawn["then_ms"] = self.draw_ms(0.002, 4.0 if self.random.random() < 0.3 else 0.08)
        if then == REPLACE:
            drawn["instead"] = self.random.sample(sorted(self.world.brokers), replicas)
        return drawn

    def move(
        self, topic: str, partition: int, to: list[int], then: str = "", then_ms: int = 0, instead: Sequence[int] = ()
    ) -> bool:
        moved = TopicPartition(topic, partition)
        self._reassign(moved, to)
        if then:
            follow_up: dict[str, Callable[[], object]] = {
                CANCEL: lambda: self._reassign(moved, None),
                REPLACE: lambda: self._reassign(moved, list(instead)),
                DEPOSE: self.new_controller,
            }
            self.later(follow_up[then], then_ms, lambda: self.world.faults.is_active)
        return True

    def _reassign(self, partition: TopicPartition, to: list[int] | None) -> None:
        self.world.administer(lambda admin: admin.alter_partition_reassignments({partition: to}))

    def draw_elect(self) -> Arguments | None:
        return {}

    def elect(self) -> bool:
        partitions = list(self.world.observer.stored)
        self.world.administer(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, partitions))
        return True

    def draw_new_controller(self) -> Arguments | None:
        return {}

    def new_controller(self) -> bool:
        self.world.delete_znode(CONTROLLER_PATH)
        return True

    def _draw_partition(self) -> TopicPartition | None:
        partitions = list(self.world.observer.stored)
        return partitions[int(self.random.random() * len(partitions))] if partitions else None

    # -- topics

    def draw_create_topic(self) -> Arguments | None:
        missing = [name for name in NAMES if self.world.observer.topic_id(name) is None]
        name = self._one_name(missing)
        if name is None:
            return None
        partitions = 1 + int(self.random.random() * 2)
        return {"topic": name, "partitions": partitions, "replicas": self._draw_replicas()}

    def _draw_replicas(self) -> int:
        """Where a topic has fewer replicas than there are brokers, to move it is to copy it."""
        return min(LEAST_REPLICAS + int(self.random.random() * 2), self.world.replicas)

    def create_topic(self, topic: str, partitions: int, replicas: int) -> bool:
        new = NewTopic(topic, partitions, replicas)
        self.world.administer(lambda admin: admin.create_topics([new]))
        return True

    def draw_delete_topic(self) -> Arguments | None:
        name = self._one_name(self._existing())
        return None if name is None else {"topic": name}

    def delete_topic(self, topic: str) -> bool:
        self.world.administer(lambda admin: admin.delete_topics([topic]))
        return True

    def draw_add_partitions(self) -> Arguments | None:
        counts = self.world.observer.partition_counts
        name = self._one_name([name for name in self._existing() if counts[name] < MOST_PARTITIONS])
        return None if name is None else {"topic": name, "partitions": counts[name] + 1}

    def add_partitions(self, topic: str, partitions: int) -> bool:
        self.world.administer(lambda admin: admin.create_partitions({topic: partitions}))
        return True

    def draw_configure(self) -> Arguments | None:
        name = self._one_name(self._existing())
        if name is None:
            return None
        setting, values = SETTINGS[int(self.random.random() * len(SETTINGS))]
        return {"topic": name, "setting": setting, "value": values[int(self.random.random() * len(values))]}

    def configure(self, topic: str, setting: str, value: str) -> bool:
        if setting == RETENTION:
            self.world.observer.on_retention(topic)
        elif (setting, value) == THIN:
            self.world.observer.thin_topics[topic] = None
        resource = ConfigResource(ResourceType.TOPIC, topic)
        self.world.administer(lambda admin: admin.alter_configs({resource: [ConfigChange(setting, value)]}))
        return True

    def _existing(self) -> list[str]:
        return [name for name in NAMES if self.world.observer.topic_id(name) is not None]

    def _one_name(self, names: Sequence[str]) -> str | None:
        return names[int(self.random.random() * len(names))] if names else None

    # -- records

    def draw_delete_records(self) -> Arguments | None:
        partition = self._draw_partition()
        if partition is None or partition.topic.startswith("__") or partition.topic in (LEDGER, DEAD_LETTERS):
            return None
        return {"topic": partition.topic, "partition": partition.partition, "share": round(self.random.random(), 2)}

    def delete_records(self, topic: str, partition: int, share: float) -> bool:
        chosen = TopicPartition(topic, partition)
        before = int(share * self.world.observer.true_high_watermark.get(chosen, 0))
        if not before:
            return False
        self.world.observer.on_delete_records(chosen, before)
        self.world.administer(lambda admin: admin.delete_records({chosen: before}))
        return True
