from __future__ import annotations

from struct import pack

import pytest

from kavka.errors import FrameTooLarge, ProtocolViolation, TlsInClear
from kavka.protocol.frames import (
    BULK_PEEK_BYTES,
    GROWTH,
    POOLED_BYTES,
    SMALLEST_STEP_BYTES,
    BufferPool,
    FrameReader,
    is_viewed,
)

MAXIMUM = 1024 * 1024


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


class Stream:
    """Feeds a reader as a socket would: as much as the reader gives room for, at most `step` bytes each time."""

    def __init__(self, *, maximum: int = MAXIMUM, shared_bytes: int = 64 * 1024) -> None:
        self.pool = BufferPool()
        self.reader = FrameReader(self.pool, maximum)
        self.shared = bytearray(shared_bytes)
        self.largest_target = 0

    def receive(self, data: bytes, *, step: int = 2**30, limit: int = 1000) -> list[bytes]:
        frames: list[bytes] = []
        while data and self.reader.violation is None:
            shared = memoryview(self.shared)
            target = self.reader.target(shared)
            self.largest_target = max(self.largest_target, len(target))
            count = min(len(data), len(target), step)
            assert count > 0
            target[:count] = data[:count]
            data = data[count:]
            given = self.reader.received(shared, count, limit)
            frames.extend(map(bytes, given))
            while self.reader.backlog is not None:
                given = self.reader.more(limit)
                assert len(given) <= limit
                frames.extend(map(bytes, given))
            del given, target, shared
            self.reader.release()
        return frames


def test_frames_that_came_whole_are_views_of_the_shared_buffer() -> None:
    stream = Stream()
    data = frame(b"one") + frame(b"") + frame(b"three")
    shared = memoryview(stream.shared)
    stream.reader.target(shared)[: len(data)] = data
    frames = stream.reader.received(shared, len(data), 10)
    assert [bytes(one) for one in frames] == [b"one", b"", b"three"]
    stream.shared[4:7] = b"ONE"
    assert bytes(frames[0]) == b"ONE"
    assert stream.pool.lent_bytes == 0


def test_a_frame_in_pieces_is_given_out_when_its_last_byte_is_there() -> None:
    stream = Stream()
    data = frame(b"hello")
    for index in range(len(data) - 1):
        assert stream.receive(data[index : index + 1]) == []
    assert stream.receive(data[-1:]) == [b"hello"]
    assert stream.pool.lent_bytes == 0


def test_an_empty_frame_whose_length_came_in_pieces_is_a_frame() -> None:
    stream = Stream()
    assert stream.receive(b"\0\0") == []
    assert stream.receive(b"\0\0" + frame(b"next")) == [b"", b"next"]


def test_over_the_limit_the_rest_waits_as_a_backlog() -> None:
    stream = Stream()
    data = b"".join(frame(b"%d" % index) for index in range(10)) + frame(b"half")[:6]
    shared = memoryview(stream.shared)
    shared[: len(data)] = data
    first = [bytes(one) for one in stream.reader.received(shared, len(data), 4)]
    shared[: len(data)] = bytes(len(data))  # The shared buffer is somebody else's now.
    assert first == [b"0", b"1", b"2", b"3"]
    assert [bytes(one) for one in stream.reader.more(4)] == [b"4", b"5", b"6", b"7"]
    assert [bytes(one) for one in stream.reader.more(4)] == [b"8", b"9"]
    assert stream.reader.backlog is None
    assert stream.reader.more(4) == []
    assert stream.receive(b"lf") == [b"half"]


def test_a_lying_length_holds_no_more_than_what_came_times_the_growth() -> None:
    stream = Stream(maximum=100 * 1024 * 1024)
    assert stream.receive(pack(">i", 100 * 1024 * 1024)) == []
    assert stream.pool.lent_bytes <= SMALLEST_STEP_BYTES
    arrived = 0
    while arrived < 3_000_000:
        stream.receive(bytes(10_000))
        arrived += 10_000
        assert stream.pool.lent_bytes <= max(SMALLEST_STEP_BYTES, 2 * GROWTH * arrived)
    stream.reader.close()
    assert stream.pool.lent_bytes == 0


