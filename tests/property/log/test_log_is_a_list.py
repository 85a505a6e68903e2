"""A log is a list of records, whatever is done to it; after a crash it is a prefix of that list."""

from __future__ import annotations

import shutil
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kavka.errors import CorruptRecords
from kavka.log.unified_log import UnifiedLog
from kavka.records.compression import Compression
from tests.kit.memory_directory import memory_directory
from tests.unit.log.log_support import NOW_MS, append, batch, find_time, load, new_log, records

CONFIG = {"segment_bytes": 700, "index_interval_bytes": 150, "file_delete_delay_ms": 0}
PRODUCERS = 3


class LogMachine(RuleBasedStateMachine):
    """The log against two lists: what is in it, and up to where it was flushed."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = memory_directory("kavka-log-")
        self.kept: dict[int, tuple[bytes, int]] = {}
        self.start = self.end = 0
        self.sequences = [0] * PRODUCERS
        self.value = 0
        self.now_ms = NOW_MS

    def teardown(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    @initialize()
    def make(self) -> None:
        self.log: UnifiedLog = new_log(self.directory / "log", **CONFIG)

    def values(self, count: int) -> list[bytes]:
        self.value += count
        return [b"%d" % number for number in range(self.value - count, self.value)]

    @rule(
        count=st.integers(1, 12),
        delay_ms=st.integers(-50, 200),
        codec=st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4]),
        epoch_step=st.sampled_from([0, 0, 0, 1]),
    )
    def append_plain(self, count: int, delay_ms: int, codec: Compression, epoch_step: int) -> None:
        values = self.values(count)
        self.now_ms += delay_ms
        epoch = max(self.log.latest_epoch, 0) + epoch_step
        result = self.log.append_as_leader(batch(values, timestamp=self.now_ms, compression=codec), epoch, self.now_ms)
        self.note(result.first_offset, values)

    @rule(producer=st.integers(0, PRODUCERS - 1), count=st.integers(1, 5))
    def append_idempotent(self, producer: int, count: int) -> None:
        values = self.values(count)
        data = batch(values, timestamp=self.now_ms, producer_id=producer, sequence=self.sequences[producer])
        result = self.log.append_as_leader(bytes(data), max(self.log.latest_epoch, 0), self.now_ms)
        self.note(result.first_offset, values)
        self.sequences[producer] += count
        again = self.log.append_as_leader(bytes(data), max(self.log.latest_epoch, 0), self.now_ms)
        assert again.is_duplicate
        assert (again.first_offset, again.last_offset) == (result.first_offset, result.last_offset)

    @rule(gap=st.integers(0, 5), count=st.integers(1, 4), batches=st.integers(1, 6))
    def append_as_follower(self, gap: int, count: int, batches: int) -> None:
        data, offset = bytearray(), self.end + gap
        for _ in range(batches):
            values = self.values(count)
            data += batch(values, timestamp=self.now_ms, base_offset=offset, leader_epoch=max(self.log.latest_epoch, 0))
            self.kept.update((offset + number, (value, self.now_ms + number)) for number, value in enumerate(values))
            offset += count
        self.log.append_as_follower(data, self.now_ms)
        self.end = offset
        self.log.advance_high_watermark(self.end)

    def note(self, first_offset: int, values: list[bytes]) -> None:
        assert first_offset == self.end
        for number, value in enumerate(values):
            self.kept[self.end + number] = (value, self.now_ms + number)
        self.end += len(values)
        self.log.advance_high_watermark(self.end)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule()
    def flush(self) -> None:
        self.log.flush(self.now_ms)
        assert self.log.recovery_point == self.end

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        self.log.delete_records(self.start + int(share * (self.end - self.start) / 2))
        self.start = self.log.log_start_offset
        self.log.delete_old_segments(self.now_ms)
        for path in self.log.take_removals(self.now_ms):
            Path(path).unlink(missing_ok=True)
        assert self.log.log_start_offset == self.start

    @precondition(lambda self: self.end > self.start)
    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        # A leader names ends of epochs: the log start, or the offset behind a record.
        targets = [self.start, *(offset + 1 for offset in sorted(self.kept) if offset >= self.start)]
        target = targets[int(share * (len(targets) - 1))]
        self.log.truncate_to(target, self.now_ms)
        assert self.log.log_end_offset <= target
        self.end = self.log.log_end_offset
        self.start = min(self.start, self.end)
        self.kept = {offset: kept for offset, kept in self.kept.items() if offset < self.end}
        self.remember_sequences()

    def remember_sequences(self) -> None:
        """Producers go on with what the log knows of them, as after a loss that they were told of."""
        known = self.log.producers.producers
        self.sequences = [known[number].last_sequence + 1 if number in known else 0 for number in range(PRODUCERS)]

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        before = self.state()
        known = {"recovery_point": self.log.recovery_point, "log_start_offset": self.start}
        if clean:
            self.log.close(self.now_ms)
            known["recovery_point"] = self.log.recovery_point
        self.log, loaded = load(self.log, was_clean=clean, **known)
        if self.start < self.end:
            cuts = [reason for reason in loaded.reasons if reason.what != "leader epochs read from the records"]
            assert cuts == []
            assert self.state() == before
        self.remember_sequences()

    def state(self) -> tuple[object, ...]:
        log = self.log
        # A producer whose last record lies below the log start, but in a segment that is still there: a truncation
        # forgets it, recovery meets it again.
        producers = {
            producer: (entry.producer_epoch, entry.last_sequence, entry.last_offset)
            for producer, entry in log.producers.producers.items()
            if entry.last_offset >= log.log_start_offset
        }
        # Of epochs what they say of records: one that starts at the log end, or in a gap, may start elsewhere after a
        # kill, which reads it from the batches, those below the log start too.
        epochs = [(offset, log.leader_epoch_at(offset)) for offset in sorted(self.kept) if offset >= self.start]
        ends = [log.end_offset_for_epoch(epoch) for epoch in sorted({epoch for _, epoch in epochs})]
        return log.log_start_offset, log.log_end_offset, producers, epochs, ends

    @rule(share=st.floats(0, 1), max_bytes=st.integers(1, 2_000))
    def read_from_anywhere(self, share: float, max_bytes: int) -> None:
        start = self.start + int(share * (self.end - self.start))
        expected = [(offset, *kept) for offset, kept in sorted(self.kept.items()) if offset >= start]
        found = records(self.log, start, max_bytes=max_bytes)
        assert [(record.offset, record.value, record.timestamp) for record in found] == expected

    @rule(delta_ms=st.integers(-500, 500))
    def look_up_a_timestamp(self, delta_ms: int) -> None:
        wanted = self.now_ms + delta_ms
        hits = [(offset, kept[1]) for offset, kept in sorted(self.kept.items()) if offset >= self.start]
        expected = next(((offset, timestamp) for offset, timestamp in hits if timestamp >= wanted), None)
        found = find_time(self.log, wanted)
        assert (None if found is None else (found.offset, found.timestamp)) == expected

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            log = self.log
            assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
            assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
            assert log.recovery_point <= log.log_end_offset
            bases = [segment.base_offset for segment in log.segments]
            assert bases == sorted(set(bases))


TestLogIsAList = LogMachine.TestCase
TestLogIsAList.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)


def written(directory: Path, sizes: list[int]) -> UnifiedLog:
    log = new_log(directory, **CONFIG)
    for number, size in enumerate(sizes):
        append(
            log,
            batch([b"%d-%d" % (number, one) for one in range(size)], producer_id=number % 2, sequence=0, epoch=number),
        )
    return log


def values(log: UnifiedLog) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in records(log)]


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=25),
    segment=st.integers(0, 1 << 10),
    place=st.floats(0, 1, exclude_max=True),
    damage=st.sampled_from(["cut", "flip", "zeros behind", "noise behind"]),
    bit=st.integers(0, 7),
)
def test_after_any_damage_a_log_is_a_prefix_of_what_was_written(
    sizes: list[int], segment: int, place: float, damage: str, bit: int
) -> None:
    directory = memory_directory("kavka-log-")
    try:
        log = written(directory / "log", sizes)
        before = values(log)
        paths = sorted((directory / "log").glob("*.log"))
        path = paths[segment % len(paths)]
        data = bytearray(path.read_bytes())
        position = int(place * len(data))
        in_base_offset, before_damage = harm(path, data, position, damage, bit)
        found, loaded = load(log)
        after = values(found)
        if in_base_offset:
            # The CRC does not cover a base offset: what is left is in order, and good up to the damaged batch.
            assert [offset for offset, _ in after] == sorted({offset for offset, _ in after})
        elif damage == "cut" and path != paths[-1] and position > 0 and not loaded.reasons:
            # A cut between two batches looks like compaction: the rest of that segment is missing and nothing else.
            following = int(paths[paths.index(path) + 1].name[:20])
            assert after == [record for record in before if not before_damage <= record[0] < following]
        else:
            assert after == before[: len(after)]
        good = [record for record in before if record[0] < before_damage]
        assert after[: len(good)] == good
        again, reloaded = load(found)
        assert values(again) == after
        assert not any(reason.what == "segment cut" for reason in reloaded.reasons)
        append(again, batch([b"new"], producer_id=9))
        assert values(again) == [*after, (found.log_end_offset, b"new")]
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def harm(path: Path, data: bytearray, position: int, damage: str, bit: int) -> tuple[bool, int]:
    """Damages the file; (whether a byte outside of any CRC was hit, the offset before which all is good)."""
    starts, start = [], 0
    while start < len(data):
        starts.append(start)
        start += 12 + int.from_bytes(data[start + 8 : start + 12], "big")
    if damage.endswith("behind"):
        path.write_bytes(data + (bytes(100) if damage.startswith("zeros") else b"\x00\x07noise" * 20))
        last = starts[-1]
        return False, int.from_bytes(data[last : last + 8], "big")
    hit = max(start for start in starts if start <= position)
    offset = int.from_bytes(data[hit : hit + 8], "big")
    if damage == "cut":
        path.write_bytes(data[:position])
        return False, offset
    data[position] ^= 1 << bit
    path.write_bytes(data)
    # Base offset and leader epoch are patched by brokers and outside of the CRC.
    return position - hit < 8, offset


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=5, max_size=25),
    noise=st.binary(max_size=60),
    keep=st.integers(0, 40),
    suffix=st.sampled_from(["index", "timeindex", "snapshot", "leader-epoch-checkpoint"]),
    clean=st.booleans(),
)
def test_any_bytes_in_place_of_what_can_be_rebuilt_change_no_record(
    sizes: list[int], noise: bytes, keep: int, suffix: str, clean: bool
) -> None:
    directory = memory_directory("kavka-log-")
    try:
        log = written(directory / "log", sizes)
        before = values(log)
        log.close(NOW_MS)
        for path in (directory / "log").glob(f"*{suffix}"):
            path.write_bytes(path.read_bytes()[:keep] + noise)
        found, _ = load(log, was_clean=clean, recovery_point=log.recovery_point if clean else 0)
        try:
            assert values(found) == before
        except CorruptRecords as error:  # pragma: no cover - the failure says what was believed
            raise AssertionError(f"an index was believed: {error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
