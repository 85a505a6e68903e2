"""Scenarios of idempotent producers (S42, S43): a batch that is sent again is there once, at its first offset (P1).

Source: docs/design/known-bugs.md; KIP-98, KIP-360.
"""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.records.builder import ProducerStamp
from kavka.simulator.scenarios.play import ZOOKEEPER, A, Answer, B, C, D, Play
from kavka.simulator.scenarios.registry import LAGGING, scenario

PRODUCER = 7


def _send(play: Play, sequence: int, *, acks: int = -1, epoch: int = 0) -> Answer:
    """The producer's record of that number, to the stored leader."""
    play.until(lambda: play.leads(play.leader), "the stored leader knows that it leads")
    value = f"number {sequence} of epoch {epoch}".encode()
    stamp = ProducerStamp(PRODUCER, epoch, sequence)
    return play.answer_of(play.begin_write(acks=acks, stamp=stamp, value=value))


def _send_ok(play: Play, sequence: int, *, at: int, acks: int = -1, epoch: int = 0) -> None:
    answer = _send(play, sequence, acks=acks, epoch=epoch)
    play.require(answer.error is ErrorCode.NONE and answer.offset == at, f"{answer}, expected at offset {at}")


@scenario("S42: an answer is lost, the leader changes, and the batch is sent again")
def _(seed: int) -> None:
    play = Play(seed)
    _send_ok(play, 0, at=0)
    play.lose_answers(A)
    play.require(_send(play, 1).error is None, "the answer is lost")
    play.require(play.log_end(B) == play.log_end(C) == 2, "the batch is not")
    play.kill(A)
    play.until(lambda: play.leads(B), "B leads")
    _send_ok(play, 1, at=1)
    _send_ok(play, 2, at=2)
    play.require(_send(play, 4).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap")
    play.finish()


@scenario("S43: a truncated batch counts as never written, and is accepted when it is sent again")
def _(seed: int) -> None:
    play = Play(seed, settings={"min.insync.replicas": "1", **LAGGING})
    _send_ok(play, 0, at=0)
    for other in (B, C):
        play.cut(A, other)
    _send_ok(play, 1, at=1, acks=1)
    play.cut(A, D)
    play.cut(A, ZOOKEEPER)
    play.until(lambda: play.leads(B), "B leads")
    for other in (B, C, D):
        play.heal(A, other)
    play.heal(A, ZOOKEEPER)
    play.expect(leader=B, isr=(A, B, C))
    play.require(play.log_end(A) == 1, "A cut it off")
    play.hand_over(A, B, C)
    _send_ok(play, 1, at=1)
    play.finish()
    play.require(len(play.read()) == 2, "twice or never")


@scenario("S43: a leader knows its producers again after a crash, even without its snapshots")
def _(seed: int) -> None:
    play = Play(seed, settings={"log.segment.bytes": "400"})
    for sequence in range(8):
        _send_ok(play, sequence, at=sequence)
    for garbage in (None, b"", b"\x00" * 32):
        play.kill(B)
        for path in play.files(B, ".snapshot"):
            if garbage is None:
                play.remove(B, path)
            else:
                play.overwrite(B, path, garbage)
        play.start(B)
        play.until(lambda: B in play.stored[1], "B is in sync")
        play.hand_over(B, A, C)
        _send_ok(play, 7, at=7)
        play.hand_over(A, B, C)
    _send_ok(play, 8, at=8)
    play.finish()


@scenario("S43: a producer goes on when its records were deleted")
def _(seed: int) -> None:
    play = Play(seed, settings={"log.segment.bytes": "400"})
    for sequence in range(6):
        _send_ok(play, sequence, at=sequence)
    play.delete_records(before=6)
    play.run_for(1.0)
    _send_ok(play, 5, at=5)
    play.hand_over(B, A, C)
    _send_ok(play, 6, at=6)
    play.kill(A)
    play.expect(leader=B, isr=(B, C))
    play.start(A)
    play.until(lambda: A in play.stored[1], "A is in sync")
    play.hand_over(A, B, C)
    _send_ok(play, 6, at=6)
    _send_ok(play, 7, at=7)
    play.finish()


@scenario("S43: after a producer begins an epoch, its former self cannot write")
def _(seed: int) -> None:
    play = Play(seed)
    _send_ok(play, 0, at=0)
    _send_ok(play, 0, at=1, epoch=1)
    play.kill(A)
    play.until(lambda: play.leads(B), "B leads")
    play.require(_send(play, 1).error is ErrorCode.INVALID_PRODUCER_EPOCH, "a former self writes")
    _send_ok(play, 1, at=2, epoch=1)
    play.finish()
