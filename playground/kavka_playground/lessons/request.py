"""Lesson: the way of a request from its producer to a reader, and what each acks promises. Rules R8, R16, R19."""

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
    promised_offset,
    reached,
    s,
)
from kavka_playground.run import Run


def the_way(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    came = find(trace, "produce came", text="acks=all")
    told = came and find(trace, PROMISED, after=came.number, text="acks=all")
    if came is None or told is None:
        return None
    offset = promised_offset(told)
    read = find(trace, "read", text=f"offset {offset}:")
    way = [
        came,
        reached(trace, "broker-1", offset),
        reached(trace, "broker-2", offset),
        find(trace, "follower asks", text=f"broker-2 asks for offset {offset + 1} on"),
        committed(trace, "broker-1", offset),
        find(trace, "produce answered", text=f"offset {offset}", after=came.number),
        told,
    ]
    steps = [step for step in way if step is not None]
    numbers = [step.number for step in steps]
    if len(steps) != len(way) or numbers != sorted(numbers) or read is None or read.number < steps[4].number:
        return None
    return Proof(
        f"The record came at {s(came.at_ms)}, the leader had it at once, broker 2 at {s(steps[2].at_ms)}. By asking for the next one, "
        f"at {s(steps[3].at_ms)}, broker 2 said so. With that it was committed, at {s(steps[4].at_ms)}; the producer was told at "
        f"{s(told.at_ms)}, and a reader got it at {s(read.at_ms)}.",
        (*numbers, read.number),
    )


def one_is_early(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    told = find(trace, PROMISED, text="acks=1")
    if told is None:
        return None
    offset = promised_offset(told)
    answered = find(trace, "produce answered", text=f"offset {offset}")
    copies = [reached(trace, f"broker-{broker}", offset) for broker in (2, 3)]
    if answered is None or any(copy is None or copy.number < answered.number for copy in copies):
        return None
    first = min((copy for copy in copies if copy is not None), key=lambda copy: copy.number)
    return Proof(
        f"The leader answered at {s(answered.at_ms)}. The first follower had the record at {s(first.at_ms)}, later.",
        (answered.number, first.number, told.number),
    )


def one_is_lost(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    lost = find(trace, "record lost", text="acks=1")
    if lost is None or find(trace, "asks", node="operator", text="unclean") is not None:
        return None
    elected = find(trace, "leader elected")
    if elected is None or elected.number > lost.number:
        return None
    return Proof(
        f"{lost.text[0].upper()}{lost.text[1:]}. The election was a clean one ({elected.text}): acks=1 promises what one broker has.",
        (elected.number, lost.number),
    )


LESSON = Lesson(
    "request",
    "The way of a request",
    "A record goes from its producer to the leader, is fetched by the followers, and becomes visible. Nobody pushes: followers ask, "
    "and by asking they say how far they are.",
    (
        Part(
            "way",
            "With acks=all",
            (
                "Time stands still here. Write one record, and then step: each step is the very next thing that happens anywhere.",
                "Watch for the moment between the last copy and the promise. A follower does not report that it has a record. It asks for "
                "the next one, and from that the leader knows. So the high watermark needs one more round trip than the copy, and "
                "followers learn of it with their next answer.",
            ),
            (Board(Choices(brokers=4, rate=0, delay_ms=20), at_ms=2_000),),
            (
                Goal(
                    "steps",
                    "Write a record, and step until the reader has it.",
                    the_way,
                    hint="Play is allowed, too. Step back to see it again.",
                ),
            ),
            closely=True,
        ),
        Part(
            "one",
            "With acks=1",
            (
                "The leader answers as soon as it has the record itself. That is one round trip and no waiting, and it is a promise of "
                "one broker.",
            ),
            (Board(Choices(brokers=4, rate=0, acks="1", delay_ms=20), at_ms=2_000),),
            (
                Goal("early", "Write a record. Who has it when the producer is told?", one_is_early),
                Goal(
                    "lose",
                    "Make it lose a record that was promised with acks=1, without an unclean election.",
                    one_is_lost,
                    ask=True,
                    hint="Cut the leader off from both followers, write, and kill it before the followers leave the ISR.",
                ),
            ),
            closely=True,
        ),
    ),
)
