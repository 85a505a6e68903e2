"""Bugs put back one by one, and after how many runs in virtual time a sequence of requests shows each.

    python -m tests.fuzz.sequences.mutants

The first is a defect that kavka had, and by which any client could halt a broker. Of the others MUTANTS are what keeps
clients' choices away from what only kavka itself may do, taken out; WRONG_ANSWERS and ON_ONE_REPLICA are defects by
which the broker closed connections, or answered what Apache Kafka does not; OF_THE_PAST are fences left open;
FORMER_EPOCHS show only where a member comes with the epoch that it had just before.
"""

from __future__ import annotations

import sys
import time
from typing import Final

from kavka.logger import set_level
from tests.fuzz.sequences.beside_itself import told
from tests.fuzz.sequences.relations import Disagree
from tests.fuzz.sequences.run import in_virtual_time, on_three_brokers
from tests.fuzz.sequences.themes import THEMES, Theme
from tests.simulation.mutation import Change, Mutant, put_back

CLASSIC: Final = "kavka.coordinator.groups.classic.decide"
CONSUMER: Final = "kavka.coordinator.groups.consumer.decide"
SHARE: Final = "kavka.coordinator.groups.share.decide"
PRODUCERS: Final = "kavka.log.decide.producer_state"
SEEDS: Final = 20
REQUESTS: Final = 2_000
STEPS: Final = 200
"""Of a sequence beside itself."""

