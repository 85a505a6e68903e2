"""Lesson: why replica.lag.max.messages had to go (KIP-16): the same traffic under both policies, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from kavka_playground.choices import Choices
from kavka_playground.lessons.lesson import (
    Board,
    Goal,
    Lesson,
    Part,
    Proof,
    committed,
    events,
    find,
    reached,
    s,
    select,
)
from kavka_playground.run import Run

FAULTS = ("killed", "paused", "cut", "slow")
WAITED_MS = 1_500


def cries_wolf(runs: Sequence[Run]) -> Proof | None:
    by_time, by_messages = runs
    trace = events(by_messages)
    shrunk = find(trace, "isr shrunk", node="broker-1", text="records behind")
    if shrunk is None or by_time.at_ms < shrunk.at_ms:
        return None
    if any(find(events(run), fault) for run in runs for fault in FAULTS):
        return None
    if find(events(by_time), "isr shrunk"):
        return None
    return Proof(
        f"Nothing is broken, and at {s(shrunk.at_ms)} the limit of messages took healthy followers out: {shrunk.text}. "
        "The limit of time took nobody out.",
        (shrunk.number,),
    )


def flaps(runs: Sequence[Run]) -> Proof | None:
    _, by_messages = runs
    trace = events(by_messages)
    shrinks, growths = (list(select(trace, f"isr {how}", node="broker-1")) for how in ("shrunk", "expanded"))
    if len(shrinks) < 2 or not growths or cries_wolf(runs) is None:
        return None
    return Proof(
        f"The ISR shrank {len(shrinks)} times and grew {len(growths)} times within {s(shrinks[-1].at_ms - shrinks[0].at_ms)}. Each "
        "change is a write to ZooKeeper, and with acks=all a moment in which writes are refused.",
        (*(each.number for each in shrinks), *(each.number for each in growths)),
    )


def misses_the_slow(runs: Sequence[Run]) -> Proof | None:
    by_time, by_messages = runs
    slow = [find(events(run), "slow") for run in runs]
    first = events(by_time)
    shrunk = slow[0] and find(
        first, "isr shrunk", node="broker-1", text="broker 3 last caught up", after=slow[0].number
    )
    if slow[0] is None or slow[1] is None or shrunk is None or by_messages.at_ms < shrunk.at_ms:
        return None
    trace = events(by_messages)
    if find(trace, "isr shrunk"):
        return None
    waited = _longest_wait(by_messages, after=slow[1].number)
    if waited is None or waited[0] < WAITED_MS:
        return None
    wait_ms, offset, numbers = waited
    return Proof(
        f"By time, broker 3 was out at {s(shrunk.at_ms)}: {shrunk.text}. By messages it is in sync to this moment, and the record at "
        f"offset {offset} waited {s(wait_ms)} for it.",
        (shrunk.number, *numbers),
    )


def _longest_wait(run: Run, *, after: int) -> tuple[int, int, tuple[int, int]] | None:
    """The longest time from an append of the leader's to its commit: milliseconds, offset, and both events."""
    trace = events(run)
    longest = None
    for event in trace:
        if event.node != "broker-1" or event.kind != "appended" or event.number <= after:
            continue
        offset = event.log_end_offset - 1
        first, done = reached(trace, "broker-1", offset), committed(trace, "broker-1", offset)
        if first is None or done is None:
            continue
        wait_ms = done.at_ms - first.at_ms
        if longest is None or wait_ms > longest[0]:
            longest = wait_ms, offset, (first.number, done.number)
    return longest


def _boards(messages: int, *, acks: str, rate: int) -> tuple[Board, Board]:
    time = Choices(brokers=4, rate=rate, delay_ms=45, acks=acks)
    count = Choices(brokers=4, rate=rate, delay_ms=45, acks=acks, lag_policy="messages", lag_messages=messages)
    return (
        Board(time, at_ms=3_500, title="Out of sync by time"),
        Board(count, at_ms=3_500, title=f"Out of sync by messages, above {messages}"),
    )


LESSON = Lesson(
    "lag",
    "Why replica.lag.max.messages had to go",
    "Up to Kafka 0.8 a follower left the ISR when it was more than so many messages behind. Since 0.9 only time counts: whoever "
    "was not caught up for replica.lag.time.max.ms is out. kavka has both policies. Here they get the same traffic.",
    (
        Part(
            "burst",
            "A limit that is too low cries wolf",
            (
                "Two records a second are no trouble, and four messages sound like a generous limit. How far behind a follower is, "
                "counted in messages, depends on how much is written: while it fetches one batch, the next one comes.",
                "Send forty records a second to both clusters. No broker and no link is any slower than before.",
            ),
            _boards(4, acks="all", rate=2),
            (
                Goal("wolf", "Send 40 records a second, press play, and compare the two.", cries_wolf),
                Goal("flap", "Let it run on. Does the ISR on the right come to rest?", flaps),
            ),
            buttons=(("Send 40 a second", "rate", "40"), ("Send 2 a second", "rate", "2")),
        ),
        Part(
            "slow",
            "A limit that is high enough is blind",
            (
                "So raise the limit to 50. Now let broker 3 really be slow: its link to the leader takes 0.8 s each way. It fetches all "
                "the time, and it is never quite there. With four records a second it is never 50 behind, either.",
                "A topic with little traffic needs a low limit, one with much traffic a high one, and traffic changes by the hour. Time "
                "means the same for both: how long a promise may have to wait.",
            ),
            _boards(50, acks="1", rate=4),
            (
                Goal(
                    "blind",
                    "Make broker 3 slow in both, and let five seconds pass. Which policy notices?",
                    misses_the_slow,
                    ask=True,
                    hint="The button above the clusters does it in both. A slow follower is found after two to four seconds.",
                ),
            ),
            buttons=(("Make broker 3 slow", "slow", "1-3"), ("Fast again", "fast", "1-3")),
        ),
    ),
)
