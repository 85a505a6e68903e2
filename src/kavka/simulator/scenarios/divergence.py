"""Scenarios of divergence and truncation (S1 to S12): where two logs part, and which of them is cut back.

Source: docs/design/known-bugs.md; KIP-101, KIP-279, KIP-320 and the four TLA+ models.
"""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, LeaderEpoch
from kavka.simulator.scenarios.play import ZOOKEEPER, A, B, C, D, Play, Reader
from kavka.simulator.scenarios.registry import LAGGING, scenario


@scenario("S1: a follower of a new leader keeps records above its own high watermark")
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


@scenario("S2: the replica with the shorter log comes back first")
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


@scenario("S3: leaders change faster than followers learn, and replicas do not know each other's epochs")
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


@scenario("S4: a leader that wrote nothing still knows where its epoch began")
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
    play.require(play.epochs(C)[-1] == (play.epoch, 2), f"C leads in {play.epoch}, its log knows {play.epochs(C)}")
    play.start(A)
    play.start(B)
    play.expect(leader=C, isr=(A, B, C))
    play.require(play.log_end(A) == 2, "A cut off what was never committed")
    play.finish()


@scenario("S5: leaders that wrote nothing leave epochs that contradict each other, and no record to truncate")
def _(seed: int) -> None:
    play = Play(seed, settings=LAGGING)
    play.write_ok(2)
    # B leads, then C, and neither writes: each has its own epoch begin where the logs of all end.
    play.hand_over(B, A, C)
    play.until(lambda: play.leads(B), "B leads")
    play.hand_over(C, A, B)
    play.until(lambda: play.leads(C), "C leads")
    play.write_ok(2)
    for other in (A, B):
        play.require(play.epochs(other) == play.epochs(C), f"{play.epochs(other)}, the leader has {play.epochs(C)}")
    play.expect(leader=C, isr=(A, B, C))
    play.finish()


@scenario("S6: a follower that missed epochs of the same leader checks where the logs diverge")
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


@scenario("S7: a refusal for the previous epoch arrives when the next one is known")
def _(seed: int) -> None:
    play = Play(seed, settings=LAGGING)
    play.write_ok(3)
    # B dies, which begins an epoch. A knows; C, which does not, asks in the one before, and is refused.
    play.cut(D, C, both=False)
    play.kill(B)
    play.until(lambda: play.leads(A) and play.known_epoch(A) == play.epoch > play.known_epoch(C), "A knows, C does not")
    play.hold_answers(A, C)
    play.run_for(1.0)
    play.heal(D, C)
    play.until(lambda: play.known_epoch(C) == play.epoch, "C knows")
    play.release(A, C)
    play.run_for(0.5)
    play.write_ok()
    play.expect(leader=A, isr=(A, C))
    play.start(B)
    play.finish()


@scenario("S9: a reader learns where an unclean election cut off the log that it has read")
def _(seed: int) -> None:
    play, before, _ = _cut_off_by_an_unclean_election(seed)
    found = play.fetch(10, epoch=play.epoch, last_epoch=before)
    play.require(found.diverges_at == 4 and not found.values, f"what was never read is skipped: {found}")
    found = play.fetch(4, epoch=play.epoch, last_epoch=before)
    play.require(len(found.values) == 12, f"{found}")
    found = play.fetch(10, epoch=before, last_epoch=before)
    play.require(found.error is ErrorCode.FENCED_LEADER_EPOCH, f"a reader of the past is served: {found}")


@scenario("S9: a consumer goes back to where the log that it has read was cut off")
def _(seed: int) -> None:
    play, _, reader = _cut_off_by_an_unclean_election(seed)
    found = reader.read()
    play.require([offset for offset, _ in found] == list(range(4, 16)), f"it went on with {found[:1]}")
    play.require(dict(found) == {each: value for each, value in play.read().items() if each >= 4}, "what C has there")


def _cut_off_by_an_unclean_election(seed: int) -> tuple[Play, LeaderEpoch, Reader]:
    """A reader has read offsets 0 to 9 from A, in the returned epoch. C leads now: it has the same 0 to 3, and others
    at 4 to 15."""
    settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    play = Play(seed, settings=settings, allow_loss=True)
    play.write_ok(3)
    play.keep_out(B)  # writes 3
    play.cut(A, C)
    play.write_ok(6, acks=1)
    play.expect(leader=A, isr=(A,))
    reader = play.reader()
    play.require(len(reader.read()) == 10, "all of it is committed")
    before = play.epoch
    play.kill(A, B)
    play.heal(A, C)
    play.until(lambda: play.leads(C), "C is elected, unclean")
    play.require(play.log_end(C) == 4, f"{play.log_end(C)}")
    play.write_ok(12, acks=1)
    return play, before, reader


@scenario("S8: a leader that was paused serves nobody, and truncates no follower's log")
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


@scenario("S10: uncommitted records are truncated before a new high watermark is taken over")
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
    play.require(not play.committed_truncations(A), "A called committed what it cut off")
    play.finish()


@scenario("S11: a follower that starts again at the leader's log start moves its high watermark there, too")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.write_ok(7)
    play.delete_records(before=8)
    play.start(C)
    play.expect(leader=A, isr=(A, B, C))
    play.require((play.log_start(C), play.log_end(C)) == (8, 10), f"{play.log_start(C)} to {play.log_end(C)}")
    play.kill(A, B)
    play.until(lambda: play.leads(C), "C leads")
    play.require(sorted(play.read()) == [8, 9], "what is left can be read")
    play.finish()


@scenario("S12: an answer about the end of a leader's log arrives when another broker leads")
def _(seed: int) -> None:
    settings = {"replica.socket.timeout.ms": "60000", **LAGGING}
    play = Play(seed, settings=settings, partitions=2)  # Of the second, A stays the leader: they go on talking.
    play.write_ok(3)
    play.kill(C)
    play.expect(leader=A, isr=(A, B))
    play.write_ok(7)
    play.delete_records(before=8)
    play.start_only(C)
    play.until(lambda: play.is_asking_offsets(C), "C asks where the log of A begins and ends")
    play.cut(A, C, both=False)
    play.hand_over(B, A, C)
    play.until(lambda: C in play.stored[1], "C follows B, and is in sync")
    play.write_ok(2)
    play.require(play.log_end(C) == 12, "C has it all")
    play.heal(A, C)
    play.run_for(1.0)
    play.require(play.log_end(C) == 12, f"C cut its log back to {play.log_end(C)}")
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
