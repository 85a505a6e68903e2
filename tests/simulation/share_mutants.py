"""Bugs of share groups, put back one by one: what the rules of share groups find, and how soon.

    python -m tests.simulation.share_mutants [NAME ...]

Some are Kafka's own, of which each says the issue. `hunt` plays the stories of share groups undisturbed, then with a
fault at steps that are spread evenly over them, then seeds of the swarm. A line says what found each, by which rule,
and after how many runs; the exit status is 1 if one lives.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from kavka.simulator.runs.explore import Scope, run
from kavka.simulator.runs.shrink import be_quiet
from kavka.simulator.runs.stories import STORIES
from kavka.simulator.runs.swarm import SeedResult, run_seed
from tests.simulation.mutation import Change, Mutant, chosen, put_back

PARTITION: Final = "kavka.share.decide.share_partition"
LEADERS: Final = "kavka.broker.share.led_share_partitions:ShareLeaders"
SHARD: Final = "kavka.coordinator.share_state.decide.shard:ShareStateShard"
WRITER: Final = "kavka.broker.share.dead_letters:DeadLetterWriter"
SESSIONS: Final = "kavka.broker.share.sessions:ShareSessions"
STORY: Final = "share group"
ADMINISTRATOR: Final = "a share group's administrator"
FLOW: Final = "kavka.coordinator.groups.share.flow:ShareGroupFlow"
CONFIGURED: Final = "a share group's settings"
DELETED: Final = "kavka.broker.share.deleted_topics:DeletedTopics"
GOING: Final = "a topic of a share group is deleted"
LEFT: Final = "what transactions left for a share group"
MISSED: Final = "a topic of a share group is deleted while two brokers are away"
FETCHES: Final = "kavka.broker.share.fetches"
ASLEEP: Final = "a share group's leader asleep"
DOZING: Final = "a share group's member asleep"
POINTS: Final = 12
SEEDS: Final = 12
HOURS: Final = 0.012


class Shared(NamedTuple):
    """`rules` are those that may find it. `is_shown`: the story shows it without a fault, in a second."""

    mutant: Mutant
    rules: tuple[str, ...]
    is_shown: bool = True
    story: str = STORY
    world: str = "sharing"


def bug(
    name: str, why: str, rules: str, *changes: tuple[str, str, str], is_shown: bool = True, story: str = STORY
) -> Shared:
    """Changes are a function, what is in it, and what stands there instead."""
    mutant = Mutant(name, why, tuple(Change(*each) for each in changes))
    return Shared(mutant, tuple(rules.split()), is_shown, story)


SHARED: Final = (
    bug(
        "what is being written is given out",
        "KAFKA-18084: a record whose release is being written was acquired again, and its lock leaked",
        "SH1 SH2 SH5 SH7 SH9",
        (
            "kavka.share.decide.spans:Span.is_free",
            "self.state is RecordState.AVAILABLE and self.becomes is None",
            "self.will_be is RecordState.AVAILABLE",
        ),
    ),
    bug(
        "the limit of deliveries is not looked at",
        "KAFKA-19476: after a write that failed a record went on beyond its limit",
        "SH5",
        (
            f"{PARTITION}:_leaving",
            "case AcknowledgeType.RELEASE if span.deliveries < limits.deliveries:",
            "case AcknowledgeType.RELEASE:",
        ),
    ),
    bug(
        "a lock is stored",
        "a state has records in a state that only a leader knows",
        "SH9",
        (
            f"{PARTITION}:SharePartition.take_write",
            "span.becomes, span.deliveries)",
            "RecordState.ACQUIRED if span.becomes is RecordState.AVAILABLE else span.becomes, span.deliveries)",
        ),
    ),
    bug(
        "an unknown write counts as made",
        "the start passed records that no state has as done",
        "SH9",
        (
            f"{LEADERS}._write",
            "self._tell(led, write.last_change, ErrorCode.COORDINATOR_NOT_AVAILABLE)",
            "error = ErrorCode.NONE\n        break",
        ),
        is_shown=False,
    ),
    bug(
        "an unknown write is undone",
        "as Apache Kafka: a record is given out again though its state may have it as done",
        "SH2 SH4 SH9",
        (f"{LEADERS}._write", "if error not in _UNKNOWN:", "if True:"),
        is_shown=False,
    ),
    bug(
        "a session outlives its connection",
        "what a dead member holds waits for its locks",
        "SH6",
        ("kavka.broker.api.share.share_fetch:_session", "request.context.hold(session)", "pass"),
    ),
    bug(
        "a lock is over at half time",
        "two members work on one record",
        "SH6",
        (f"{PARTITION}:_Taking.__init__", "limits.lock_ms)", "limits.lock_ms // 2)"),
    ),
    bug(
        "deliveries are forgotten with a release",
        "a poisonous record is given out for ever",
        "SH9 SH5",
        (f"{PARTITION}:SharePartition.settle", "span.becomes, span.deliveries,", "span.becomes, 0,"),
    ),
    bug(
        "the own epoch is fenced",
        "who has read the state may not write it",
        "R20 SH13",
        (f"{SHARD}._checked", "state.leader_epoch > leader_epoch", "state.leader_epoch >= leader_epoch"),
        is_shown=False,
    ),
    bug(
        "former leaders are not fenced",
        "two leaders write, and the later one's state is lost",
        "SH9 SH2 SH4",
        (f"{SHARD}._checked", "if leader_epoch != NO_EPOCH and state.leader_epoch > leader_epoch:", "if False:"),
        story=ASLEEP,
    ),
    bug(
        "any epoch of a session will do",
        "a request that was sent twice counts twice",
        "SH8",
        (f"{SESSIONS}.known", "if epoch not in (FINAL_EPOCH, session.epoch):", "if False:"),
    ),
    bug(
        "anybody may acknowledge",
        "a record is done that its holder is still working on",
        "SH7",
        (f"{PARTITION}:SharePartition._check_held", "if span.member != member:", "if False:"),
        is_shown=False,
        story=LEFT,
    ),
    bug(
        "done is done again",
        "a record that was given back is accepted by who had it before",
        "SH7 SH2",
        (f"{PARTITION}:SharePartition._check_held", "if not span.is_held:", "if False:"),
        (f"{PARTITION}:SharePartition._check_held", "if span.member != member:", "if False:"),
        is_shown=False,
    ),
    bug(
        "locks are never over",
        "a member that hangs keeps its records for ever",
        "SH6 R20",
        (f"{LEADERS}._on_locks_over", "self._expire(led, self.now_ms())", "pass"),
    ),
    bug(
        "a new leader forgets what is done",
        "the state is read, and only its start is taken",
        "SH2 SH14",
        (f"{LEADERS}._load", "SharePartition(begin, kept)", "SharePartition(begin)"),
        is_shown=False,
    ),
    bug(
        "told before it is stored",
        "an acknowledgement is answered while its write is under way",
        "SH3",
        (
            f"{LEADERS}.acknowledge",
            "return self._wait_for(led, change) if change else None",
            "self._write_soon(led)\n    return None",
        ),
    ),
    bug(
        "a snapshot of what was",
        "the write that comes with a snapshot is in no record",
        "SH9 SH10 SH3",
        (f"{SHARD}._change", "_again(_merged(state, update), wall_ms)", "_again(state, wall_ms)"),
    ),
    bug(
        "too much of the log is cut",
        "a state's own snapshot is removed, and its next leader finds nothing",
        "SH10 SH2 SH4 R20",
        (
            "kavka.coordinator.share_state.decide.pruning:Pruning.bound",
            "min([high_watermark, *begins,",
            "min([high_watermark,",
        ),
    ),
    bug(
        "what is given up has no dead letter",
        "nobody can find what a member rejected",
        "SH14",
        (f"{PARTITION}:_leaving", "becomes = limits.given_up", "becomes = RecordState.ARCHIVED"),
    ),
    bug(
        "a dead letter counts before its replicas have it",
        "its leader dies, and it is gone, but its record is archived",
        "SH14",
        (f"{WRITER}._append_here", "if not self._replicas.is_committed(topic, index, outcome):", "if False:"),
        (f"{WRITER}._produce", "acks=ACKS_ALL", "acks=1"),
    ),
    bug(
        "a new leader takes what waits for its dead letter as archived",
        "the dead letters that are due when a leader dies are never written",
        "SH14",
        (
            f"{PARTITION}:SharePartition.__init__",
            "RecordState(batch.state)",
            "RecordState(4 if batch.state == 3 else batch.state)",
        ),
        is_shown=False,
    ),
    bug(
        "a new leader gives out what waits for its dead letter",
        "a record that was rejected is delivered again",
        "SH14",
        (
            f"{PARTITION}:SharePartition.__init__",
            "RecordState(batch.state)",
            "RecordState(0 if batch.state == 3 else batch.state)",
        ),
        is_shown=False,
    ),
    bug(
        "a new session leaves the locks of the one before",
        "what a member held before its connection broke waits for its locks",
        "SH6",
        (f"{SESSIONS}.end", "self._release(session.group_id, session.member_id)", "pass"),
    ),
    bug(
        "who comes back finds the share-partition of before",
        "positions that were set anew meanwhile count for nothing until a write is fenced",
        "SH4",
        (f"{LEADERS}.forget", "led.is_unused = True", "pass"),
        # Each session looks at the epochs of the state too: the bug is there only without both.
        (f"{LEADERS}.find", "and known.as_of >= since", ""),
        story=ADMINISTRATOR,
    ),
    bug(
        "who joins a group anew finds what its leader knew before",
        "as Apache Kafka: while a session lives that has no member, positions that were set anew count for nothing",
        "SH4",
        (f"{LEADERS}.find", "and known.as_of >= since", ""),
        story=DOZING,
    ),
    bug(
        "a group is deleted without its states",
        "the group that is made under its name is fenced for good",
        "SH13 SH15 R20",
        (f"{FLOW}.delete", "await self._delete_states(active, group_id, decision)", "{}"),
        story=ADMINISTRATOR,
    ),
    bug(
        "a position that was set is not stored",
        "the group begins where its settings say, and not where its administrator was told that it does",
        "SH4",
        (
            "kavka.broker.share.persister:SharePersister.begin",
            "start_offset=start_offset",
            "start_offset=UNKNOWN_START",
        ),
        story=ADMINISTRATOR,
    ),
    bug(
        "what is open may be read",
        "a group that reads committed records is given those of an open transaction, which is aborted then",
        "SH11",
        (
            f"{FETCHES}:ShareFetches._read",
            "log.last_stable_offset if settings.reads_committed else log.high_watermark",
            "log.high_watermark",
        ),
        (f"{FETCHES}:ShareFetches._read", "read_committed=settings.reads_committed", "read_committed=False"),
        story=CONFIGURED,
    ),
    bug(
        "what is aborted is given out",
        "a group that reads committed records is given those of an aborted transaction",
        "SH11",
        (f"{FETCHES}:_read_batches", "is_aborted = True", "is_aborted = False"),
        story=CONFIGURED,
    ),
    bug(
        "what follows an aborted transaction goes with it",
        "the next transaction of the same producer is passed over, though it is committed",
        "SH3 SH4",
        (f"{FETCHES}:_read_batches", "open_aborted.discard(header.producer_id)", "pass"),
        story=LEFT,
    ),
    bug(
        "states of deleted topics stay",
        "they fill the log, and nobody can have them deleted but with their group",
        "R20",
        (f"{DELETED}.on_deleted", "await states.on_topics_deleted(topic_ids)", "pass"),
        story=GOING,
    ),
    bug(
        "a group keeps what it knows of deleted topics",
        "each heartbeat and each record of the group carries topics that are gone",
        "R20",
        (f"{DELETED}.on_deleted", "await groups.shares.on_topics_deleted(groups.shards(), topic_ids)", "pass"),
        story=GOING,
    ),
    bug(
        "a deletion that was missed is never found",
        "as Apache Kafka: who could not write when he heard of it keeps the states for good",
        "R20",
        (f"{DELETED}.look", "gone = suspects - await self._in_zookeeper()", "gone = set()"),
        story=MISSED,
    ),
    bug(
        "with a deleted topic all states go",
        "groups begin anew in topics that nobody deleted",
        "SH17",
        (
            "kavka.coordinator.share_state.coordinator:ShareCoordinator.on_topics_deleted",
            "if key.topic_id in topic_ids",
            "",
        ),
        story=GOING,
    ),
    bug(
        "a group's settings are read once",
        "a broker that has served a group does not hear of its changes",
        "SH5 SH6 SH11 SH16",
        (
            f"{LEADERS}.settings",
            "return self._ports.settings(group_id)",
            "return self.__dict__.setdefault('_kept', {}).setdefault(group_id, self._ports.settings(group_id))",
        ),
        story=CONFIGURED,
    ),
)


def runs(shared: Shared, points: int, seeds: int) -> Iterator[tuple[str, str, str]]:
    """What was played, which rule it broke ("" for none), and how."""
    story = STORIES[shared.story]
    calm = run(story)
    yield shared.story, calm.rule, calm.violation
    if not calm.violation:
        scope = Scope(shared.story, "crash", calm)
        for _, point in islice(scope.points(), points):
            found = run(story, point)
            yield point.command, found.rule, found.violation
    for seed in range(1, seeds + 1):
        result: SeedResult = run_seed(seed, hours=HOURS, **{shared.world: True})  # type: ignore[arg-type]
        yield f"seed {seed}", result.rule, result.violation


def hunt(shared: Shared, points: int = POINTS, seeds: int = SEEDS) -> tuple[int, str, str]:
    """After how many runs the bug was found, by which rule, and how. The rule is "" if it lives."""
    tried = 0
    with put_back(shared.mutant):
        for tried, (played, rule, violation) in enumerate(runs(shared, points, seeds), 1):
            if rule:
                return tried, rule, f"{played}: {violation}"
    return tried, "", ""


def main(argv: Sequence[str] | None = None, bugs: Sequence[Shared] = SHARED) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="beginnings of names; default: all")
    names = chosen(parser, [each.mutant.name for each in bugs], parser.parse_args(argv).names)
    be_quiet()
    alive = 0
    for shared in bugs:
        if shared.mutant.name not in names:
            continue
        began_s = time.process_time()
        tried, rule, how = hunt(shared)
        is_right = rule in shared.rules
        alive += not is_right
        told = (
            f"run {tried}, {rule}{'' if is_right else ', which is another rule'}\n      {how[:300]}"
            if rule
            else "LIVES"
        )
        print(f"{time.process_time() - began_s:6.1f} s CPU  {shared.mutant.name}: {told}", flush=True)
    print(f"{alive} of {len(names)} bugs live")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
