"""Lesson: the controller, its watches, and a controller that has not heard that it is none. Rules R13, R14, R15."""

from __future__ import annotations

from collections.abc import Sequence

from kavka_playground.choices import Choices
from kavka_playground.lessons.lesson import (
    Board,
    Goal,
    Lesson,
    Part,
    Proof,
    controller_epoch,
    events,
    find,
    last_before,
    s,
    select,
    stored_leader,
)
from kavka_playground.run import PARTITION, Run


def another_controller(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    killed = find(trace, "killed", node="broker-4")
    elected = killed and find(trace, "controller elected", after=killed.number)
    if killed is None or elected is None or elected.node == "broker-4" or controller_epoch(elected) != 2:
        return None
    return Proof(
        f"Broker 4 died at {s(killed.at_ms)}. At {s(elected.at_ms)}: {elected.text}. The partition kept its leader meanwhile.",
        (killed.number, elected.number),
    )


def it_decides(runs: Sequence[Run]) -> Proof | None:
    """The leader may be the new controller itself: then one more takes over, in one more epoch."""
    (run,) = runs
    trace = events(run)
    first = find(trace, "controller elected", where=lambda event: controller_epoch(event) >= 2)
    killed = first and find(trace, "killed", after=first.number)
    elected = killed and find(trace, "leader elected", after=killed.number)
    chief = elected and last_before(trace, elected.number, "controller elected")
    if first is None or killed is None or elected is None or chief is None or elected.node != chief.node:
        return None
    epoch = controller_epoch(chief)
    if run.world.observer.stored[PARTITION].state.controller_epoch != epoch:
        return None
    return Proof(
        f"Broker {chief.node.removeprefix('broker-')} decides now ({elected.text}), and writes controller epoch {epoch} into the "
        "partition's state.",
        (first.number, killed.number, chief.number, elected.number),
    )


def nobody_decides(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    paused = find(trace, "paused", node="broker-4")
    killed = paused and find(trace, "killed", node="broker-1", after=paused.number)
    elected = killed and find(trace, "controller elected", after=killed.number)
    stored = elected and find(trace, "state stored", after=elected.number)
    if paused is None or killed is None or elected is None or stored is None or stored_leader(stored) < 2:
        return None
    if find(trace, "state stored", after=killed.number) is not stored:
        return None
    return Proof(
        f"The leader died at {s(killed.at_ms)}, and its partition was without one for {s(stored.at_ms - killed.at_ms)}: until the "
        f"paused controller's session ended, and broker {elected.node.removeprefix('broker-')} took over at {s(elected.at_ms)}.",
        (paused.number, killed.number, elected.number, stored.number),
    )


def the_former_learns(runs: Sequence[Run]) -> Proof | None:
    (run,) = runs
    trace = events(run)
    elected = find(trace, "controller elected", where=lambda event: event.node != "broker-4")
    resumed = elected and find(trace, "resumed", node="broker-4", after=elected.number)
    resigned = resumed and find(trace, "controller resigned", node="broker-4", after=resumed.number)
    if elected is None or resumed is None or resigned is None:
        return None
    epochs = [controller_epoch(each) for each in select(trace, "controller elected")]
    if epochs != sorted(set(epochs)) or find(trace, "leader elected", node="broker-4", after=resumed.number):
        return None
    return Proof(
        f"Broker 4 went on at {s(resumed.at_ms)} as the controller of epoch 1, and resigned at {s(resigned.at_ms)}: "
        f"{resigned.text}. It elected nobody in between; each write to ZooKeeper names the controller epoch that it counts on.",
        (elected.number, resumed.number, resigned.number),
    )


LESSON = Lesson(
    "controller",
    "The controller and its watches",
    "One broker decides who leads: the controller. It is chosen by a race for one znode, hears of everything by watches, and "
    "numbers its time in office, so that a former controller cannot do harm.",
    (
        Part(
            "watch",
            "The race for /controller",
            (
                "Look at ZooKeeper's nodes: /controller is ephemeral, it belongs to the session of the broker that made it. All others "
                "watch it. When the node goes, each is told, each tries to make it again, and ZooKeeper lets one of them.",
                "kavka is quicker than a session: a broker whose connections are refused is known to be dead before ZooKeeper says so.",
            ),
            (Board(Choices(brokers=4, rate=2), at_ms=3_000),),
            (
                Goal("race", "Kill broker 4, the controller.", another_controller),
                Goal("decides", "Kill the leader of the partition now. Who elects the next one?", it_decides),
            ),
        ),
        Part(
            "zombie",
            "A controller that sleeps",
            (
                "A dead controller is simple. One that only stands still, for a long garbage collection or a frozen disk, will wake up "
                "and believe that it still is one.",
                "While it sleeps nobody decides: a session lasts until its time-out (here 3 s), and until then it may come back.",
            ),
            (Board(Choices(brokers=4, rate=2), at_ms=3_000),),
            (
                Goal(
                    "gap",
                    "How long can a partition be without a leader? Pause the controller, then kill broker 1, and wait.",
                    nobody_decides,
                    ask=True,
                    hint="Kill broker 1 before the controller's session is over: in the first three seconds.",
                ),
                Goal("wakes", "Resume broker 4. What does it do first?", the_former_learns),
            ),
        ),
    ),
)