def test_a_size_that_was_filled_before_is_given_at_once() -> None:
    stream = Stream(maximum=100 * 1024 * 1024)
    large = bytes(range(256)) * 4096
    assert stream.receive(frame(large), step=50_000) == [large]
    taken = stream.pool.free_bytes
    assert taken >= len(large)
    assert stream.receive(frame(large)[:5000]) == []
    assert stream.reader.held_bytes >= len(large)
    assert stream.receive(frame(large)[5000:]) == [large]


def test_the_buffer_of_a_large_frame_is_used_again() -> None:
    stream = Stream()
    body = bytes(200_000)
    stream.receive(frame(body), step=60_000)
    free = stream.pool.free_bytes
    for _ in range(5):
        assert stream.receive(frame(body), step=60_000) == [body]
    assert stream.pool.free_bytes == free
    assert stream.pool.lent_bytes == 0


def test_a_large_buffer_that_is_still_looked_at_is_given_away() -> None:
    stream = Stream()
    body = b"x" * 100_000
    data = frame(body)
    kept: list[memoryview] = []
    while data:
        target = stream.reader.target(memoryview(stream.shared))
        count = min(len(data), len(target))
        target[:count] = data[:count]
        kept.extend(stream.reader.received(memoryview(stream.shared), count, 10))
        data = data[count:]
    del target
    stream.reader.release()
    capacity = 1 << (len(body) - 1).bit_length()
    assert all(buffer_size != capacity for buffer_size in [stream.pool.free_bytes])
    stream.receive(frame(b"y" * 100_000))
    assert bytes(kept[0]) == body


def test_after_a_large_frame_only_a_little_is_received_into_the_shared_buffer() -> None:
    stream = Stream()
    stream.receive(frame(bytes(POOLED_BYTES + 1)))
    shared = memoryview(stream.shared)
    assert len(stream.reader.target(shared)) == BULK_PEEK_BYTES
    stream.receive(frame(b"small"))
    assert len(stream.reader.target(shared)) == len(stream.shared)


@pytest.mark.parametrize(
    ("start", "kind", "words"),
    [
        (b"\xff\xff\xff\xff", ProtocolViolation, "negative length -1"),
        (pack(">i", MAXIMUM + 1), FrameTooLarge, "socket.request.max.bytes"),
        (b"GET / HTTP/1.1\r\n", ProtocolViolation, "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00", TlsInClear, "TLS"),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 100])
def test_what_is_no_frame_is_named(start: bytes, kind: type[Exception], words: str, step: int) -> None:
    stream = Stream()
    assert stream.receive(frame(b"good") + start, step=step) == [b"good"]
    assert type(stream.reader.violation) is kind
    assert words in str(stream.reader.violation)


def test_a_frame_of_exactly_the_maximum_is_taken() -> None:
    stream = Stream(maximum=1000)
    assert stream.receive(frame(bytes(1000))) == [bytes(1000)]
    stream.receive(frame(bytes(1001)))
    assert isinstance(stream.reader.violation, FrameTooLarge)


def test_a_pool_keeps_no_more_than_it_may() -> None:
    pool = BufferPool(retained_bytes=200_000)
    buffers = [pool.take(100_000) for _ in range(4)]
    assert pool.lent_bytes == 4 * 131072
    for buffer in buffers:
        pool.give(buffer)
    assert pool.free_bytes == 131072
    assert pool.lent_bytes == 0


def test_trimming_drops_what_nobody_asked_for_since_the_last_time() -> None:
    pool = BufferPool()
    pool.give(pool.take(100_000))
    pool.trim()
    assert pool.free_bytes == 131072
    pool.trim()
    assert pool.free_bytes == 0


def test_a_view_anywhere_is_seen() -> None:
    buffer = bytearray(b"abc")
    assert not is_viewed(buffer)
    view = memoryview(buffer)[1:]
    assert is_viewed(buffer)
    del view
    assert not is_viewed(buffer)
    assert buffer == b"abc"


def test_a_tight_pool_gives_little_more_than_what_arrived() -> None:
    stream = Stream(maximum=100 * 1024 * 1024)
    stream.pool = BufferPool(limit_bytes=1000)
    stream.reader = FrameReader(stream.pool, 100 * 1024 * 1024)
    body = bytes(range(256)) * 2000
    data = frame(body)
    stream.receive(data[:50_000])
    stream.receive(data[50_000:300_000])
    assert stream.pool.tight
    assert stream.pool.lent_bytes <= 300_000 * 1.25 + SMALLEST_STEP_BYTES
    assert stream.receive(data[300_000:]) == [body]
    assert not stream.pool.tight
