"""Scenarios of the articles: the three crash cases of article 001, and m1 to m3 of article 004.

ISR (A, B), C kept out, min.insync.replicas 2, unless a scenario says otherwise.
"""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.model import NO_LEADER, BrokerId
from kavka.simulator.scenarios.play import A, B, C, D, Play
from kavka.simulator.scenarios.registry import LAGGING, scenario


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
    play.elect_preferred()
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
