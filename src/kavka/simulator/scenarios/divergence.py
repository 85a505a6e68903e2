"""Scenarios of divergence and truncation (S1 to S12): where two logs part, and which of them is cut back.

Source: reliability.md section 2; KIP-101, KIP-279, KIP-320 and the four TLA+ models.
"""

from __future__ import annotations

from kavka.model import NO_LEADER
from kavka.simulator.play import ZOOKEEPER, A, B, C, D, Play
from kavka.simulator.scenarios.registry import LAGGING, scenario


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
    play.elect_preferred()
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
    play.hand_over(B, A, C)
    play.expect(leader=B, isr=(A, B, C))
    play.until(lambda: play.leads(B), "B knows")
    play.cut(A, B)
    play.write_ok(2, acks=1)
    play.until(lambda: play.log_end(C) == 4, "C has it")
    play.cut(C, B, both=False)
    play.run_for(1.0)  # C asks for what comes next, and the question is on its way.
    # A leads; B hears nothing of it, C cuts off what A lacks.
    play.cut(D, B, both=False)
    play.hand_over(A, B, C)
    play.until(lambda: play.log_end(C) == 2, "C follows A")
    # B leads again; C hears nothing of it, and its old question arrives.
    play.cut(D, C, both=False)
    play.hand_over(B, A, C)
    play.heal(D, B)
    play.heal(A, B)
    play.until(lambda: play.log_end(A) == 4, "A has what B has")
    play.heal(C, B)
    play.run_for(1.0)
    play.heal(D, C)
    play.expect(leader=B, isr=(A, B, C))
    play.finish()
