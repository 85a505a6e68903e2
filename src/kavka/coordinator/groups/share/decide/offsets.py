"""What an administrator does to a share group's positions: sets them anew, or has them forgotten.

Decides which partitions that concerns, and the records before and after their states are changed. Must not know the
log, the states themselves, futures, clocks.

    I1  only a group without members is changed: NON_EMPTY_GROUP
    I2  what is about to be deleted is noted first, so that a coordinator that comes after a crash does not take a state
        for one that is there
    I3  positions are set in a new epoch of the group: what a leader still decides from the old ones is fenced. Kafka
        takes the epoch that the group has; a leader that loaded the state in it goes on writing
    I4  a topic is forgotten only once it is known to be deleted; its states are deleted by who has them

Source: KIP-932; Kafka's GroupMetadataManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kavka.coordinator.groups.consumer.decide.target_assignment import Topics
from kavka.coordinator.groups.share.decide.group import NamedPartitions, ShareGroup, StatePartitions, together
from kavka.coordinator.groups.share.decide.records import epoch_record, states_record
from kavka.coordinator.shared.decide.records import CoordinatorRecord
from kavka.errors import ErrorCode, RequestError
from kavka.model import Offset

NOTHING_TO_DELETE = "There is no offset information to delete."


class AlteredPartition(NamedTuple):
    """What became of one partition's new position."""

    topic: str
    topic_id: uuid.UUID | None
    partition: int
    error: ErrorCode


class Alteration(NamedTuple):
    """`offsets` are to be set, in `epoch`; `refused` are partitions that do not exist."""

    records: Sequence[CoordinatorRecord]
    epoch: int
    offsets: Mapping[uuid.UUID, Mapping[int, Offset]]
    names: Mapping[uuid.UUID, str]
    refused: Sequence[AlteredPartition]


class DeletedTopic(NamedTuple):
    """What became of the positions in one topic; `topic_id` is None if it was not found, or has none."""

    topic: str
    topic_id: uuid.UUID | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class OffsetDeletion(NamedTuple):
    """`topics` are to be deleted; `refused` have nothing to delete."""

    records: Sequence[CoordinatorRecord]
    topics: Mapping[uuid.UUID, NamedPartitions]
    refused: Sequence[DeletedTopic]


def require_empty(group: ShareGroup) -> None:
    """Raises `RequestError` (NON_EMPTY_GROUP)."""
    if group.members:
        raise RequestError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def decide_alteration(group: ShareGroup, wanted: Mapping[str, Mapping[int, Offset]], topics: Topics) -> Alteration:
    """New positions by topic and partition. Raises `RequestError` (I1)."""
    require_empty(group)
    offsets: dict[uuid.UUID, dict[int, Offset]] = {}
    refused: list[AlteredPartition] = []
    names: dict[uuid.UUID, str] = {}
    for name, partitions in wanted.items():
        topic = topics.topic(name)
        for index, offset in partitions.items():
            if topic is None or not 0 <= index < topic.partition_count:
                topic_id = None if topic is None else topic.topic_id
                refused.append(AlteredPartition(name, topic_id, index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            else:
                names[topic.topic_id] = name
                offsets.setdefault(topic.topic_id, {})[index] = offset
    if not offsets:
        return Alteration((), group.epoch, {}, {}, refused)
    states = group.states
    named = {topic_id: NamedPartitions(names[topic_id], frozenset(found)) for topic_id, found in offsets.items()}
    noted = states._replace(
        initializing=together(states.initializing, named),
        deleting={topic_id: name for topic_id, name in states.deleting.items() if topic_id not in offsets},
    )
    epoch = group.epoch + 1
    records = [epoch_record(group.group_id, epoch, group.metadata_hash), states_record(group.group_id, noted)]
    return Alteration(records, epoch, offsets, names, refused)


def decide_offset_deletion(group: ShareGroup, names: Iterable[str], topics: Topics) -> OffsetDeletion:
    """The positions in these topics are to be forgotten. Raises `RequestError` (I1)."""
    require_empty(group)
    states = group.states
    found: dict[uuid.UUID, NamedPartitions] = {}
    refused: list[DeletedTopic] = []
    for name in dict.fromkeys(names):
        topic = topics.topic(name)
        if topic is None:
            refused.append(DeletedTopic(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        elif topic.topic_id in states.initialized:
            found[topic.topic_id] = states.initialized[topic.topic_id]
        elif topic.topic_id in states.deleting:  # Somebody began, and did not come to an end.
            found[topic.topic_id] = NamedPartitions(name, frozenset(range(topic.partition_count)))
        else:
            refused.append(DeletedTopic(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE))
    if not found:
        return OffsetDeletion((), {}, refused)
    return OffsetDeletion([_deleting(group, found)], found, refused)


def decide_state_deletion(group: ShareGroup, topics: Topics) -> OffsetDeletion:
    """All positions are to be forgotten, with the group. Raises `RequestError` (I1)."""
    require_empty(group)
    states = group.states
    found = together(states.initialized, states.initializing)
    for topic_id, name in states.deleting.items():
        topic = topics.topic(name)
        if topic is not None and topic.topic_id == topic_id:
            again = NamedPartitions(name, frozenset(range(topic.partition_count)))
            found = together(found, {topic_id: again})
    return OffsetDeletion([_deleting(group, found)] if found else (), found, ())


def _deleting(group: ShareGroup, found: Mapping[uuid.UUID, NamedPartitions]) -> CoordinatorRecord:
    """The record that notes them (I2)."""
    states = group.states
    return states_record(
        group.group_id,
        states._replace(
            initializing={key: named for key, named in states.initializing.items() if key not in found},
            initialized={key: named for key, named in states.initialized.items() if key not in found},
            deleting={**states.deleting, **{topic_id: named.name for topic_id, named in found.items()}},
        ),
    )


def deleted(group: ShareGroup, done: Iterable[uuid.UUID]) -> CoordinatorRecord:
    """The record that says that the states of these topics are gone."""
    gone = set(done)
    states = group.states
    left = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in gone}
    return states_record(group.group_id, states._replace(deleting=left))


def topics_with_states(group: ShareGroup) -> frozenset[uuid.UUID]:
    """The topics of which the group has states, is to have them, or has them deleted."""
    states = group.states
    return frozenset((*states.initializing, *states.initialized, *states.deleting))


def forgotten(group: ShareGroup, gone: Collection[uuid.UUID]) -> list[CoordinatorRecord]:
    """The record that forgets topics that are deleted (I4); none if it knows none of them."""
    if topics_with_states(group).isdisjoint(gone):
        return []
    states = group.states
    left = StatePartitions(
        {topic_id: named for topic_id, named in states.initializing.items() if topic_id not in gone},
        {topic_id: named for topic_id, named in states.initialized.items() if topic_id not in gone},
        {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in gone},
    )
    return [states_record(group.group_id, left)]
