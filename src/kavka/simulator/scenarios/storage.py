"""Scenarios of logs and disks (S37 to S41): what is left after a crash, what damage may do, and what a clock may not.

Source: docs/design/known-bugs.md; rule R22.
"""

from __future__ import annotations

from kavka.errors import ErrorCode
from kavka.records.builder import ProducerStamp
from kavka.simulator.scenarios.play import OTHER, PARTITION, A, B, C, Play
from kavka.simulator.scenarios.registry import LAGGING, scenario

SMALL_SEGMENTS = {"log.segment.bytes": "400"}
"""A few records each."""


@scenario("S37: a bit flips in a log after a crash, and everything after it is fetched again")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(10)
    play.kill(C)
    play.flip_bit(C, 6)
    play.expect(leader=A, isr=(A, B))
    play.cut(A, C)
    play.start(C)
    play.require(play.log_end(C) == 6, f"what is whole ends at 6, the log of C at {play.log_end(C)}")
    play.heal(A, C)
    play.expect(leader=A, isr=(A, B, C))
    play.kill(A, B)
    play.until(lambda: play.leads(C), "C leads")
    play.read_acknowledged()
    play.start(A, B)
    play.finish()


@scenario("S37: a torn batch at the end of a log that was not closed")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(10)
    play.kill(C)
    play.tear(C, 20)
    play.expect(leader=A, isr=(A, B))
    play.cut(A, C)
    play.start(C)
    play.require(play.log_end(C) == 9, f"the log of C ends at {play.log_end(C)}")
    play.heal(A, C)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S37: a segment in the middle is gone, and the later ones do not count")
def _(seed: int) -> None:
    play = Play(seed, settings=SMALL_SEGMENTS)
    play.write_ok(20)
    segments = play.files(C, ".log")
    play.require(len(segments) == 4, f"{segments}")
    play.kill(C)
    play.overwrite(C, segments[1], b"")
    play.expect(leader=A, isr=(A, B))
    play.start(C)
    play.expect(leader=A, isr=(A, B, C))
    play.kill(A, B)
    play.until(lambda: play.leads(C), "C leads")
    play.read_acknowledged()
    play.start(A, B)
    play.finish()


