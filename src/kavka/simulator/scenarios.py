"""Named scenarios: each tells what happens to one partition, and what must come of it.

`SCENARIOS` has them by name: those of the articles, and those of reliability.md section 2 (S1, S2, ...), whose bug each
is. A scenario passes if it ends; it raises `Unexpected` where the cluster does not do what it must, and `Violation`
where a rule is broken on the way. Leader A, followers B and C, controller D: see `play`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kavka.client.admin import ElectionType
from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, BrokerId
from kavka.simulator.play import PARTITION, ZOOKEEPER, A, B, C, D, Play

SCENARIOS: Final[dict[str, Callable[[int], None]]] = {}

Scenario = Callable[[int], None]

LAGGING: Final = {"replica.lag.time.max.ms": "20000"}
"""Followers may be behind for the whole scenario and stay in the ISR."""


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def keep(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return keep


def play(name: str, seed: int = 1) -> None:
    """Plays a scenario."""
    SCENARIOS[name](seed)


# -- article 001: ISR (A, B), C kept out, min.insync.replicas 2


@scenario("article 001, case A: a follower crashes")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.keep_out(C)
    pending = play.begin_write(to=A)
    play.kill(B)
    play.expect(leader=A, isr=(A,))
    answer = play.answer_of(pending)
    play.require(answer.error is not ErrorCode.NONE or play.high_watermark(A) > answer.offset, f"{answer}")
    end = play.log_end(A)
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.require(play.log_end(A) == end, "a refused write was appended")
    play.write_ok(acks=1)
    play.read_acknowledged()
    play.let_in(C)
    play.expect(leader=A, isr=(A, C))
    play.write_ok()
    play.finish()


@scenario("article 001, case A: the leader crashes")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.keep_out(C)
    epoch = play.epoch
    play.kill(A)
    play.expect(leader=B, isr=(B,))
    play.require(play.epoch > epoch, "a new leader without a new epoch")
    play.read_acknowledged()
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.write_ok(acks=1)
    play.finish()


@scenario("article 001, case B: one after the other")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.keep_out(C)
    play.kill(A)
    play.expect(leader=B, isr=(B,))
    play.kill(B)
    play.expect(leader=NO_LEADER, isr=(B,))
    play.let_in(C)
    play.start(A)
    play.is_unreadable()
    play.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PARTITION]))
    play.lose_session(D)
    play.expect(leader=NO_LEADER, isr=(B,))
    play.start(B)
    play.until(lambda: play.leader == B, "the last member of the ISR leads")
    play.read_acknowledged()
    play.expect(leader=B, isr=(A, B, C))
    play.write_ok()
    play.finish()


def _both_at_once(seed: int, first: BrokerId, second: BrokerId, *, controller: BrokerId) -> None:
    play = Play(seed, controller=controller)
    play.write_ok(5)
    play.keep_out(C)
    play.kill(A, B)
    play.expect(leader=NO_LEADER, isr=(A, B))
    play.is_unreadable()
    play.start(first)
    play.expect(leader=first, isr=(first,))
    play.read_acknowledged()
    play.write_refused(ErrorCode.NOT_ENOUGH_REPLICAS)
    play.start(second)
    play.expect(leader=first, isr=(A, B))
    play.write_ok()
    play.finish()


@scenario("article 001, case C: both at once, A returns first")
def _(seed: int) -> None:
    _both_at_once(seed, A, B, controller=D)


@scenario("article 001, case C: both at once, B returns first")
def _(seed: int) -> None:
    _both_at_once(seed, B, A, controller=D)


@scenario("article 001, case C: the controller is among them")
def _(seed: int) -> None:
    _both_at_once(seed, B, A, controller=A)


@scenario("article 004: m1 to m3, and only m1 and m2 are replicated")
def _(seed: int) -> None:
    play = Play(seed, settings=LAGGING)
    play.write_ok(2)
    play.cut(A, B)
    play.cut(A, C)
    play.write_ok(acks=1)
    play.require((play.log_end(A), play.log_end(B)) == (3, 2), "m3 is on A alone")
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.heal(A, B)
    play.heal(A, C)
    play.require(len(play.read()) == 2, "m3 was never committed")
    play.write_ok()
    play.start(A)
    play.expect(leader=B, isr=(A, B, C))
    play.require(play.log_end(A) == 3, "A cut off what was never committed")
    play.finish()


# -- divergence and truncation


@scenario("S1: who follows a new leader keeps what lies above its own high watermark")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok()
    write = play.begin_write()
    play.until(lambda: play.high_watermark(A) == 2, "committed at the leader")
    play.require(play.high_watermark(C) < 2 and play.log_end(C) == 2, "C does not know yet")
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.answer_of(write)
    play.kill(B)
    play.until(lambda: play.leader == C or play.stored == (NO_LEADER, (B,)), "an election or none")
    play.start(B)
    play.finish()
    play.require(len(play.read()) == 2, "both records are there")


@scenario("S2: the one whose log is shorter comes back first")
def _(seed: int) -> None:
    play = Play(seed, settings=LAGGING)
    play.write_ok()
    play.cut(A, B)
    play.cut(A, C)
    play.begin_write(acks=1)
    play.until(lambda: play.log_end(A) == 2, "m2 is on A alone")
    play.kill(A, B, C)
    play.expect(leader=NO_LEADER, isr=(A, B, C))
    play.heal(A, B)
    play.heal(A, C)
    play.start(B)
    play.expect(leader=B, isr=(B,))
    play.write_ok(acks=1)
    play.start(A)
    play.start(C)
    play.expect(leader=B, isr=(A, B, C))
    play.finish()
    play.require(len(play.read()) == 2, "m1 and m3")


@scenario("S3: leaders change faster than followers learn, and epochs are unknown to one another")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1", **LAGGING})
    play.write_ok(2)
    # Epoch of A: a record that nobody else gets. Then A is gone.
    for other in (B, C):
        play.cut(A, other)
    play.write_ok(2, acks=1)
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    for other in (B, C):
        play.heal(A, other)
    # Epoch of B: another record that nobody else gets.
    play.cut(B, C)
    play.write_ok(1, acks=1)
    play.kill(B, C)
    play.expect(leader=NO_LEADER)
    play.heal(B, C)
    play.start(C)
    play.expect(leader=C, isr=(C,))
    play.write_ok(2)
    play.start(A)
    play.start(B)
    play.expect(leader=C, isr=(A, B, C))
    play.finish()
    play.require(len(play.read()) == 4, "two of the first epoch, two of the last")


@scenario("S4: a leader that wrote nothing still tells where its epoch began")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1", **LAGGING})
    play.write_ok(2)
    for other in (B, C):
        play.cut(A, other)
    play.write_ok(3, acks=1)
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    for other in (B, C):
        play.heal(A, other)
    play.kill(B)
    play.expect(leader=C, isr=(C,))
    play.start(A)
    play.start(B)
    play.expect(leader=C, isr=(A, B, C))
    play.require(play.log_end(A) == 2, "A cut off what was never committed")
    play.finish()


@scenario("S6: a follower that missed epochs of the same leader looks where the logs part")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1", **LAGGING})
    play.write_ok(2)
    # C hears neither the controller nor the others while A, then B, then A lead.
    for other in (A, B, D):
        play.cut(C, other)
    play.kill(A)
    play.until(lambda: play.leader == B, "B leads")
    play.write_ok(2, acks=1)
    play.start(A)
    play.until(lambda: A in play.stored[1], "A is in sync")
    play.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PARTITION]))
    play.until(lambda: play.leader == A, "A leads again")
    play.write_ok(2, acks=1)
    for other in (A, B, D):
        play.heal(C, other)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S8: a leader that was paused serves nobody, and cuts nobody's log")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.begin_write(acks=1)
    play.pause(A)
    play.expect(leader=B, isr=(B, C))
    play.write_ok(3)
    play.resume(A)
    stale = play.begin_write(to=A)
    play.expect(leader=B, isr=(A, B, C))
    play.require(not play.answer_of(stale).is_acknowledged, "a leader of the past acknowledged")
    play.finish()


@scenario("S10: what was never committed is cut off before a new high watermark is taken")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1", **LAGGING})
    play.write_ok(2)
    for other in (B, C):
        play.cut(A, other)
    play.write_ok(5, acks=1)
    play.cut(A, D)
    play.cut(A, ZOOKEEPER)
    play.until(lambda: play.leader == B, "B leads")
    play.write_ok(7)
    play.require(play.high_watermark(B) == 9, "committed beyond the end of A")
    for other in (B, C, D):
        play.heal(A, other)
    play.heal(A, ZOOKEEPER)
    play.until(lambda: play.log_end(A) == 9, "A has caught up")
    play.finish()


@scenario("KIP-279: the new leader lacks the follower's last epoch, and has more of the one before")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1", **LAGGING})
    play.write_ok(2)
    play.cut(A, B)
    play.write_ok(4, acks=1)  # 2 to 5 of the first epoch, on A and C
    play.until(lambda: play.log_end(C) == 6, "C has them")
    # B leads next, and C neither hears nor follows.
    play.cut(D, C, both=False)
    play.cut(B, C)
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.heal(A, B)
    play.write_ok(8, acks=1)  # 2 to 9 of B's epoch, on B alone
    play.kill(B, C)
    play.expect(leader=NO_LEADER)
    play.heal(B, C)
    play.heal(D, C)
    play.start(C)
    play.expect(leader=C, isr=(C,))
    play.write_ok(6)  # 6 to 11 of C's epoch
    play.start(B)
    play.until(lambda: B in play.stored[1], "B is in sync")
    play.start(A)
    play.expect(leader=C, isr=(A, B, C))
    play.finish()
    play.require(len(play.read()) == 12, "six of the first epoch, six of the last")


@scenario("KIP-320: a fetch of an epoch that is over arrives when its target leads again")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1", "replica.socket.timeout.ms": "60000", **LAGGING})
    play.write_ok(2)
    # B leads; what it writes then reaches C alone.
    play.admin(lambda admin: admin.alter_partition_reassignments({PARTITION: [B, A, C]}))
    play.run_for(0.5)
    play.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PARTITION]))
    play.expect(leader=B, isr=(A, B, C))
    play.until(lambda: play.leads(B), "B knows")
    play.cut(A, B)
    play.write_ok(2, acks=1)
    play.until(lambda: play.log_end(C) == 4, "C has it")
    play.cut(C, B, both=False)
    play.run_for(1.0)  # C asks for what comes next, and the question is on its way.
    # A leads; B hears nothing of it, C cuts off what A lacks.
    play.cut(D, B, both=False)
    play.admin(lambda admin: admin.alter_partition_reassignments({PARTITION: [A, B, C]}))
    play.run_for(0.5)
    play.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PARTITION]))
    play.until(lambda: play.leader == A, "A is elected")
    play.until(lambda: play.log_end(C) == 2, "C follows A")
    # B leads again; C hears nothing of it, and its old question arrives.
    play.cut(D, C, both=False)
    play.admin(lambda admin: admin.alter_partition_reassignments({PARTITION: [B, A, C]}))
    play.run_for(0.5)
    play.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PARTITION]))
    play.until(lambda: play.leader == B, "B is elected")
    play.heal(D, B)
    play.heal(A, B)
    play.until(lambda: play.log_end(A) == 4, "A has what B has")
    play.heal(C, B)
    play.run_for(1.0)
    play.heal(D, C)
    play.expect(leader=B, isr=(A, B, C))
    play.finish()


# -- the ISR


@scenario("S13: nobody joins below the start of the leader's epoch")
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


@scenario("S18: a follower that comes back with an empty disk is not in sync by what its former self had")
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
    play.world.observer.on_power_cut(C)
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


@scenario("S19: a replica that is taken away and given back begins anew")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(10)
    play.admin(lambda admin: admin.alter_partition_reassignments({PARTITION: [A, B]}))
    play.expect(leader=A, isr=(A, B))
    play.until(lambda: play.partition(C) is None, "C has no replica any more")
    play.write_ok(5)
    play.cut(A, C)
    play.admin(lambda admin: admin.alter_partition_reassignments({PARTITION: [A, B, C]}))
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


@scenario("S21: the next controller does not take out again who lost power once")
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
    """S21 without eligible leader replicas: as in Apache Kafka on ZooKeeper, the one that lost power leads again, and
    the others cut off what it lost. Raises `Violation` where the power cut took acknowledged records."""
    play = _last_standing(seed, keeps_eligible=False)
    play.let_in(B)
    play.expect(leader=NO_LEADER, isr=(A,))
    play.start(A)
    play.until(lambda: play.leader >= 0, "somebody leads")
    play.require(play.leader == A, f"{play.stored}")
    play.read_acknowledged()
    play.finish()


def _last_standing(seed: int, *, keeps_eligible: bool, others_die: bool = False) -> Play:
    """B left the ISR, then C; A, all alone, lost power. C hears the others again."""
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


# -- the controller and ZooKeeper


@scenario("S25: a controller that slept through its own end changes nothing")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.pause(D)
    play.until(lambda: play.controller not in (-1, D), "another controller")
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.start(C)
    play.expect(leader=A, isr=(A, B, C))
    play.resume(D)
    play.run_for(5.0)
    play.expect(leader=A, isr=(A, B, C))
    play.write_ok()
    play.finish()


@scenario("S26: a broker is gone and back before the controller looks")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.cut(D, ZOOKEEPER)
    play.kill(B)
    play.start_only(B)
    play.run_for(0.8)
    play.heal(D, ZOOKEEPER)
    play.expect(leader=A, isr=(A, B, C))
    play.kill(A)
    play.until(lambda: play.leader in (B, C), "another leader")
    play.read_acknowledged()
    play.finish()


@scenario("S26: the leader is gone and back before the controller looks")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.cut(D, ZOOKEEPER)
    play.power_cut(A)
    play.start_only(A)
    play.run_for(0.8)
    play.heal(D, ZOOKEEPER)
    play.until(lambda: play.leader >= 0 and sorted(play.stored[1]) == [A, B, C], "all in sync")
    play.read_acknowledged()
    play.finish()


@scenario("S26: a leader that was the controller, too, loses power and is back before its session ends")
def _(seed: int) -> None:
    play = Play(seed, controller=A)
    play.write_ok(10)
    play.power_cut(A)
    play.start_only(A)
    play.until(lambda: play.controller >= 0, "a controller again")
    play.until(lambda: play.leader >= 0 and sorted(play.stored[1]) == [A, B, C], "all in sync")
    play.read_acknowledged()
    play.finish()


@scenario("S27: an old order to delete a replica does not delete the one that came after it")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    # The order to C is on its way while C is taken out and put back.
    play.cut(D, C, both=False)
    play.admin(lambda admin: admin.alter_partition_reassignments({PARTITION: [A, B]}))
    play.expect(leader=A, isr=(A, B))
    play.admin(lambda admin: admin.alter_partition_reassignments({PARTITION: [A, B, C]}))
    play.run_for(1.0)
    play.heal(D, C)
    play.expect(leader=A, isr=(A, B, C))
    play.run_for(5.0)
    play.require(play.log_end(C) == 5, "the replica is there")
    play.finish()


@scenario("S28: a broker whose session ended registers again, and is in sync again")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    for broker_id in (B, A, D, C):
        play.lose_session(broker_id)
        play.run_for(0.3)
        play.until(lambda: play.leader >= 0 and len(play.stored[1]) == 3, "all in sync again")
        play.write_ok()
    play.finish()


@scenario("S28: the session of a broker that cannot be reached ends, and its node comes back with it")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.cut(B, ZOOKEEPER)
    play.expect(leader=A, isr=(A, C))
    play.heal(B, ZOOKEEPER)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S31: an order that did not get through is given again until it does")
def _(seed: int) -> None:
    play = Play(seed, settings={"controller.socket.timeout.ms": "1000"})
    play.write_ok(3)
    play.cut(D, B, both=False)
    play.kill(A)
    play.until(lambda: play.leader == B, "B is elected")
    play.run_for(2.5)
    play.require(not play.leads(B), "B cannot know yet")
    play.heal(D, B)
    play.until(lambda: play.leads(B), "B leads")
    play.write_ok()
    play.finish()


@scenario("S33: the controller dies when a new leader is stored and nobody was told")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    for other in (B, C):
        play.cut(D, other, both=False)
    play.kill(A)
    play.until(lambda: play.leader == B, "B is stored as the leader")
    play.kill(D)
    play.until(lambda: play.leads(B) or play.leader == C, "the next controller tells")
    play.expect(isr=(B, C))
    play.write_ok()
    play.finish()


@scenario("S34: no preferred election of a leader that is not in sync")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.write_ok(3)
    play.cut(A, B)
    play.start(A)
    play.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PARTITION]))
    play.run_for(1.0)
    play.require(play.leader == B, f"{play.stored}")
    play.heal(A, B)
    play.expect(leader=B, isr=(A, B, C))
    play.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [PARTITION]))
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S36: the controller's node is deleted by hand")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.lose_session(D)
    play.until(lambda: play.controller >= 0, "a controller again")
    play.kill(B)
    play.expect(leader=A, isr=(A, C))
    play.write_ok()
    play.finish()


@scenario("S36: a topic is made anew under the name of one that was deleted while a replica was away")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.delete_topic()
    play.start(C)
    play.until(lambda: not play.has_topic, "the topic is gone")
    play.create_topic()
    play.write_ok(2)
    play.expect(leader=A, isr=(A, B, C))
    play.require(len(play.read()) == 2, "nothing of the former topic")
    play.finish()
