"""Lesson: leaders and followers that die, one by one and together, and what an unclean election costs. Rules R5, R7."""

from __future__ import annotations

from collections.abc import Sequence

from kavka.simulator.host.trace import Event
from kavka_playground.choices import Choices
from kavka_playground.lessons.lesson import (
    PROMISED,
    Board,
    Goal,
    Lesson,
    Part,
    Proof,
    events,
    find,
    promised_offset,
    s,
    select,
    state_at,
    stored_leader,
)
from kavka_playground.run import Run

LASTS_MS = 1_500
"""Nobody leads for so long before it counts as shown."""


def _promises_kept(trace: Sequence[Event], run: Run, leader: int, led: Event) -> int | None:
    """How many promises of before the election the new leader keeps; None if it lacks one, or there was none."""
    before = [promised_offset(each) for each in select(trace, PROMISED) if each.number < led.number]
    return len(before) if before and not run.lost and led.log_end_offset > max(before) else None


def another_leads(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    killed = find(trace, "killed", node="broker-1")
    stored = killed and find(trace, "state stored", after=killed.number)
    led = stored and find(trace, "leads", node="broker-2", after=stored.number)
    if killed is None or stored is None or led is None or stored_leader(stored) != 2:
        return None
    kept = _promises_kept(trace, run, 2, led)
    if kept is None or stored.isr != (2,):
        return None
    return Proof(
        f"Broker 1 died at {s(killed.at_ms)}. At {s(stored.at_ms)} broker 2 was the leader of epoch {stored.leader_epoch}, and has "
        f"all {kept} promised records. Broker 3 was alive and was not asked: it was not in the ISR.",
        (killed.number, stored.number, led.number),
    )


def nobody_leads(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    gone = find(trace, "state stored", where=lambda event: stored_leader(event) == -1)
    if gone is None:
        return None
    changed = next((e for e in trace if e.number > gone.number and e.kind in ("started", "state stored", "asks")), None)
    until_ms = changed.at_ms if changed is not None else run.at_ms
    first, second = find(trace, "killed", node="broker-1"), find(trace, "killed", node="broker-2")
    if first is None or second is None or first.at_ms == second.at_ms or until_ms - gone.at_ms < LASTS_MS:
        return None
    why = find(trace, "leader not elected", after=second.number)
    if why is None or gone.isr != (2,):
        return None
    return Proof(
        f"Broker 2 died last, at {s(second.at_ms)}, and stands in the ISR alone. Broker 3 lives, and does not lead: {why.text}.",
        (first.number, second.number, gone.number, why.number),
    )


def the_first_to_die_waits(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    gone = find(trace, "state stored", where=lambda event: stored_leader(event) == -1)
    back = gone and find(trace, "serves", node="broker-1", after=gone.number)
    if gone is None or back is None:
        return None
    again = find(trace, "state stored", after=back.number)
    until_ms = again.at_ms if again is not None else run.at_ms
    if until_ms - back.at_ms < LASTS_MS:
        return None
    return Proof(
        f"Broker 1 serves again since {s(back.at_ms)}, and still nobody leads: broker 2 went on without it, so only broker 2 "
        "is known to have everything.",
        (gone.number, back.number),
    )


def the_last_to_die_leads(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    gone = find(trace, "state stored", where=lambda event: stored_leader(event) == -1)
    stored = gone and find(trace, "state stored", after=gone.number, where=lambda event: stored_leader(event) >= 0)
    led = stored and find(trace, "leads", node="broker-2", after=stored.number)
    if gone is None or stored is None or led is None or stored_leader(stored) != 2:
        return None
    kept = _promises_kept(trace, run, 2, led)
    if kept is None:
        return None
    return Proof(
        f"Broker 2 is back and leads from epoch {stored.leader_epoch}. All {kept} promised records are there.",
        (gone.number, stored.number, led.number),
    )


def both_at_once(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    first, second = find(trace, "killed", node="broker-1"), find(trace, "killed", node="broker-2")
    if first is None or second is None or first.at_ms != second.at_ms:
        return None
    gone = find(trace, "state stored", after=max(first.number, second.number))
    if gone is None or stored_leader(gone) != -1 or set(gone.isr) != {1, 2}:
        return None
    return Proof(
        f"Both died at {s(first.at_ms)}. Nobody leads, and the stored ISR is still 1, 2: nobody went on without the other.",
        (first.number, second.number, gone.number),
    )


def either_may_lead(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    if both_at_once(runs) is None:
        return None
    gone = find(trace, "state stored", where=lambda event: stored_leader(event) == -1)
    stored = gone and find(trace, "state stored", after=gone.number, where=lambda event: stored_leader(event) >= 0)
    if gone is None or stored is None:
        return None
    leader = stored_leader(stored)
    led = find(trace, "leads", node=f"broker-{leader}", after=stored.number)
    kept = led and _promises_kept(trace, run, leader, led)
    if led is None or not kept:
        return None
    return Proof(
        f"Broker {leader} came back first, and leads from epoch {stored.leader_epoch} with all {kept} promised records: either of "
        "the two has them all.",
        (gone.number, stored.number, led.number),
    )


def loses_a_record(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    asked = find(trace, "asks", node="operator", text="unclean")
    elected = asked and find(trace, "leader elected", after=asked.number)
    lost = elected and find(trace, "record lost", after=elected.number)
    if asked is None or elected is None or lost is None:
        return None
    stored = state_at(trace, elected.number)
    return Proof(
        f"You asked for an unclean election at {s(asked.at_ms)}. {elected.text[0].upper()}{elected.text[1:]}. "
        f"{len(run.lost)} promised records are gone; the first of them: {lost.text}.",
        (asked.number, *([stored.number] if stored else []), elected.number, lost.number),
    )


_BEHIND = Board(Choices(brokers=4, rate=2), ("3500.cut.1-3", "3500.cut.2-3"), at_ms=8_000)
"""Broker 3 has the first records, hears from no other replica, and is out of the ISR."""

LESSON = Lesson(
    "crashes",
    "Three ways to crash",
    "When a leader dies, the next one comes out of the ISR, because each of its members has every promised record. What if the "
    "members die too? It depends on the order, and there is one button that gives up the promise.",
    (
        Part(
            "leader",
            "The leader dies",
            (
                "Broker 3 is cut off from the other two replicas and has left the ISR. It runs, and it could be reached; broker 4, the "
                "controller, has no copy of this partition.",
                "Kill the leader. The controller takes it out of the ISR, and makes the first living member the leader of a new epoch.",
            ),
            (_BEHIND,),
            (Goal("next", "Kill broker 1, and let a second pass.", another_leads),),
        ),
        Part(
            "one-by-one",
            "One after the other",
            (
                "Now both members die, broker 2 after broker 1. When broker 1 was dead, broker 2 was the whole ISR, and might have taken "
                "records that nobody else has.",
                "So the partition waits for broker 2: for broker 3 with its old copy it does not even ask, and broker 1 does not help.",
            ),
            (_BEHIND,),
            (
                Goal("nobody", "Kill broker 1, let a second pass, kill broker 2, and wait.", nobody_leads),
                Goal("first-back", "Start broker 1 again. Who leads?", the_first_to_die_waits),
                Goal("last-back", "Start broker 2.", the_last_to_die_leads),
            ),
        ),
        Part(
            "at-once",
            "Both at once",
            (
                "With the same two dead at the same moment, neither has gone on without the other. The stored ISR keeps both, "
                "although both are dead: taking out the last ones would leave nobody to choose from.",
            ),
            (_BEHIND,),
            (
                Goal(
                    "both",
                    "Stop time, kill brokers 1 and 2 without a step between, and let a second pass.",
                    both_at_once,
                ),
                Goal("either", "Start one of the two, whichever you like.", either_may_lead),
            ),
        ),
        Part(
            "unclean",
            "Make it lose a record",
            (
                "Availability or the promise: unclean.leader.election.enable, or an operator with kavka elect --unclean, lets a replica "
                "from outside of the ISR lead. What it lacks is then gone, also from the replicas that had it: they follow it, and cut "
                "their logs back to where both agree.",
            ),
            (_BEHIND,),
            (
                Goal(
                    "lose",
                    "Make the partition lose a record whose producer was told that it is written.",
                    loses_a_record,
                    ask=True,
                    hint="Kill both members of the ISR. The button for an unclean election appears when nobody leads.",
                ),
            ),
        ),
    ),
)