@scenario("S37: every file except the records can be lost")
def _(seed: int) -> None:
    play = Play(seed, settings=SMALL_SEGMENTS)
    play.write_ok(20)
    for ending in (".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "partition.metadata"):
        for garbage in (None, b"", b"\x00" * 64):
            play.kill(C)
            for path in play.files(C, ending):
                if garbage is None:
                    play.remove(C, path)
                else:
                    play.overwrite(C, path, garbage)
            play.start(C)
            play.until(lambda: C in play.stored[1], f"C is back without {ending}")
            play.require(play.log_end(C) == 20, f"{play.log_end(C)}")
    play.kill(A, B)
    play.until(lambda: play.leads(C), "C leads")
    play.read_acknowledged()
    play.start(A, B)
    play.finish()


@scenario("S38: after a start that was interrupted, the next one does not trust the mark of a clean stop")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(10)
    play.stop(C)
    play.until(lambda: not play.world.brokers[C].is_alive, "C has stopped")
    disk = play.world.brokers[C].disk
    marks = [path for path in disk.files if path.endswith(".kafka_cleanshutdown")]
    play.require(len(marks) == 1, f"a clean stop leaves a mark: {marks}")
    play.start_only(C)
    play.until(lambda: marks[0] not in disk.files or play.world.brokers[C].is_serving, "C is starting")
    play.kill(C)
    # What a power cut takes from a file after a stop that was clean, and a start that was not.
    play.flip_bit(C, 7)
    play.cut(A, C)
    play.start(C)
    play.require(play.log_end(C) == 7, f"the log of C ends at {play.log_end(C)}: it was not looked at")
    play.heal(A, C)
    play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S38: a power cut after a clean stop loses nothing, and the mark of the stop is trusted once")
def _(seed: int) -> None:
    play = Play(seed, settings=SMALL_SEGMENTS)
    disk = play.world.brokers[C].disk
    for round_number in range(3):
        for number in range(4):
            stamp = ProducerStamp(7, 0, 4 * round_number + number)
            answer = play.answer_of(play.begin_write(stamp=stamp))
            play.require(answer.error is ErrorCode.NONE, f"{answer}")
        play.stop(C)
        play.until(lambda: not play.world.brokers[C].is_alive, "C has stopped")
        before = play.contents(C)
        play.require(any(path.endswith(".snapshot") for path in before), f"a producer is remembered: {list(before)}")
        disk.power_cut()
        play.require(play.contents(C) == before, "a power cut has taken something")
        play.start(C)
        play.write_ok(2)
        play.power_cut(C)
        play.require(not [path for path in disk.files if path.endswith(".kafka_cleanshutdown")], "the mark is back")
        play.start(C)
        play.expect(leader=A, isr=(A, B, C))
    play.finish()


@scenario("S38: a power cut just after the first records leaves no log with an unknown topic")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.run_for(3.0)
    for broker_id in (B, C):
        play.power_cut(broker_id)
        names = [path.rpartition("/")[2] for path in play.contents(broker_id)]
        play.require("partition.metadata" in names, f"{names}")
        play.start(broker_id)
        log = play.partition(broker_id)
        play.require(log is not None and log.log.topic_id is not None, "the log knows its topic")
        play.expect(isr=(A, B, C))
    play.finish()


@scenario("S39: an append to the leader's disk fails once")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(5)
    disk = play.world.brokers[A].disk
    for directory in play.world.brokers[A].log_directories:
        disk.volume(directory).failing_writes = 1.0
    play.write_refused(ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    disk.repair()
    # Where the file ends is not known: A, which has no other directory, is not to take another record.
    play.until(lambda: play.leader == B, "B leads")
    play.read_acknowledged()
    play.write_ok()
    play.finish()


@scenario("S39: one of a follower's log directories is full, and replicas in the other one continue")
def _(seed: int) -> None:
    play = Play(seed, settings={"log.dirs": "/first,/second"}, partitions=2)
    for partition in (PARTITION, OTHER):
        play.write_ok(5, which=partition)
    broken = next(path for path in ("/first", "/second") if play.files(C, ".log")[0].startswith(path))
    play.require(not play.files(C, ".log", OTHER)[0].startswith(broken), "the replicas lie in both")
    play.world.brokers[C].disk.volume(broken).is_full = True
    play.write_ok(5)
    play.until(lambda: C not in play.stored[1], "C leaves the ISR of the one")
    play.write_ok(5, which=OTHER)
    play.run_for(3.0)
    play.require(C in play.state(OTHER).isr, "and stays in that of the other")
    play.require(play.world.brokers[C].is_serving, "it serves")
    play.world.brokers[C].disk.repair()
    play.kill(C)
    play.start(C)
    play.finish()


@scenario("S40: the leader's copy of a record is damaged, and only that partition waits")
def _(seed: int) -> None:
    play = Play(seed, settings=LAGGING, partitions=2)
    play.write_ok(3)
    play.cut(A, C)
    play.write_ok(3, acks=1)
    play.until(lambda: play.log_end(B) == 6, "B has them")
    play.flip_bit(A, 4)
    play.heal(A, C)
    play.write_ok(5, which=OTHER)
    play.run_for(2.0)
    play.require(play.log_end(C, OTHER) == 5, "the other partition goes on")
    play.require(play.log_end(C) <= 4, f"C has taken what is damaged: {play.log_end(C)}")
    play.kill(A)
    play.until(lambda: play.leads(B), "B leads")
    play.until(lambda: play.log_end(C) >= 6, "C has it from B")
    play.start(A)
    play.finish()


@scenario("S41: clocks are set, and no replica lags because of it")
def _(seed: int) -> None:
    play = Play(seed)
    play.write_ok(3)
    play.slow(A, C, 0.7)
    play.run_for(1.0)
    version, registered = play.version, [play.registration(each) for each in (A, B, C)]
    for broker_id, seconds in ((A, 7_200.0), (B, -7_200.0), (A, -14_400.0), (C, 86_400.0), (A, 3_600.0)):
        play.jump(broker_id, seconds)
        for _ in range(24):
            play.begin_write(acks=1)
            play.run_for(0.05)
        play.require(play.version == version, f"the ISR is {play.stored}")
    play.require([play.registration(each) for each in (A, B, C)] == registered, "a session ended")
    play.slow(A, C, 0.0)
    play.write_ok()
    play.finish()


@scenario("S41: the clock of a leader that is alone is set back, and readers get what it acknowledges")
def _(seed: int) -> None:
    play = Play(seed, topic={"min.insync.replicas": "1"})
    play.write_ok(3)
    play.keep_out(B)
    play.keep_out(C)
    play.expect(leader=A, isr=(A,))
    for seconds in (-3_600.0, -1.0, 1.0, 7_200.0, -3_600.0):
        play.jump(A, seconds)
        play.write_ok(2, acks=1)
        ends = play.high_watermark(A), play.log_end(A)
        play.require(ends[0] == ends[1], f"readers get what is below {ends[0]}, the log ends at {ends[1]}")
    play.let_in(B)
    play.let_in(C)
    play.expect(leader=A, isr=(A, B, C))
    play.write_ok()
    play.finish()
