"""Bugs put back, one by one, to see that the simulator finds them.

A mutant is a change of a function's source, made while a test runs and undone after it: production code has no switch.
What a mutant replaces must be there, so that code that moves on takes its mutants along. `killers` are the scenarios
that must find it (one is enough); where there are none, `seeds` of the swarm must.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from kavka.simulator.scenarios import SCENARIOS


@dataclass(frozen=True, slots=True)
class Change:
    """`target` is module:Class.function or module:function; `old` in its source becomes `new`."""

    target: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """`bug` says what is wrong with it, and whose bug it was."""

    name: str
    bug: str
    changes: tuple[Change, ...]
    killers: tuple[str, ...] = ()
    seeds: int = 0
    hours: float = 0.05

    def scenarios(self) -> list[str]:
        """Full names: `killers` has their beginnings."""
        names = [name for killer in self.killers for name in SCENARIOS if name.startswith(killer)]
        assert names or not self.killers, f"{self.name}: no scenario is named like {self.killers}"
        return names


@contextmanager
def put_back(mutant: Mutant) -> Iterator[None]:
    """The bug is in the code while this lasts."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for target in dict.fromkeys(change.target for change in mutant.changes):
            changes = [change for change in mutant.changes if change.target == target]
            undo.append(_apply(target, changes))
        yield
    finally:
        for owner, name, before in reversed(undo):
            setattr(owner, name, before)