MUTANTS: Final = (
    Mutant(
        "a member that gave up the protocol in force",
        "a rolling change of a classic group's assignor and one member of the newer protocol halted the broker",
        (
            Change(
                f"{CLASSIC}.membership:Member.metadata",
                "return self.protocols[0].metadata",
                "raise InvariantViolation('a member without the protocol in force')",
            ),
        ),
    ),
    Mutant(
        "subscriptions that cannot be read, at an upgrade",
        "a classic member's bytes close the connection of whoever joins with the newer protocol",
        (Change(f"{CONSUMER}.migration:_read", "except ProtocolViolation", "except ZeroDivisionError"),),
    ),
    Mutant(
        "subscriptions that cannot be read, at a join",
        "a classic member's bytes close its connection instead of being refused",
        (
            Change(
                f"{CONSUMER}.classic_members:decide_classic_join",
                "except ProtocolViolation",
                "except ZeroDivisionError",
            ),
        ),
    ),
    Mutant(
        "a commit without a transaction",
        "EndTxn of a producer that has nothing to commit asks for a move that no transaction makes",
        (
            Change(
                "kavka.coordinator.transactions.decide.shard:TransactionShard._end_and_bump",
                "if commit and known.state is not TransactionState.ONGOING:",
                "if False:",
            ),
        ),
    ),
)
WRONG_ANSWERS: Final = (
    Mutant(
        "records that cannot be read, at a search by time",
        "one batch that nobody can read closed everybody's connection who searched the topic by time",
        (
            Change(
                "kavka.broker.api.records.list_offsets:_look_up",
                "except (RequestError, RecordsError) as refused",
                "except RequestError as refused",
            ),
        ),
    ),
    Mutant(
        "a timestamp of more than 64 bits",
        "a base timestamp near the end and a delta: an answer that could not be written closed the connection",
        (
            Change(
                "kavka.records.record:iterate_records",
                "add_timestamps(base_timestamp, delta",
                "int.__add__(base_timestamp, delta",
            ),
        ),
    ),
    Mutant(
        "a topic's id beside a name",
        "Metadata by topic id as Java's admin client asks it, with an empty name, did not know any topic",
        (
            Change(
                "kavka.broker.api.topics.metadata:handle",
                "topic.topic_id: None for topic in topics if topic.topic_id.int",
                "topic.topic_id: None for topic in topics if topic.topic_id.int and topic.name is None",
            ),
        ),
    ),
    Mutant(
        "a member by its instance id alone",
        "administrators could not take a static member out of a group of the newer protocol",
        (
            Change(
                f"{CONSUMER}.classic_members:decide_leave",
                'leaver.member_id or ("" if static is None else static.member_id)',
                "leaver.member_id",
            ),
        ),
    ),
    Mutant(
        "a static member's subscription, byte by byte",
        "it holds what the member owned and in which generation, so each restart disturbed the whole group",
        (
            Change(
                f"{CLASSIC}.group:ClassicGroup._reads_otherwise",
                "differ_in_topics(old.metadata(self.protocol), new.metadata(self.protocol))",
                "old.metadata(self.protocol) != new.metadata(self.protocol)",
            ),
        ),
    ),
    Mutant(
        "the first bad record only",
        "a refusal named one bad record of many, and clients told the good ones from the bad ones by it",
        (
            Change(
                "kavka.records.validation:_refuse_bad_records",
                "if len(bad) == LISTED_RECORDS:",
                "if bad:",
            ),
        ),
    ),
)
"""Defects that a reading found: the broker lives on, and tells a client what is wrong or nothing."""
OF_THE_PAST: Final = (
    Mutant(
        "a generation of the past",
        "a member commits offsets in a generation that has ended: another one may read those partitions since",
        (
            Change(
                f"{CLASSIC}.group:ClassicGroup.require_current",
                "if generation != self.generation:",
                "if generation > self.generation:",
            ),
        ),
    ),
    Mutant(
        "a member's epoch of the past",
        "as a generation of the past, in a group of the newer protocol",
        (
            Change(
                f"{CONSUMER}.group:ConsumerGroup._check_epoch",
                "if received != member.epoch:",
                "if received > member.epoch:",
            ),
        ),
    ),
    Mutant(
        "a producer's epoch of the past",
        "a producer that was taken over ends the transaction of its successor",
        (
            Change(
                "kavka.coordinator.transactions.decide.shard:TransactionShard.end_transaction",
                "if known.producer_epoch != producer.epoch or known.is_given_to_nobody:",
                "if known.producer_epoch < producer.epoch or known.is_given_to_nobody:",
            ),
        ),
    ),
    Mutant(
        "a session's epoch of the past",
        "a fetch that came twice moves its session on twice, and what the second answer has is lost",
        (
            Change(
                "kavka.broker.reads.fetch_session:FetchSessionCache.context",
                "if session.epoch != session_epoch:",
                "if session.epoch < session_epoch:",
            ),
        ),
    ),
    Mutant(
        "what a session has forgotten",
        "a consumer is given records of partitions that it has given up",
        (
            Change(
                "kavka.broker.reads.fetch_session:FetchSession.update",
                "self.specs.pop(key, None)",
                "pass",
            ),
        ),
    ),
    Mutant(
        "what was aborted before the first offset that is read",
        "a reader of committed records that begins within a transaction is given records of it, though it was aborted",
        (
            Change(
                "kavka.log.log_segments:LogSegments.aborted_transactions",
                "if entry.last_offset >= start_offset and",
                "if entry.first_offset >= start_offset and",
            ),
        ),
    ),
)
"""No rule of the simulator saw these, and no relation before V7 and V8."""
OF_PRODUCERS: Final = (
    Mutant(
        "a gap in a producer's batches",
        "a batch is stored, and the one before it, which was lost on its way, is refused for ever",
        (Change(f"{PRODUCERS}:ProducerState.check", "_check_sequence(entry, header)", "pass"),),
    ),
    Mutant(
        "only the last batch is remembered",
        "a batch that comes again behind later ones is refused instead of recognised, and a producer gives up",
        (Change(f"{PRODUCERS}:ProducerState.append", "if len(batches) >= BATCHES_RETAINED:", "if batches:"),),
    ),
)
"""kavka's own producer, the simulator's, sends one batch of a partition at a time."""
ON_ONE_REPLICA: Final = Mutant(
    "producers, by the leader alone",
    "DescribeProducers at a follower was refused, so hanging transactions could not be looked for on any broker",
    (
        Change(
            "kavka.broker.api.transactions.describe_producers:_describe",
            "if partition is None:",
            "if partition is None or not partition.is_leader:",
        ),
    ),
)
"""What one broker cannot show."""
FORMER_EPOCHS: Final = {
    Mutant(
        "a former epoch of who says nothing of its partitions",
        "a member of a consumer group that may own more than it was given counted as one that missed an answer",
        (Change(f"{CONSUMER}.heartbeat:_owns_no_more", "return False", "return True"),),
    ): "mixed",
    Mutant(
        "any former epoch, of consumer groups",
        "a member of long ago, whose partitions others have by now, was not fenced",
        (Change(f"{CONSUMER}.heartbeat:_check_epoch", "received == member.previous_epoch and ", ""),),
    ): "mixed",
    Mutant(
        "no former epoch, of consumer groups",
        "a member that missed an answer had to give everything back",
        (Change(f"{CONSUMER}.heartbeat:_check_epoch", "if received < member.epoch and", "if False and"),),
    ): "mixed",
    Mutant(
        "any former epoch, of share groups",
        "a member of long ago was not fenced",
        (
            Change(
                f"{SHARE}.heartbeat:_known_member",
                "received in (JOINING_EPOCH, member.epoch, min(member.previous_epoch, member.epoch))",
                "received <= member.epoch",
            ),
        ),
    ): "share",
    Mutant(
        "no former epoch, of share groups",
        "a member that missed an answer had to join again",
        (Change(f"{SHARE}.heartbeat:_known_member", ", min(member.previous_epoch, member.epoch))", ")"),),
    ): "share",
}
"""Checks of members' epochs, with the themes whose sequences come to them. No rule of a broker alone says which answer
is right: beside_kafka.py does."""


