"""Lesson: who is in sync, and what waits for whom. Rules R6, R8, R10 and R16 of docs/design/rules.md."""

from __future__ import annotations

from collections.abc import Sequence

from kavka_playground.choices import Choices
from kavka_playground.lessons.lesson import (
    PROMISED,
    Board,
    Goal,
    Lesson,
    Part,
    Proof,
    committed,
    events,
    find,
    last_before,
    promised_offset,
    reached,
    s,
    select,
    state_at,
)
from kavka_playground.run import Run

LAG_MS = 2_000


def waits_for_all(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    told = list(select(trace, PROMISED))
    if len(told) < 3:
        return None
    last = told[-1]
    offset = promised_offset(last)
    copies = [reached(trace, f"broker-{broker}", offset) for broker in (1, 2, 3)]
    if any(copy is None or copy.number > last.number for copy in copies):
        return None
    times = ", ".join(f"broker {n} at {s(copy.at_ms)}" for n, copy in enumerate(copies, 1) if copy is not None)
    return Proof(
        f"The record at offset {offset} was in all three logs ({times}) before its producer was told, at {s(last.at_ms)}.",
        (*(copy.number for copy in copies if copy is not None), last.number),
    )


def waits_for_the_paused(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    paused = find(trace, "paused", node="broker-3")
    shrunk = paused and find(trace, "isr shrunk", node="broker-1", after=paused.number, text="broker 3")
    if paused is None or shrunk is None or shrunk.at_ms - paused.at_ms < LAG_MS - 500:
        return None
    copy = last_before([event for event in trace if event.node == "broker-3"], paused.number, "appended")
    offset = max(
        (event.log_end_offset for event in trace if event.node == "broker-3" and event.number < paused.number),
        default=0,
    )
    freed = committed(trace, "broker-1", offset)
    if freed is None or freed.number < paused.number:
        return None
    stored = state_at(trace, freed.number)
    if stored is None or 3 in stored.isr:
        return None
    return Proof(
        f"Broker 3 stood still from {s(paused.at_ms)} on. The record at offset {offset}, which it did not have, was committed "
        f"only at {s(freed.at_ms)}, when the ISR was {', '.join(map(str, stored.isr))}: {shrunk.text}.",
        (paused.number, *([copy.number] if copy else []), stored.number, freed.number, shrunk.number),
    )


def comes_back_caught_up(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    resumed = find(trace, "resumed", node="broker-3")
    grown = resumed and find(trace, "isr expanded", node="broker-1", text="broker 3", after=resumed.number)
    if resumed is None or grown is None:
        return None
    stored = find(trace, "state stored", after=resumed.number, where=lambda event: 3 in event.isr)
    if stored is None:
        return None
    own = max((e.log_end_offset for e in trace if e.node == "broker-3" and e.number < stored.number), default=-1)
    mark = max((e.high_watermark for e in trace if e.node == "broker-1" and e.number < resumed.number), default=-1)
    if own < mark:
        return None
    return Proof(
        f"Broker 3 went on at {s(resumed.at_ms)}, copied up to offset {own}, and was let in at {s(stored.at_ms)}: {grown.text}.",
        (resumed.number, stored.number, grown.number),
    )


def refused(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    answer = find(trace, "produce answered", text="NOT_ENOUGH_REPLICAS")
    stored = answer and state_at(trace, answer.number)
    if answer is None or stored is None or len(stored.isr) >= run.choices.min_in_sync:
        return None
    return Proof(
        f"At {s(answer.at_ms)} the leader answered {answer.text.partition(',')[0]}: the ISR was down to {len(stored.isr)}, and "
        f"min.insync.replicas is {run.choices.min_in_sync}. It is a refusal, and no loss: {len(run.lost)} promised records are gone.",
        (stored.number, answer.number),
    )


LESSON = Lesson(
    "in-sync",
    "Who is in sync",
    "A partition has several copies. The in-sync replicas (the ISR) are those that a promise waits for. They are no fixed "
    "number: the leader takes out who cannot keep up, and lets in who has caught up.",
    (
        Part(
            "shrink",
            "A promise waits for the ISR",
            (
                "Broker 1 leads; 2 and 3 copy from it. A record is committed when every member of the ISR has it. Only then is a "
                "producer with acks=all told that it is written, and only then can a reader see it. How far that is, the high "
                "watermark (HW) says. The log end offset (LEO) says how far a log goes.",
                "When a member stands still, everybody waits for it, for replica.lag.time.max.ms at most (here 2 s). After that the "
                "leader proposes an ISR without it. The proposal is written to ZooKeeper first: only who is in the stored ISR may "
                "lead after a crash, so it must be written down before anything is promised without the member.",
            ),
            (Board(Choices(brokers=4, rate=2), at_ms=1_300),),
            (
                Goal("commit", "Press play, and wait for three records to be written.", waits_for_all),
                Goal(
                    "pause",
                    "Click broker 3 and pause it. Watch the high watermark stand still, and then move on.",
                    waits_for_the_paused,
                ),
                Goal("return", "Resume broker 3, and watch it come back.", comes_back_caught_up),
                Goal(
                    "refuse",
                    "How small may the ISR get before writes with acks=all are refused? Make the leader answer NOT_ENOUGH_REPLICAS.",
                    refused,
                    ask=True,
                    hint="min.insync.replicas is 2: leave the leader alone in the ISR.",
                ),
            ),
        ),
    ),
)
