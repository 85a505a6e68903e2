"""Scenarios of the ISR (S13 to S24): who may join, who must leave, and what that means for the high watermark.

Source: docs/design/known-bugs.md; article 003.
"""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, BrokerId
from kavka.simulator.scenarios.play import OTHER, ZOOKEEPER, A, B, C, D, Play
from kavka.simulator.scenarios.registry import scenario


@scenario("S13: no replica joins below the start of the leader's epoch")
def _(seed: int) -> None:
    play = Play(seed, replicas=(A, B, C, D), controller=BrokerId(5))
    play.write_ok(3)
    for other in (A, B, D):
        play.cut(C, other)
    # C leaves, and so one more record is committed: B has it, and does not know yet that it is.
    play.begin_write(acks=1)
    play.until(lambda: play.high_watermark(A) == 4, "committed without C")
    play.require(play.high_watermark(B) == 3, "B does not know")
    play.kill(A)
    play.cut(B, D)
    play.until(lambda: play.leads(B), "B leads")
    play.heal(B, C)

    def c_has_asked() -> bool:
        partition = play.partition(B)
        replica = partition.remote_replica(C) if partition is not None else None
        return replica is not None and replica.log_end_offset == 3

    play.until(c_has_asked, "C has said what it has")
    play.require(play.high_watermark(B) == 3, "B waits for D")
    play.pause(C)
    play.run_for(0.5)
    play.require(C not in play.stored[1], f"C lacks what is committed: {play.stored}")
    play.resume(C)
    for other in (A, B, D):
        play.heal(C, other)
    play.heal(B, D)
    play.until(lambda: C in play.stored[1], "C joins")
    play.finish()


@scenario("S14: a member that may have joined already holds the high watermark")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.keep_out(C)
    play.write_ok(2)
    # The controller's answers do not reach A: it proposes C, which is stored, and does not know.
    play.cut(D, A, both=False)
    play.let_in(C)
    play.until(lambda: C in play.stored[1], "C is stored as in sync")
    play.cut(C, A)
    play.cut(C, B)
    write = play.begin_write()
    play.run_for(0.5)
    play.require(play.high_watermark(A) < 7, "committed without C, which may lead")
    play.heal(D, A)
    play.let_in(C)
    play.answer_of(write)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S15: a member that may not have left yet holds the high watermark")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    # A cannot reach the controller: it wants C out, and that is not stored.
    play.cut(A, D, both=False)
    play.cut(C, A)
    play.cut(C, B)
    write = play.begin_write()
    play.run_for(3.0)
    play.require(play.stored[1] == (A, B, C), f"{play.stored}")
    another = play.begin_write()
    play.run_for(0.5)
    play.require(play.high_watermark(A) == 3, "committed without C, which may lead")
    play.answer_of(write)
    play.answer_of(another)
    play.heal(A, D)
    play.expect(leader=A, isr=(A, B))
    play.write_ok()
    play.let_in(C)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S16: the answer to a change of the ISR is lost, and the ISR can change again")
def _(seed: int) -> None:
    play = Play(seed)
    play.keep_out(C)
    play.let_in(C)
    play.expect(leader=A, isr=(A, B, C))
    play.cut(D, A, both=False)
    play.cut(C, A)
    play.cut(C, B)
    play.write_ok(acks=1)
    play.until(lambda: play.stored[1] == (A, B), "stored without C")
    play.world.network.reset_some(1.0)
    play.heal(D, A)
    play.write_ok()
    play.let_in(C)
    play.expect(leader=A, isr=(A, B, C))
    play.keep_out(B)
    play.write_ok()
    play.finish()


@scenario("S17: an order of the controller overtakes its answer to an ISR change")
def _(seed: int) -> None:
    play = Play(seed)
    play.keep_out(C)
    play.let_in(C)
    play.expect(leader=A, isr=(A, B, C))
    # A proposes (A, B), which is stored; before it hears of that, B dies, and the controller says (A).
    play.hold_answers(D, A)
    play.cut(C, A)
    play.cut(C, B)
    play.write_ok(acks=1)
    play.until(lambda: play.stored[1] == (A, B), "stored without C")
    play.kill(B)
    play.until(lambda: play.stored[1] == (A,) and play.known_epoch(A) == play.epoch, "A knows that it is alone")
    play.release(D, A)
    play.run_for(0.2)
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.let_in(C)
    play.expect(leader=A, isr=(A, C))
    play.write_ok()
    play.start(B)
    play.finish()


