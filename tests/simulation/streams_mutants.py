"""Bugs of streams groups, put back one by one: what the rules of streams groups find, and how soon.

    python -m tests.simulation.streams_mutants [NAME ...]

As `share_mutants`: the stories of streams groups undisturbed, with a fault at steps of theirs, then seeds of the swarm.
"""

from __future__ import annotations

import sys
from typing import Final

from tests.simulation.share_mutants import Shared, bug, main

DECIDE: Final = "kavka.coordinator.groups.streams.decide"
STEP: Final = f"{DECIDE}.current_assignment:_step"
GROUP: Final = f"{DECIDE}.group:StreamsGroup"
HEARTBEAT: Final = f"{DECIDE}.heartbeat"
FLOW: Final = "kavka.coordinator.groups.streams.flow"
"""Functions are named where they are called by their name: put back elsewhere, nobody would call them."""
STORY: Final = "streams group"
COORDINATOR: Final = "a streams group's coordinator"


def _bug(
    name: str, why: str, rules: str, *changes: tuple[str, str, str], is_shown: bool = True, story: str = STORY
) -> Shared:
    return bug(name, why, rules, *changes, is_shown=is_shown, story=story)._replace(world="streaming")


STREAMS: Final = (
    _bug(
        "a task is given while another has it",
        "two instances process the same records, and write to one state",
        "ST1",
        (STEP, "return owners.active_process(task) is None and not owners.copies_at(task, mine)", "return True"),
    ),
    _bug(
        "what is revoked is not waited for",
        "a task is another's while its former owner still runs it",
        "ST1 ST3",
        (STEP, "if not revokes.is_empty and (owned is None or owned.has_any(revokes)):", "if False:"),
    ),
    _bug(
        "who still runs a task has given it back",
        "a member that takes its time to close a state loses it meanwhile",
        "ST1 ST3",
        (f"{HEARTBEAT}:reconcile", "if owned is None or owned.has_any(member.revoking):", "if False:"),
        is_shown=False,
    ),
    _bug(
        "a standby is beside its active task",
        "two copies of a state in one directory",
        "ST5",
        (STEP, "return owners.active_process(task) != mine and not owners.copies_at(task, mine)", "return True"),
        is_shown=False,
    ),
    _bug(
        "any epoch will do",
        "a member that slept through an assignment goes on as if nothing had been",
        "ST2",
        (f"{HEARTBEAT}:_check_epoch", "if received == member.epoch:", "if True:"),
        is_shown=False,
    ),
    _bug(
        "told before it is committed",
        "the next coordinator does not know what a member was given",
        "ST4",
        (
            "kavka.coordinator.groups.streams.flow:StreamsGroupFlow._in_turn",
            "return lambda: self._begin(active, group_id, change), answer",
            "self._carrier.spawn(self._begin(active, group_id, change))\n            return None, answer",
        ),
    ),
    _bug(
        "a member is told its target",
        "it runs what others have not given back",
        "ST4 ST1",
        (f"{FLOW}:decide_heartbeat", "after.assigned if is_told else None", "target if is_told else None"),
        is_shown=False,
    ),
    _bug(
        "who leaves takes its tasks along",
        "the group's epoch does not rise, and nobody gets them",
        "R20",
        (f"{FLOW}:decide_leave", "Epoch(group.epoch + 1,", "Epoch(group.epoch,"),
        is_shown=False,
    ),
    _bug(
        "a former epoch may commit",
        "an offset of a task is moved by who had it before",
        "ST6",
        (f"{GROUP}.check_commit", "if member_epoch == member.epoch:", "if member_epoch <= member.epoch:"),
    ),
    _bug(
        "what must be given back is not remembered",
        "as soon as it is asked for a task is free",
        "ST1 ST3",
        (f"{DECIDE}.records:_progress", "revoking=_tasks(*revoking)", "revoking=NOTHING"),
    ),
    _bug(
        "sessions never end",
        "the tasks of who was killed stay its own",
        "R20",
        (f"{GROUP}.overdue", "return {member_id: why for member_id, why in late.items() if why}", "return {}"),
        is_shown=False,
    ),
    _bug(
        "standby tasks are left out",
        "a state must be copied whole when its instance dies",
        "ST7",
        (f"{HEARTBEAT}:assign", "standby_replicas=limits.standby_replicas", "standby_replicas=0"),
    ),
    _bug(
        "nobody is told twice",
        "a member that missed its answer never learns its tasks",
        "R20",
        (
            f"{FLOW}:decide_heartbeat",
            "is_told = is_changed or request.member_epoch != before.epoch or after.member_id in group.untold",
            "is_told = is_changed",
        ),
        is_shown=False,
        story=COORDINATOR,
    ),
    _bug(
        "a loaded group watches nobody",
        "who is killed together with the coordinator stays a member",
        "R20",
        (f"{GROUP}.watch_all", "for member_id in self.members:", "for member_id in ():"),
        is_shown=False,
        story=COORDINATOR,
    ),
)


if __name__ == "__main__":
    sys.exit(main(bugs=STREAMS))