def _apply(target: str, changes: Sequence[Change]) -> tuple[Any, str, Any]:
    module_name, _, path = target.partition(":")
    owner: Any = importlib.import_module(module_name)
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    before = inspect.getattr_static(owner, name)
    function = before.fget if isinstance(before, property) else before
    assert isinstance(function, FunctionType), target
    source = textwrap.dedent(inspect.getsource(function))
    for change in changes:
        assert change.old in source, f"{target} has no {change.old!r} any more"
        source = source.replace(change.old, change.new)
    space: dict[str, Any] = {}
    future = __future__.annotations.compiler_flag
    code = compile(source, inspect.getfile(function), "exec", flags=future)
    exec(code, dict(function.__globals__), space)
    after = space[name]
    mutated = FunctionType(after.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    mutated.__kwdefaults__ = function.__kwdefaults__
    setattr(owner, name, property(mutated) if isinstance(before, property) else mutated)
    return owner, name, before


CONTROLLER = "kavka.controller"
REPLICA = "kavka.replication.replica:RemoteReplica"
PARTITION = "kavka.replication.partition:Partition"
FETCH_STATE = "kavka.replication.fetch_state:FetchState"
FOLLOWED = "kavka.replication.followed_partitions:FollowedPartitions"
STATE_CHANGES = "kavka.broker.state_changes:StateChanges"

NO_FENCE = Change(
    f"{PARTITION}.follower", "if current_leader_epoch >= 0 and current_leader_epoch != known:", "if False:"
)
NO_DIVERGENCE = Change(f"{PARTITION}.diverging_epoch", "if last_fetched_epoch < 0:", "if True:")
ONCE_ONLY = Change(f"{FETCH_STATE}.on_records", "self.last_fetched_epoch = last_epoch", "self.last_fetched_epoch = -1")

MUTANTS = [
    # The four TLA+ variants that are not safe.
    Mutant(
        "truncate to high watermark",
        "KafkaTruncateToHighWatermark.tla, KAFKA-1211: a new follower cuts its log at its own high watermark",
        (Change(f"{FETCH_STATE}.begin", "if log.latest_epoch >= 0:", "if False:"),),
        ("S1:",),
    ),
    Mutant(
        "KIP-101 only",
        "Kip101.tla, KAFKA-6361: an answer tells where an epoch ends, but not which epoch that is",
        (
            Change(f"{PARTITION}.diverging_epoch", "end.leader_epoch < last_fetched_epoch or ", ""),
            Change(f"{PARTITION}.end_offset_for_epoch", "EpochEndOffset(epoch,", "EpochEndOffset(leader_epoch,"),
        ),
        ("KIP-279",),
    ),
    Mutant(
        "KIP-279 only",
        "Kip279.tla: fetches are not fenced, and logs are compared once, when a follower begins",
        (NO_FENCE, ONCE_ONLY),
        ("KIP-320", "S8"),
    ),
    Mutant(
        "KIP-320 first try",
        "Kip320FirstTry.tla: the epoch of the last record is compared, the fetcher's leader epoch is not",
        (NO_FENCE,),
        ("KIP-320",),
    ),
    # Divergence and truncation.
    Mutant("no divergence check", "logs are never compared", (NO_DIVERGENCE,), ("article 004", "S2", "S3")),
    # The ISR and the high watermark.
    Mutant(
        "joins below the epoch's start",
        "KAFKA-7128: who reached the high watermark of a new leader may join, whatever was committed before",
        (Change(f"{PARTITION}._propose_expand", " or end_offset < self.leader_epoch_start_offset", ""),),
        ("S13",),
    ),
    Mutant(
        "committed ISR only",
        "AsyncIsr.tla: the high watermark is that of the committed ISR while a larger one may be stored",
        (
            Change(f"{PARTITION}._move", "maximal = isr.maximal_isr", "maximal = isr.isr"),
            Change(f"{PARTITION}._maybe_advance_high_watermark", "self._check_members(least)", "pass"),
            Change(f"{PARTITION}._waits_to_join", "return self", "return False and self"),
        ),
        ("S14",),
    ),
    Mutant(
        "shrunk before it is stored",
        "KIP-497: a member that was proposed to leave does not hold the high watermark any more",
        (
            Change(
                f"{PARTITION}._move",
                "maximal = isr.maximal_isr",
                "maximal = tuple(b for b in isr.maximal_isr if b not in getattr(isr, 'leaving', ()))",
            ),
            Change(f"{PARTITION}._maybe_advance_high_watermark", "self._check_members(least)", "pass"),
            Change(f"{PARTITION}._waits_to_join", "return self", "return False and self"),
        ),
        ("S15",),
    ),
    Mutant(
        "own log end is the high watermark",
        "what the leader has is called committed",
        (
            Change(
                f"{PARTITION}._maybe_advance_high_watermark",
                "if replica.log_end_offset < least and (",
                "if False and (",
            ),
            Change(f"{PARTITION}._maybe_advance_high_watermark", "self._check_members(least)", "pass"),
        ),
        ("S23", "S24", "S15", "article 004"),
    ),
    Mutant(
        "min.insync.replicas is not asked",
        "Jepsen 2013: a leader alone in its ISR takes acks=all",
        (Change(f"{PARTITION}.append_as_leader", "if required_acks == ACKS_ALL and", "if False and"),),
        ("S24", "article 001, case A"),
    ),
    Mutant(
        "nobody is asked again",
        "KAFKA-2729: an ISR change whose answer was lost is never sent again",
        (
            Change(
                f"{PARTITION}.propose_shrink",
                "if not isinstance(isr, CommittedIsr):",
                "if not isinstance(isr, CommittedIsr):\n        return None\n    if not isinstance(isr, CommittedIsr):",
            ),
            Change(f"{PARTITION}._adopt", "self._move(CommittedIsr(stored.isr))", "pass"),
        ),
        ("S16", "S14", "S15"),
    ),
    Mutant(
        "a former self counts",
        "KIP-903: who fetched before its restart is taken for in sync",
        (
            NO_FENCE,
            Change(f"{PARTITION}._check_broker_epoch", "if standing is not None and", "if False and"),
            Change(
                "kavka.replication.replica:RemoteReplica.is_eligible",
                "return NO_BROKER_EPOCH in",
                "return True or NO_BROKER_EPOCH in",
            ),
            Change(
                f"{CONTROLLER}.alter_partition:_ineligible",
                "if epoch not in (NO_BROKER_EPOCH, registered):",
                "if False:",
            ),
        ),
        ("S18",),
    ),
    # Reading and writing.
    Mutant(
        "reads what is not committed",
        "a consumer is given all that the leader has",
        (Change(f"{PARTITION}.read", "else log.high_watermark", "else log.log_end_offset"),),
        seeds=3,
    ),
    Mutant(
        "acknowledged at once",
        "acks=all is answered when the leader has it",
        (
            Change(
                "kavka.replication.replica_manager:ReplicaManager.await_committed",
                "answer = operation.try_complete(None)",
                "answer = outcome",
            ),
        ),
        ("S23", "S15"),
    ),
    # The controller.
    Mutant(
        "anybody may lead",
        "an election without a live member of the ISR takes any replica",
        (Change(f"{CONTROLLER}.election:elect_offline", "if not unclean_allowed:", "if False:"),),
        ("article 001, case B", "S24"),
    ),
    Mutant(
        "the last member is taken out",
        "brokers that die at once leave the ISR one by one (ReplicaStateMachine.scala)",
        (
            Change(
                f"{CONTROLLER}.election:without_offline",
                "return remaining or tuple(isr)",
                "return remaining or tuple(isr)[-1:]",
            ),
        ),
        ("article 001, case C",),
    ),
    Mutant(
        "a bounce is not seen",
        "KIP-380: who is back before the controller looks counts as never gone",
        (
            Change(f"{CONTROLLER}.broker_changes:BrokerChanges.take_in", "before[key].epoch != live.epoch]", "False]"),
            Change(f"{CONTROLLER}.leaders:Leaders.react_on_former_lives", "if not concerned:", "if True:"),
        ),
        ("S26",),
    ),
    Mutant(
        "a bounce is not seen by the next controller",
        "found by the simulator, seed 6: a leader that lost power with the controller's seat leads on",
        (Change(f"{CONTROLLER}.leaders:Leaders.react_on_former_lives", "if not concerned:", "if True:"),),
        ("S26: a leader that was the controller",),
    ),
    Mutant(
        "a failed order is lost",
        "dev@kafka 2016: after a time-out the next order is sent instead",
        (
            Change(
                f"{CONTROLLER}.channels:RemoteChannel._converse",
                "except (ConnectionFailed, ProtocolViolation):",
                "except (ConnectionFailed, ProtocolViolation):\n                    self._queue.popleft()",
            ),
        ),
        ("S31", "S33"),
    ),
]