@scenario("S18: a follower that comes back with an empty disk is not in sync by what it had before")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(20)
    play.keep_out(C)
    play.let_in(C)
    play.expect(leader=A, isr=(A, B, C))
    # One more fetch of C is on its way, and arrives when C is another.
    play.cut(C, A, both=False)
    play.run_for(1.0)
    play.kill(C)
    play.world.brokers[C].disk.wipe()
    play.world.observer.on_disk_damaged(C)
    play.cut(A, C)
    play.expect(leader=A, isr=(A, B))
    play.start(C)
    play.until(lambda: play.log_end(C) == 0, "C has nothing")
    play.world.network.heal("broker-3", "broker-1", both=False)
    play.run_for(2.0)
    play.require(C not in play.stored[1], f"an empty replica is in the ISR: {play.stored}")
    play.heal(A, C)
    play.expect(leader=A, isr=(A, B, C))
    play.require(play.log_end(C) == 21, "C has it all again")
    play.finish()


@scenario("S19: a replica that is removed and added again starts from nothing")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(10)
    play.reassign(A, B)
    play.expect(leader=A, isr=(A, B))
    play.until(lambda: play.partition(C) is None, "C has no replica any more")
    play.write_ok(5)
    play.cut(A, C)
    play.reassign(A, B, C)
    play.run_for(2.0)
    play.require(C not in play.stored[1], f"a replica that has nothing is in the ISR: {play.stored}")
    play.heal(A, C)
    play.expect(leader=A, isr=(A, B, C))
    play.require(play.log_end(C) == 15, "C has it all")
    play.finish()


@scenario("S20: a broker that is shutting down does not come back into the ISR")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    leaving = play.stop(C)
    play.until(lambda: C not in play.stored[1], "C left the ISR")
    play.write_ok()
    while play.world.brokers[C].is_alive:
        play.run_for(0.01)
        play.require(C not in play.stored[1], "a broker that leaves is in the ISR again")
    del leaving
    play.start(C)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S20: a broker that shuts down slowly still fetches, and does not come back into the ISR")
def _(seed: int) -> None:
    play = Play(seed, partitions=2)
    play.write_ok(5)
    # Of the second partition C is the last one in sync: it cannot hand over, and so it stays and asks again.
    play.hand_over(C, A, B, which=OTHER)
    play.until(lambda: play.leads(C, OTHER), "C leads the second one")
    for other in (A, B):
        play.hold_requests(other, C)
    play.write_ok(acks=1, which=OTHER)
    play.until(lambda: play.state(OTHER).isr == (C,), "C alone is in sync")
    leaving = play.stop(C)
    play.until(lambda: C not in play.stored[1], "C left the ISR")
    play.kill(B)  # Which begins an epoch, and C is told of it.
    while play.world.brokers[C].is_alive:
        play.run_for(0.01)
        play.require(C not in play.stored[1], "a broker that leaves is in the ISR again")
    del leaving
    play.start(B, C)
    play.finish()


@scenario("S21: the last replica standing loses power and its unsynced tail")
def _(seed: int) -> None:
    play = _last_standing(seed, keeps_eligible=True)
    play.expect(leader=C)  # It left when A alone was too few: it has all that was acknowledged.
    play.read_acknowledged()
    play.start(A)
    play.let_in(B)
    play.until(lambda: len(play.stored[1]) == 3, "all are in sync")
    play.require(play.leader == C, f"{play.stored}")
    play.read_acknowledged()
    play.finish()


