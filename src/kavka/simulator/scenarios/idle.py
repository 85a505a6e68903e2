"""Scenarios of idle partitions (S66, S67): a leader's fetches leave them out, and must not leave out what changes them.

Source: docs/design/known-bugs.md; rule R32.
"""

from __future__ import annotations

from kavka.simulator.scenarios.play import PARTITION, A, B, C, Play
from kavka.simulator.scenarios.registry import scenario
from kavka.simulator.scenarios.storage import SMALL_SEGMENTS

EARLY_RETENTION = {"log.initial.task.delay.ms": "3000", "log.retention.check.interval.ms": "3000"}
IDLE_S = 2.0
"""Each follower has fetched, waited, and been told that there is nothing new."""
SHORT_S = 1.2
"""Long enough for that, too, but not for a follower to be out of the ISR."""


@scenario("S66: retention comes first at the followers, and the leader of an idle partition hears of it")
def _(seed: int) -> None:
    play = Play(seed, settings={**SMALL_SEGMENTS, **EARLY_RETENTION})
    play.write_ok(20)
    play.world.observer.on_retention(PARTITION.topic)
    play.pause(A)
    play.set_topic(retention_bytes="400")
    play.until(lambda: play.log_start(B) == play.log_start(C) > 0, "the followers deleted their oldest segments")
    play.resume(A)
    play.until(lambda: play.log_start(A) == play.log_start(B), "so did the leader")
    play.delete_records(before=play.log_start(A))
    play.finish()


@scenario("S67: an idle partition is written to, loses its first records, its leader, and a follower")
def _(seed: int) -> None:
    play = Play(seed)
    play.run_for(IDLE_S)
    play.write_ok(3)
    play.run_for(IDLE_S)
    play.write_ok(acks=1)
    play.until(lambda: play.high_watermark(A) == 4, "the followers have it")
    play.run_for(IDLE_S)
    play.require(play.high_watermark(B) == play.high_watermark(C) == 4, "they know that it is committed")
    play.cut(A, C)
    play.write_ok(acks=1)
    play.run_for(SHORT_S)
    play.require(play.log_end(B) == 5 > play.high_watermark(A), f"B has it, C does not: {play.high_watermark(A)}")
    play.heal(A, C)
    play.until(lambda: play.high_watermark(B) == play.high_watermark(C) == 5, "all know it, with nothing new to fetch")
    play.delete_records(before=2)
    play.run_for(IDLE_S)
    play.require(play.log_start(B) == play.log_start(C) == 2, "they deleted the same")
    play.hand_over(B, C, A)
    play.run_for(IDLE_S)
    play.kill(C)
    play.expect(leader=B, isr=(A, B))
    play.write_ok()
    play.start(C)
    play.expect(leader=B, isr=(A, B, C))
    play.finish()