def hunt(mutant: Mutant) -> tuple[int, str] | None:
    """The seed that found it, and how; None where it lives."""
    with put_back(mutant):
        for seed in range(1, SEEDS + 1):
            try:
                report = in_virtual_time(seed, REQUESTS)
            except Exception as broken:  # whatever ends a run has found it
                return seed, f"{type(broken).__name__}: {broken}"
            if report.findings:
                return seed, report.findings[0]
    return None


def hunt_on_replicas(mutant: Mutant) -> tuple[int, str] | None:
    """As `hunt`, in a cluster of three in which nothing else happens."""
    with put_back(mutant):
        for seed in range(1, SEEDS + 1):
            try:
                on_three_brokers(seed)
            except Disagree as broken:
                return seed, str(broken)
    return None


def hunt_beside_itself(mutant: Mutant, theme: Theme) -> tuple[int, str] | None:
    """The seed of the first sequence that is answered otherwise with the bug than without it."""
    for seed in range(1, SEEDS + 1):
        right = told(seed, STEPS, theme)
        with put_back(mutant):
            wrong = told(seed, STEPS, theme)
        if parted := [rows for rows in zip(right, wrong, strict=True) if rows[0] != rows[1]]:
            return seed, " / ".join(parted[0])
    return None


def main() -> int:
    set_level("error")
    living = 0
    for mutant in (*MUTANTS, *WRONG_ANSWERS, *OF_THE_PAST, *OF_PRODUCERS, ON_ONE_REPLICA, *FORMER_EPOCHS):
        began_s = time.process_time()
        if mutant in FORMER_EPOCHS:
            found = hunt_beside_itself(mutant, THEMES[FORMER_EPOCHS[mutant]])
        else:
            found = hunt_on_replicas(mutant) if mutant is ON_ONE_REPLICA else hunt(mutant)
        living += found is None
        said = f"lives after {SEEDS} seeds" if found is None else f"seed {found[0]}: {found[1][:200]}"
        print(f"{time.process_time() - began_s:6.1f} s CPU  {mutant.name:50} {said}", flush=True)
    return int(living > 0)


if __name__ == "__main__":
    sys.exit(main())
