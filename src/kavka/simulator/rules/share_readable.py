"""What members of a share group may be given: which records of the ledger are committed, aborted or of an open
transaction, and by which settings of the group brokers may go.

Decides what is true of a record, from the batches below the true high watermark, and what administrators have asked
for. Must not know spans, sessions or states.

    SH11  what a group that reads committed records may be given (`share_rules` asks)
    SH16  a broker goes by settings of the group that were asked for; left alone, by those that are stored

Source: docs/design/rules.md; KIP-932 (share.isolation.level).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kavka.records.control import ControlType, read_marker
from kavka.zookeeper.znode_paths import GROUPS_ENTITY, entity_config_path
from kavka.zookeeper.znodes import ConfigEntity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kavka.broker.share.group_settings import ShareSettings
    from kavka.model import Offset, TopicPartition
    from kavka.records.batch import RecordBatch
    from kavka.simulator.host.zookeeper import SimulatedZooKeeper

ISOLATION: Final = "share.isolation.level"
DELIVERIES: Final = "share.delivery.count.limit"
LOCK: Final = "share.record.lock.duration.ms"


class Readable:
    """The offsets of topics with transactions. Those of other topics may all be read."""

    def __init__(self) -> None:
        self._open: dict[TopicPartition, dict[int, set[Offset]]] = {}
        self._aborted: dict[TopicPartition, set[Offset]] = {}
        self._markers: dict[TopicPartition, set[Offset]] = {}

    def on_committed(self, partition: TopicPartition, batches: Iterable[RecordBatch]) -> None:
        """These batches came to lie below the true high watermark."""
        open_, aborted = self._open.setdefault(partition, {}), self._aborted.setdefault(partition, set())
        for batch in batches:
            header = batch.header
            offsets = range(header.base_offset, header.last_offset + 1)
            if not header.is_control:
                if header.is_transactional:
                    open_.setdefault(header.producer_id, set()).update(offsets)
                continue
            self._markers.setdefault(partition, set()).update(offsets)
            ended, marker = open_.pop(header.producer_id, set()), read_marker(batch)
            if marker is not None and marker.control_type is ControlType.ABORT:
                # The marker of a transaction that wrote nothing here is given out, as those of committed ones are: no
                # log knows that it had a transaction, and members take it for a gap.
                aborted.update(ended, offsets if ended else ())

    def is_open(self, partition: TopicPartition, offset: Offset) -> bool:
        """Whether it is behind the last stable offset."""
        first = min((min(offsets) for offsets in self._open.get(partition, {}).values()), default=None)
        return first is not None and offset >= first

    def is_aborted(self, partition: TopicPartition, offset: Offset) -> bool:
        """Whether it is of an aborted transaction, or the marker of one."""
        return offset in self._aborted.get(partition, ())

    def is_marker(self, partition: TopicPartition, offset: Offset) -> bool:
        """Whether there is a transaction's marker, and so no record."""
        return offset in self._markers.get(partition, ())


class Wishes:
    """What administrators have asked the group's settings to be."""

    def __init__(self, begun: Mapping[str, str]) -> None:
        """`begun`: the settings before any of them."""
        self._asked = {name: {value} for name, value in begun.items()}

    def on_asked(self, name: str, value: str) -> None:
        """From now on, or never: the request may get lost."""
        self._asked.setdefault(name, set()).add(value)

    def unasked(self, found: ShareSettings) -> str:
        """SH16: what a broker goes by that nobody has asked for, in words."""
        present = as_texts(found)
        wrong = {name: value for name, value in present.items() if value not in self._asked.get(name, ())}
        return f"goes by {wrong}, asked for were {self._asked}" if wrong else ""


def as_texts(found: ShareSettings) -> dict[str, str]:
    """The settings that change, as an administrator writes them."""
    return {
        ISOLATION: "read_committed" if found.reads_committed else "read_uncommitted",
        DELIVERIES: str(found.limits.deliveries),
        LOCK: str(found.limits.lock_ms),
    }


def stored_settings(zookeeper: SimulatedZooKeeper, group_id: str, begun: Mapping[str, str]) -> dict[str, str]:
    """What is stored of them; `begun` holds where nothing is."""
    entity = f"{GROUPS_ENTITY}/{group_id}"
    node = zookeeper.embedded.database.tree.by_path.get(entity_config_path(entity))
    told = {} if node is None else ConfigEntity.decode(entity, node.data).config
    return {name: told.get(name, value) for name, value in begun.items()}