@scenario("S21: the last replica standing is back from a power cut before all others")
def _(seed: int) -> None:
    play = _last_standing(seed, keeps_eligible=True, others_die=True)
    play.expect(leader=NO_LEADER, isr=(A,))
    play.start(A)
    play.expect(leader=NO_LEADER, isr=(C,))  # A waits for it, with what it has left.
    play.start(B)
    play.expect(leader=NO_LEADER, isr=(C,))
    play.start(C)
    play.until(lambda: play.leader >= 0, "somebody leads")
    play.read_acknowledged()
    play.finish()


@scenario("S21: the next controller does not remove a replica a second time for one power cut")
def _(seed: int) -> None:
    play = _last_standing(seed, keeps_eligible=True)
    play.let_in(B)
    play.start(A)
    play.until(lambda: len(play.stored[1]) == 3, "all are in sync")
    before, epoch = play.stored, play.epoch
    play.kill(D)
    play.until(lambda: play.controller in (A, B, C), "another controller")
    play.run_for(1.0)
    play.require((play.stored, play.epoch) == (before, epoch), f"{before} in epoch {epoch} became {play.stored}")
    play.read_acknowledged()
    play.finish()


def lose_last_standing(seed: int) -> None:
    """S21 without eligible leader replicas: as in Apache Kafka on ZooKeeper, the replica that lost power leads again,
    and the others truncate what it lost. Raises `Violation` if the power cut took acknowledged records."""
    play = _last_standing(seed, keeps_eligible=False)
    play.let_in(B)
    play.expect(leader=NO_LEADER, isr=(A,))
    play.start(A)
    play.until(lambda: play.leader >= 0, "somebody leads")
    play.require(play.leader == A, f"{play.stored}")
    play.read_acknowledged()
    play.finish()


def _last_standing(seed: int, *, keeps_eligible: bool, others_die: bool = False) -> Play:
    """B left the ISR, then C. A, alone in the ISR, lost power. C hears the others again."""
    play = Play(seed, settings={"kavka.eligible.leader.replicas.enable": str(keeps_eligible).lower()})
    play.write_ok(10)
    play.keep_out(B)
    play.keep_out(C)
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.write(3, acks=1)
    if others_die:
        play.kill(B, C)
        play.run_for(1.0)
    play.power_cut(A)
    play.let_in(C)
    if others_die:
        play.let_in(B)
    return play


@scenario("S22: a follower that lacks nothing stays in sync, however long it sends no fetch")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.run_for(1.0)
    before = play.version
    play.cut(A, C)
    play.run_for(8.0)
    play.require(play.version == before, f"four times replica.lag.time.max.ms, and the ISR is {play.stored}")
    play.heal(A, C)
    play.write_ok()
    play.finish()


@scenario("S22: a follower that is always a little behind, and never more, stays in sync")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.slow(A, C, 0.3)
    before = play.version
    for _ in range(120):
        play.begin_write(acks=1)
        play.run_for(0.05)
        behind = play.log_end(C) < play.log_end(A)
        play.require(play.version == before, f"the ISR is {play.stored}")
    play.require(behind, "C is behind")
    play.slow(A, C, 0.0)
    play.finish()


@scenario("S23: a member leaves between append and commit")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.keep_out(C)
    play.cut(A, B)
    write = play.begin_write(timeout_ms=10_000)
    play.expect(leader=A, isr=(A,))
    answer = play.answer_of(write)
    play.require(
        answer.error in (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT, None), f"{answer}"
    )
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.heal(A, B)
    play.expect(leader=A, isr=(A, B))
    play.write_ok()
    play.let_in(C)
    play.finish()


@scenario("S24: a leader cut off from its followers acknowledges nothing that could be lost")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.cut(A, B)
    play.cut(A, C)
    play.write_ok(acks=1)
    play.expect(leader=A, isr=(A,))
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.write(3, acks=1)
    play.cut(A, ZOOKEEPER)
    play.cut(A, D)
    play.expect(leader=NO_LEADER, isr=(A,))
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER, None, to=A)
    for other in (B, C, D, ZOOKEEPER):
        play.heal(A, other)
    play.expect(leader=A, isr=(A, B, C))
    play.read_acknowledged()
    play.finish()
