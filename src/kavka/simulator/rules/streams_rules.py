"""Rules of streams groups, watched on the wire, in the log of `__consumer_offsets`, and in what members run.

Decides whether tasks were given, taken back and given again as they may be. The truth is what is committed in the log:
it is replayed here as high watermarks rise, by code that is not the coordinator's.

    ST1  a task is active at one member: in the log, and among what members run that the group still knows
    ST2  epochs of the group, its assignment and its members do not fall; a request of another epoch changes nothing
    ST3  a member loses a task only when it has said that it does not run it, or when it is out of the group
    ST4  what a member is told is committed, in the epoch that it is told
    ST5  no process has a task twice: a standby task is never where the active one is
    ST6  who is no member, or has not been given a task by its epoch, commits no offset of it
    ST7  left alone, every member has what the assignment gives it, every task runs, and there are as many standby
         tasks as the processes allow
    ST8  what a coordinator remembers is what its log says

Where records of the group's partition may have been lost, nothing is checked (KIP-966).

Source: docs/design/rules.md; KIP-1071, KIP-1251.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from kavka.coordinator.groups.streams.decide import records
from kavka.coordinator.groups.streams.decide.group import StreamsMember
from kavka.coordinator.groups.streams.decide.records import decode_streams_group_record, ids_of
from kavka.coordinator.groups.streams.decide.tasks import NOTHING, Task, Tasks, tasks_in
from kavka.coordinator.shared.decide.records import split_version
from kavka.errors import ErrorCode, RequestError
from kavka.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kavka.records.batch import RecordBatch
    from kavka.simulator.host.broker import SimulatedBroker
    from kavka.simulator.host.wire import Exchange
    from kavka.simulator.rules.group_rules import GroupRules
    from kavka.simulator.rules.replica_view import View

STANDBYS: Final = "num.standby.replicas"


class _Asked(NamedTuple):
    """What was true when a request came: the states that its member had had, and whether it was a member."""

    states: int
    member: StreamsMember | None


@dataclass
class Kept:
    """The group as its log says it is."""

    epoch: int = 0
    assignment_epoch: int = 0
    standbys: int = 0
    members: dict[str, StreamsMember] = field(default_factory=dict)
    target: dict[str, Tasks] = field(default_factory=dict)


class StreamsRules:
    """What is known of one streams group. A `Watcher` of the wire; nothing is looked at before `begin`."""

    def __init__(self, view: View, groups: GroupRules) -> None:
        self._view = view
        self._groups = groups
        self._group_id: str | None = None
        self._parts: Mapping[str, str] = {}
        self.kept = Kept()
        self._states: dict[str, list[StreamsMember]] = {}
        """Every state of each member, in the order of the log, also of those that are gone."""
        self._owned: dict[str, frozenset[tuple[int, Task]]] = {}
        """What each member said last that it runs."""
        self._asked: dict[Exchange, _Asked] = {}
        self.moves: Counter[str] = Counter()

    def begin(self, group_id: str, parts: Mapping[str, str]) -> None:
        """There is this group from now on. `parts`: which part of it reads each topic."""
        self._group_id, self._parts = group_id, parts

    def _require(self, rule: str, holds: bool, text: str) -> None:
        if not holds and self._group_id is not None and not self._groups.is_excused(self._group_id):
            self._view.require(rule, holds, f"{self._group_id}: {text}")

    # -- the log

    def on_committed(self, batches: Iterable[RecordBatch]) -> None:
        """These batches of one of the partitions of `__consumer_offsets` came to lie below the true high watermark."""
        if self._group_id is None:
            return
        for batch in batches:
            if not batch.header.is_control and not batch.header.is_transactional and self._take(batch):
                self._check_tasks()

    def _take(self, batch: RecordBatch) -> bool:
        """Whether it has records of the group."""
        is_ours = False
        for record in batch.records():
            if record.key is None:
                continue
            key_version, key = split_version(bytes(record.key))
            value = None if record.value is None else split_version(bytes(record.value))
            found = decode_streams_group_record(key_version, key, value)
            if found is not None and found.group_id == self._group_id:
                is_ours = True
                self._on_record(found.change)
        return is_ours

    def _on_record(self, change: records.Change) -> None:
        kept = self.kept
        match change:
            case records.GroupChange(None):
                self.kept = Kept()
                self.moves["group deleted"] += 1
            case records.GroupChange(records.Epoch() as told):
                self._require("ST2", told.epoch >= kept.epoch, f"group epoch {told.epoch} after {kept.epoch}")
                kept.epoch, kept.standbys = told.epoch, int(told.configs.get(STANDBYS, "0"))
            case records.TargetChange(records.Target() as target):
                text = f"assignment epoch {target.epoch} after {kept.assignment_epoch}, of group epoch {kept.epoch}"
                self._require("ST2", kept.assignment_epoch <= target.epoch <= kept.epoch, text)
                kept.assignment_epoch = target.epoch
            case records.TargetMemberChange(member_id, None):
                kept.target.pop(member_id, None)
            case records.TargetMemberChange(member_id, Tasks() as tasks):
                kept.target[member_id] = tasks
            case records.MemberChange(member_id, None):
                kept.members.pop(member_id, None)
                self.moves["member gone"] += 1
            case records.MemberChange(member_id, StreamsMember() as said):
                known = kept.members.get(member_id)
                kept.members[member_id] = said if known is None else _with_progress(said, known)
            case records.CurrentChange(member_id, StreamsMember() as progress):
                self._on_progress(member_id, progress)
            case _:
                pass

    def _on_progress(self, member_id: str, progress: StreamsMember) -> None:
        known = self.kept.members.get(member_id, StreamsMember(member_id))
        text = f"{member_id} is in epoch {progress.epoch} after {known.epoch}, the group in {self.kept.epoch}"
        self._require("ST2", known.epoch <= progress.epoch <= self.kept.epoch, text)
        lost = _by_kind(known) - _by_kind(progress)
        owned = self._owned.get(member_id, frozenset())
        text = f"{member_id} lost {sorted(lost)}, and said last that it runs {sorted(owned)}"
        self._require("ST3", not lost & owned, text)
        before, after = set(_active(known)), set(_active(progress))
        if before - after:
            self.moves["task given back"] += 1
        if after - before and self.kept.assignment_epoch > 2:
            self.moves["task given later"] += 1
        if progress.assigned.standby:
            self.moves["standby given"] += 1
        member = self.kept.members[member_id] = _with_progress(known, progress)
        self._states.setdefault(member_id, []).append(member)
        self._view.note(f"streams {member_id} {member.epoch} {member.state.value}")

    def _check_tasks(self) -> None:
        """After a batch: what one decision wrote is in one."""
        active = Counter(task for member in self.kept.members.values() for task in _active(member))
        twice = sorted(task for task, count in active.items() if count > 1)
        if twice:
            self._require("ST1", holds=False, text=f"{twice} are active twice: {self.kept.members}")
        held = Counter((member.process_id, task) for member in self.kept.members.values() for task in _held(member))
        double = sorted(each for each, count in held.items() if count > 1)
        if double:
            self._require("ST5", holds=False, text=f"a process has a task twice: {double}")

    def check_running(self, running: Mapping[str, Tasks]) -> None:
        """ST1, of what members run. Who is out of the group and does not know it yet is no member any more."""
        known = {name: tasks for name, tasks in running.items() if name in self.kept.members}
        active = Counter(task for tasks in known.values() for task in tasks_in(tasks.active))
        twice = sorted(task for task, count in active.items() if count > 1)
        if twice:
            self._require("ST1", holds=False, text=f"two members run {twice}: {known}")

    def on_told(self, member_id: str, epoch: int, told: int) -> None:
        """ST2, of what a member knows."""
        self._require("ST2", told >= epoch, f"{member_id} was told epoch {told} after {epoch}")

    # -- the wire

    def on_request(self, exchange: Exchange) -> None:
        request = exchange.request
        if self._group_id is None or exchange.key not in (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT):
            return
        if request.group_id != self._group_id:
            return
        member_id = request.member_id
        states = len(self._states.get(member_id, ()))
        self._asked[exchange] = _Asked(states, self.kept.members.get(member_id))
        if exchange.key is ApiKey.STREAMS_GROUP_HEARTBEAT and request.active_tasks is not None:
            kinds = (request.active_tasks, request.standby_tasks or ())
            self._owned[member_id] = frozenset(
                (kind, task) for kind, parts in enumerate(kinds) for task in tasks_in(ids_of(parts))
            )

    def on_answer(self, exchange: Exchange) -> None:
        asked = self._asked.pop(exchange, None)
        if asked is None:
            return
        if exchange.key is ApiKey.OFFSET_COMMIT:
            self._on_commit(exchange, asked)
        elif exchange.answer.error_code == ErrorCode.NONE:
            self._on_heartbeat(exchange, asked)
        else:
            self.moves[ErrorCode(exchange.answer.error_code).name] += 1

    def _on_heartbeat(self, exchange: Exchange, asked: _Asked) -> None:
        request, answer = exchange.request, exchange.answer
        name = request.member_id
        if request.member_epoch < 0:
            self._require("ST4", name not in self.kept.members, f"{name} was told that it is out, and it is a member")
            return
        states = self._states.get(name, [])
        epochs = {state.epoch for state in states[max(asked.states - 1, 0) :]}
        epochs |= {state.previous_epoch for state in states[max(asked.states - 1, 0) :]}
        text = f"{name} came with epoch {request.member_epoch}, and was or had been in {sorted(epochs)}"
        self._require("ST2", request.member_epoch == 0 or request.member_epoch in epochs, text)
        told = None
        if answer.active_tasks is not None:
            told = Tasks(ids_of(answer.active_tasks), ids_of(answer.standby_tasks or ()))
        is_there = any(
            state.epoch == answer.member_epoch and (told is None or state.assigned == told) for state in states
        )
        if not is_there:
            text = f"{name} was told epoch {answer.member_epoch} and {told}, committed is {states[-3:]}"
            self._require("ST4", holds=False, text=text)

    def _on_commit(self, exchange: Exchange, asked: _Asked) -> None:
        request = exchange.request
        name, epoch = request.member_id, request.generation_id_or_member_epoch
        states = self._states.get(name, [])[max(asked.states - 1, 0) :]
        was_member = asked.member is not None or name in self.kept.members
        for topic in exchange.answer.topics:
            for each in topic.partitions:
                if each.error_code != ErrorCode.NONE:
                    continue
                task = Task(self._parts.get(topic.name, ""), each.partition_index)
                may = any(
                    state.epoch == epoch or state.assignment_epochs.get(task, epoch + 1) <= epoch for state in states
                )
                if not (was_member and may):
                    text = (
                        f"{name} committed {topic.name}-{each.partition_index} in epoch {epoch}, it was {states[-3:]}"
                    )
                    self._require("ST6", holds=False, text=text)
                self.moves["committed"] += 1

    # -- at the end

    def missing(self, running: Mapping[str, Tasks], counts: Mapping[str, int]) -> list[str]:
        """ST7: what keeps the group from being at rest, in words. `counts`: how many tasks each part has."""
        if self._group_id is None or not running or self._groups.is_excused(self._group_id):
            return []
        kept = self.kept
        if kept.members.keys() != running.keys():
            return [f"{self._group_id}: members {sorted(kept.members)}, alive {sorted(running)}"]
        unlike = [
            f"{self._group_id}: {name} runs {running[name]}, the log has {member}, its target {kept.target.get(name)}"
            for name, member in kept.members.items()
            if not member.is_reconciled_to(kept.epoch)
            or kept.assignment_epoch != kept.epoch
            or not running[name] == member.assigned == kept.target.get(name, NOTHING)
        ]
        active = {task for tasks in running.values() for task in tasks_in(tasks.active)}
        wanted = {Task(part, number) for part, count in counts.items() for number in range(count)}
        if active != wanted:
            unlike.append(f"{self._group_id}: {sorted(active)} are active of {sorted(wanted)}")
        return unlike

    def check_standbys(self, stateful: Mapping[str, int]) -> None:
        """ST7: each task that keeps a state has its copies. `stateful`: how many tasks such parts have."""
        processes = {member.process_id for member in self.kept.members.values()}
        if not processes:
            return
        wanted = min(self.kept.standbys, len(processes) - 1)
        copies = Counter(task for member in self.kept.members.values() for task in tasks_in(member.assigned.standby))
        for part, count in stateful.items():
            for number in range(count):
                found = copies[Task(part, number)]
                text = f"{part}-{number} has {found} standby tasks of {wanted} in {len(processes)} processes"
                self._require("ST7", found == wanted, text)

    def check_states(self, brokers: Iterable[SimulatedBroker]) -> None:
        """ST8. All is quiet."""
        if self._group_id is None:
            return
        for broker in brokers:
            if broker.broker is None or not self._groups.leads(broker, self._group_id):
                continue
            try:
                group = broker.broker.groups.describe_streams_group(self._group_id)
            except RequestError:
                continue
            found = None if group is None else (group.epoch, group.assignment_epoch, group.members, group.target)
            kept = self.kept
            wanted = (kept.epoch, kept.assignment_epoch, kept.members, kept.target) if kept.members else None
            text = f"{broker.node} has {found}, the log {wanted}"
            self._require("ST8", wanted is None or found == wanted, text)


def _with_progress(said: StreamsMember, progress: StreamsMember) -> StreamsMember:
    return replace(
        said,
        epoch=progress.epoch,
        previous_epoch=progress.previous_epoch,
        state=progress.state,
        assigned=progress.assigned,
        revoking=progress.revoking,
        assignment_epochs=progress.assignment_epochs,
    )


def _active(member: StreamsMember) -> Iterator[Task]:
    yield from tasks_in(member.assigned.active)
    yield from tasks_in(member.revoking.active)


def _by_kind(member: StreamsMember) -> frozenset[tuple[int, Task]]:
    """What it has or must give back still, each with its kind."""
    return frozenset(
        (kind, task)
        for part in (member.assigned, member.revoking)
        for kind, ids in enumerate(part)
        for task in tasks_in(ids)
    )


def _held(member: StreamsMember) -> Iterator[Task]:
    for part in (member.assigned, member.revoking):
        for ids in part:
            yield from tasks_in(ids)
