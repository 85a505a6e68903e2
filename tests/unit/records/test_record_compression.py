"""The codecs: what other clients write is read, and nothing inflates beyond its bound."""

import gzip
import os
import random
import subprocess
import sys
import time
import zlib

import cramjam
import pytest

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.records.compression import (
    UNTOLD,
    XERIAL_BLOCK_BYTES,
    XERIAL_HEADER,
    Compression,
    check_frame,
    compress,
    decompress,
)

DEFLATING = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
SAMPLES = [b"", b"x", b"abc" * 50_000, os.urandom(200_000), bytes(XERIAL_BLOCK_BYTES), os.urandom(3000) * 700]


@pytest.mark.parametrize("codec", DEFLATING)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_what_is_deflated_inflates_to_the_same_bytes(codec: Compression, data: bytes) -> None:
    deflated = compress(codec, data)
    assert bytes(decompress(codec, deflated)) == data
    assert bytes(decompress(codec, memoryview(deflated), max_size=len(data))) == data
    assert check_frame(codec, memoryview(deflated), max_blocks=1000) >= len(data)


@pytest.mark.parametrize("codec", DEFLATING)
def test_one_byte_over_the_bound_is_refused(codec: Compression) -> None:
    deflated = compress(codec, b"abc" * 50_000)
    with pytest.raises(RecordsError) as refusal:
        decompress(codec, deflated, max_size=149_999)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", DEFLATING)
def test_a_torn_stream_is_corrupt(codec: Compression) -> None:
    deflated = compress(codec, os.urandom(70_000))
    for length in (1, 7, 20, len(deflated) // 2, len(deflated) - 1):
        with pytest.raises(CorruptRecords):
            decompress(codec, deflated[:length])


def test_gzip_members_of_all_sizes_are_read_one_behind_another() -> None:
    draw = random.Random(7)
    for _ in range(200):
        parts = [draw.randbytes(draw.choice([0, 1, 400, 490, 2_000, 12_000])) for _ in range(draw.randrange(1, 12))]
        deflated = b"".join(gzip.compress(part) for part in parts) + draw.choice([b"", b"\x1f", b"?"])
        assert bytes(decompress(Compression.GZIP, deflated)) == b"".join(parts)


def test_many_small_gzip_members_take_time_in_proportion() -> None:
    member = gzip.compress(b"")

    def seconds(count: int) -> float:
        began = time.process_time()
        decompress(Compression.GZIP, member * count)
        return time.process_time() - began

    few = min(seconds(10_000) for _ in range(3))
    assert seconds(160_000) < 60 * few, "16 times as many should take 16 times as long, not 256 times"


def test_streams_of_other_writers_are_read() -> None:
    data = b"some records " * 10_000
    assert bytes(decompress(Compression.GZIP, gzip.compress(data[:100]) + gzip.compress(data[100:]))) == data
    assert bytes(decompress(Compression.GZIP, gzip.compress(data) + b"trailing")) == data
    assert bytes(decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data)))) == data
    unsized = cramjam.zstd.Compressor()
    unsized.compress(data)
    assert bytes(decompress(Compression.ZSTD, bytes(unsized.finish()))) == data
    summed = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    summed.compress(data)
    assert bytes(decompress(Compression.LZ4, bytes(summed.finish()))) == data


def test_lz4_frames_with_dependent_blocks_are_refused_as_kafka_does() -> None:
    linked = cramjam.lz4.Compressor(block_linked=True)
    linked.compress(b"abc" * 100_000)
    with pytest.raises(CorruptRecords, match="depend"):
        decompress(Compression.LZ4, bytes(linked.finish()))


def test_an_lz4_stream_of_two_frames_is_refused_as_kafka_does() -> None:
    """Kafka's reader ends with the first frame: its consumers would never come past a batch of two."""
    codec, nothing, records = Compression.LZ4, compress(Compression.LZ4, b""), compress(Compression.LZ4, b"abc" * 9_000)
    for stream in (records + records, nothing + records, records + nothing, records + b"\x01"):
        with pytest.raises(CorruptRecords, match="follow"):
            decompress(codec, stream)
        with pytest.raises(CorruptRecords, match="follow"):
            check_frame(codec, memoryview(stream), max_blocks=10)


@pytest.mark.parametrize("flag", [0x01, 0x02])
def test_lz4_flags_that_kafka_refuses_are_refused(flag: int) -> None:
    frame = bytearray(compress(Compression.LZ4, b"abc" * 9_000))
    frame[4] |= flag
    with pytest.raises(CorruptRecords, match="flags"):
        decompress(Compression.LZ4, bytes(frame))


def test_a_snappy_block_that_claims_more_than_it_can_hold_is_refused_before_a_buffer_is_made() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"x" * 20
    with pytest.raises(CorruptRecords, match="claims"):
        decompress(Compression.SNAPPY, claim)


def test_a_zstd_frame_that_claims_more_than_its_blocks_hold_is_refused() -> None:
    claim = b"\x28\xb5\x2f\xfd\xe0" + (1 << 40).to_bytes(8, "little") + b"\x01\x00\x00"
    with pytest.raises(CorruptRecords, match="claims"):
        decompress(Compression.ZSTD, claim)


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_the_look_at_a_frame_stops_after_the_blocks_it_may_see(codec: Compression) -> None:
    deflated = memoryview(compress(codec, os.urandom(1_000_000)))
    assert check_frame(codec, deflated, max_blocks=3) == UNTOLD
    assert 1_000_000 <= check_frame(codec, deflated, max_blocks=100) < 1_300_000


# -- streams made by hand; of what is refused and what is read, Kafka 4.3.1's own readers say the same


def most(codec: Compression, data: bytes, *, max_blocks: int = 64) -> int:
    return check_frame(codec, memoryview(data), max_blocks=max_blocks)


def refused_by_both(codec: Compression, data: bytes, match: str | None = None) -> None:
    """By the look at the frame, and when it is inflated, also to little."""
    with pytest.raises(CorruptRecords, match=match):
        most(codec, data)
    for max_size in (1 << 26, 3):
        with pytest.raises(CorruptRecords, match=match):
            decompress(codec, data, max_size=max_size)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def snappy(*blocks: bytes) -> bytes:
    return XERIAL_HEADER + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


LZ4_BLOCK_SUM, LZ4_SIZE, LZ4_SUM = 0x10, 0x08, 0x04
LZ4_END = bytes(4)


def lz4(*blocks: bytes, flags: int = 0, size_class: int = 4, end: bytes = LZ4_END) -> bytes:
    """A frame of independent blocks, its sums and size all 0: to be looked at, not to be inflated."""
    head = b"\x04\x22\x4d\x18" + bytes((0x60 | flags, size_class << 4)) + bytes(8 * bool(flags & LZ4_SIZE)) + b"\0"
    sums = bytes(4 * bool(flags & LZ4_BLOCK_SUM))
    return head + b"".join(block + sums for block in blocks) + end + bytes(4 * bool(flags & LZ4_SUM))


def stored(size: int) -> bytes:
    return (1 << 31 | size).to_bytes(4, "little") + bytes(size)


def deflated(size: int) -> bytes:
    return size.to_bytes(4, "little") + bytes(size)


ZSTD_SUM, ZSTD_SINGLE = 0x04, 0x20
RAW, REPEATED, DEFLATED, RESERVED = range(4)


def block(kind: int, size: int, *, last: bool = True) -> bytes:
    return (last | kind << 1 | size << 3).to_bytes(3, "little") + (b"a" if kind == REPEATED else b"a" * size)


def zstd(*blocks: bytes, flags: int = 0, window: bytes = b"\x68", fields: bytes = b"") -> bytes:
    """`fields`: the id of a dictionary, and the size of the content."""
    return b"\x28\xb5\x2f\xfd" + bytes((flags,)) + window + fields + b"".join(blocks)


@pytest.mark.parametrize("codec", DEFLATING)
def test_a_stream_is_corrupt_wherever_it_is_torn(codec: Compression) -> None:
    deflated = compress(codec, b"abc" * 50)
    for length in range(len(deflated)):
        if codec is Compression.SNAPPY and length in range(len(XERIAL_HEADER), len(XERIAL_HEADER) + 4):
            assert bytes(decompress(codec, deflated[:length])) == b""
            continue
        with pytest.raises(CorruptRecords):
            decompress(codec, deflated[:length])


@pytest.mark.parametrize(
    ("parts", "bound"),
    [([100, 100], 200), ([100, 100], 199), ([199, 1], 200), ([200, 1], 200), ([0, 0, 5], 5), ([1, 0, 5], 5)],
)
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD])
def test_all_members_of_a_stream_together_are_bounded(codec: Compression, parts: list[int], bound: int) -> None:
    pieces = [bytes((65 + number,)) * size for number, size in enumerate(parts)]
    if codec is Compression.SNAPPY:
        stream = snappy(*map(raw_snappy, pieces))
    else:
        stream = b"".join(compress(codec, piece) for piece in pieces)
    if sum(parts) <= bound:
        assert bytes(decompress(codec, stream, max_size=bound)) == b"".join(pieces)
        return
    with pytest.raises(
        RecordsError, match=f"{codec.name.lower()} records inflate to more than {bound} bytes"
    ) as refusal:
        decompress(codec, stream, max_size=bound)
    assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", DEFLATING)
def test_a_stream_may_inflate_to_its_bound_and_no_further_also_where_large_buffers_begin(codec: Compression) -> None:
    for size in (0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1):
        data = b"ab" * (size // 2) + b"c" * (size % 2)
        deflated = compress(codec, data)
        assert bytes(decompress(codec, deflated, max_size=size)) == data
        if size:
            with pytest.raises(RecordsError) as refusal:
                decompress(codec, deflated, max_size=size - 1)
            assert refusal.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_deflated_bytes_are_those_of_the_codecs_own_default_level() -> None:
    draw = random.Random(1)
    data = b" ".join(draw.randbytes(draw.randrange(1, 5)) for _ in range(200)) + b"".join(
        draw.choice([b"some", b"records", b"are", b"other", b"than", b"these"])[: draw.randrange(3, 9)]
        for _ in range(5_000)
    )
    for codec, default in ((Compression.GZIP, 6), (Compression.ZSTD, 3)):
        deflated = compress(codec, data)
        assert deflated == compress(codec, data, level=default)
        assert deflated not in [compress(codec, data, level=other) for other in (1, default - 1, default + 1, 9)]
    assert len(compress(Compression.LZ4, data, level=12)) < len(compress(Compression.LZ4, data))
    # A window of 32 KiB, as of all who write gzip: the repetition is farther away than half of that.
    far = random.Random(2).randbytes(20_000)
    assert len(compress(Compression.GZIP, far * 2)) < 25_000


def test_an_lz4_frame_has_sums_of_its_blocks_and_none_of_its_content() -> None:
    flags = compress(Compression.LZ4, b"abc" * 50)[4]
    assert flags & 0x60 == 0x60, "version 1, independent blocks"
    assert not flags & LZ4_SUM


# -- gzip


def test_a_gzip_member_has_a_head_of_deflate_and_its_least_size() -> None:
    member = gzip.compress(b"abc")
    assert most(Compression.GZIP, member) == len(member) * 1032
    assert most(Compression.GZIP, member[:18]) == 18 * 1032
    for damaged in (member[:17], b"\x1e" + member[1:], member[:2] + b"\x07" + member[3:], zlib.compress(b"abc" * 50)):
        with pytest.raises(CorruptRecords, match="no gzip member"):
            most(Compression.GZIP, damaged)
    with pytest.raises(CorruptRecords, match="incorrect header"):
        decompress(Compression.GZIP, zlib.compress(b"abc" * 50))


# -- snappy


def test_a_snappy_stream_is_bounded_by_what_its_blocks_say() -> None:
    hundred, five = raw_snappy(b"a" * 100), raw_snappy(b"bcdef")
    assert most(Compression.SNAPPY, snappy()) == 0
    assert most(Compression.SNAPPY, hundred) == 100
    assert most(Compression.SNAPPY, snappy(hundred)) == 100
    assert most(Compression.SNAPPY, snappy(hundred, five)) == 105
    assert most(Compression.SNAPPY, snappy(hundred, five), max_blocks=2) == 105
    assert most(Compression.SNAPPY, snappy(hundred, five), max_blocks=1) == UNTOLD


def test_a_snappy_header_that_is_torn_is_no_stream_and_a_whole_one_is_empty() -> None:
    assert bytes(decompress(Compression.SNAPPY, XERIAL_HEADER)) == b""
    for length in range(1, 16):
        refused_by_both(Compression.SNAPPY, XERIAL_HEADER[:length])
    # Which version wrote it, readers do not ask.
    for version in (b"\xff" * 4, bytes(4), b"\0\0\0\x64"):
        stream = XERIAL_HEADER[:8] + version * 2 + snappy(raw_snappy(b"abc"))[16:]
        assert bytes(decompress(Compression.SNAPPY, stream)) == b"abc"


@pytest.mark.parametrize(
    ("behind", "message"),
    [
        (bytes(4), "snappy block of 0 bytes, but only 0 remain"),
        (bytes(4) + b"abc", "snappy block of 0 bytes, but only 3 remain"),
        (b"\0\0\0\x04abc", "snappy block of 4 bytes, but only 3 remain"),
        (b"\xff\xff\xff\xff" + b"abc", "snappy block of -1 bytes, but only 3 remain"),
        (b"\0\0\0\x02\x7f", "snappy block of 2 bytes, but only 1 remain"),
    ],
)
def test_a_snappy_block_has_as_many_bytes_as_it_says_and_at_least_one(behind: bytes, message: str) -> None:
    refused_by_both(Compression.SNAPPY, snappy(raw_snappy(b"abc")) + behind, message)


NEXT = XERIAL_HEADER


@pytest.mark.parametrize(
    ("streams", "records", "blocks"),
    [
        ((snappy(raw_snappy(b"abc")), snappy(raw_snappy(b"de"))), b"abcde", 3),
        ((snappy(), snappy(raw_snappy(b"de"))), b"de", 2),
        ((snappy(raw_snappy(b"abc")), snappy()), b"abc", 2),
        ((snappy(raw_snappy(b"abc")), NEXT, NEXT, snappy(raw_snappy(b"d"))), b"abcd", 5),
        ((snappy(raw_snappy(b"abc")), NEXT[:8] + b"\0\0\0\2" * 2, snappy(raw_snappy(b"d"))[16:]), b"abcd", 3),
        ((snappy(raw_snappy(b"abc")), NEXT[:8] + b"\1" + bytes(7), snappy(raw_snappy(b"d"))[16:]), b"abcd", 3),
        ((snappy(raw_snappy(b"abc")), NEXT[:12] + bytes(4), snappy(raw_snappy(b"d"))[16:]), b"abcd", 3),
        ((snappy(raw_snappy(b"abc")), b"?"), b"abc", 2),
        ((snappy(raw_snappy(b"abc")), NEXT[:3]), b"abc", 2),
        ((snappy(), bytes(3)), b"", 1),
    ],
)
def test_snappy_streams_are_read_one_behind_another_and_less_than_a_length_is_ignored(
    streams: tuple[bytes, ...], records: bytes, blocks: int
) -> None:
    stream = b"".join(streams)
    assert bytes(decompress(Compression.SNAPPY, stream)) == records
    assert most(Compression.SNAPPY, stream, max_blocks=blocks) == len(records)
    assert most(Compression.SNAPPY, stream, max_blocks=blocks - 1) == UNTOLD


@pytest.mark.parametrize(
    "behind",
    [
        NEXT[:4],
        NEXT[:9],
        NEXT[:15],
        NEXT[:8] + bytes(8),
        NEXT[:8] + bytes(4) + NEXT[12:],
        NEXT[:8] + bytes(4) + b"\1\0\0\0",
        NEXT[:8] + b"\xff" * 8,
    ],
)
def test_a_next_snappy_stream_has_a_whole_header_of_a_version_that_there_is(behind: bytes) -> None:
    stream = snappy(raw_snappy(b"abc")) + behind
    refused_by_both(Compression.SNAPPY, stream, f"snappy block of -2108469695 bytes, but only {len(behind) - 4} remain")


def test_a_snappy_block_of_one_byte_holds_nothing() -> None:
    assert bytes(decompress(Compression.SNAPPY, snappy(b"\0", raw_snappy(b"abc"), b"\0"))) == b"abc"


def test_a_snappy_block_that_is_damaged_is_corrupt_also_where_its_size_may_be() -> None:
    for damaged in (b"\x05\x00", b"\x08\x0cabcd", b"\x05\x0cabcdef", b"\xff\xff\xff\xff\xff\xff"):
        for stream in (damaged, snappy(damaged)):
            with pytest.raises(CorruptRecords, match="snappy"):
                decompress(Compression.SNAPPY, stream)


def test_a_snappy_block_may_say_24_times_its_size_and_no_more() -> None:
    assert most(Compression.SNAPPY, b"\x48ab") == 72
    with pytest.raises(CorruptRecords, match="snappy block of 3 bytes claims to hold 73"):
        most(Compression.SNAPPY, b"\x49ab")


# -- lz4


@pytest.mark.parametrize(
    ("frame", "bound"),
    [
        (lz4(), 0),
        (lz4(stored(100)), 100),
        (lz4(deflated(3)), 765),
        (lz4(deflated(257)), 65_535),
        (lz4(deflated(258)), 65_536),
        (lz4(stored(65_536), deflated(2), stored(1)), 65_536 + 510 + 1),
        (lz4(deflated(65_536)), 65_536),
        (lz4(deflated(20_000), size_class=5), 256 * 1024),
        (lz4(deflated(20_000), size_class=6), 1024 * 1024),
        (lz4(deflated(20_000), size_class=7), 4 * 1024 * 1024),
        (lz4(stored(256 * 1024), size_class=5), 256 * 1024),
    ],
)
def test_an_lz4_frame_is_bounded_by_what_its_blocks_can_hold(frame: bytes, bound: int) -> None:
    assert most(Compression.LZ4, frame) == bound


@pytest.mark.parametrize("flags", [LZ4_BLOCK_SUM, LZ4_SIZE, LZ4_SUM, LZ4_BLOCK_SUM | LZ4_SIZE | LZ4_SUM])
def test_sums_and_sizes_of_lz4_frames_are_stepped_over(flags: int) -> None:
    frame = lz4(stored(10), deflated(2), flags=flags)
    assert most(Compression.LZ4, frame) == 10 + 510
    refused_by_both(Compression.LZ4, frame + b"?", "^1 bytes follow the lz4 frame")
    what = "its checksum" if flags & LZ4_SUM else "an end mark"
    refused_by_both(Compression.LZ4, frame[:-1], f"lz4 frame without {what}")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (lz4()[:6], "no lz4 frame in 6 bytes"),
        (lz4()[:7], "without an end mark"),
        (b"\x05" + lz4()[1:], "no lz4 frame in 11 bytes"),
        (lz4(stored(65_537)), "lz4 block of 65537 bytes in a frame with blocks of 65536"),
        (lz4(deflated(65_537)), "lz4 block of 65537 bytes in a frame with blocks of 65536"),
        (lz4(stored(262_145), size_class=5), "lz4 block of 262145 bytes in a frame with blocks of 262144"),
        (lz4((1 << 24).to_bytes(4, "little")), "lz4 block of 16777216 bytes"),
        (lz4(stored(10)[:-1], end=b""), "without an end mark"),
        (lz4(stored(10), end=bytes(3)), "without an end mark"),
        (lz4(stored(10), end=b""), "without an end mark"),
        # Kafka's reader takes a stored block of no bytes for the end: its consumers would not see what follows.
        (lz4(stored(0), stored(10)), "lz4 block of 0 bytes"),
        (lz4(stored(10), end=stored(0)), "lz4 block of 0 bytes"),
        (lz4(deflated(1), stored(10)), "lz4 block of 1 bytes"),
        (lz4(stored(10), deflated(1)), "lz4 block of 1 bytes"),
        (lz4(size_class=3), "block size"),
        (lz4(size_class=0), "block size"),
        (lz4(flags=0x80), "version"),
        (lz4(flags=0x01), "flags"),
        (lz4(flags=0x02), "flags"),
        (lz4()[:4] + b"\x20" + lz4()[5:], "version"),
        (lz4()[:4] + b"\x40" + lz4()[5:], "depend"),
        (lz4(flags=LZ4_SUM)[:4] + b"\x44" + lz4(flags=LZ4_SUM)[5:], "depend"),
    ],
)
def test_what_is_no_lz4_frame_is_refused(frame: bytes, message: str) -> None:
    refused_by_both(Compression.LZ4, frame, message)


def test_so_many_blocks_of_an_lz4_frame_are_looked_at() -> None:
    frame = lz4(stored(1), stored(1), stored(1))
    assert most(Compression.LZ4, frame, max_blocks=3) == 3
    assert most(Compression.LZ4, frame, max_blocks=2) == UNTOLD


# -- zstd

SKIPPED = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"?????"


def zstd_sized(width: int, size: int, *blocks: bytes, flags: int = 0) -> bytes:
    """`width`: bytes of the content's size; one needs a single segment, in which there is no byte for the window."""
    flags |= {1: ZSTD_SINGLE, 2: 0x40, 4: 0x80, 8: 0xC0}[width]
    written = (size - 256 * (width == 2)).to_bytes(width, "little")
    return zstd(*blocks, flags=flags, window=b"" if flags & ZSTD_SINGLE else b"\x68", fields=written)


@pytest.mark.parametrize(
    ("stream", "size"),
    [
        (zstd(block(RAW, 4)), 4),
        (zstd(block(RAW, 0)), 0),
        (zstd(block(RAW, 4, last=False), block(REPEATED, 1000, last=False), block(RAW, 1)), 1005),
        (zstd(block(REPEATED, 128 * 1024)), 128 * 1024),
        (zstd(block(RAW, 4)) + zstd(block(RAW, 5)), 9),
        (SKIPPED + zstd(block(RAW, 4)), 4),
        (zstd(block(RAW, 4)) + SKIPPED + SKIPPED + zstd(block(RAW, 5)) + SKIPPED, 9),
        (b"\x5f" + SKIPPED[1:] + zstd(block(RAW, 4)), 4),
        (SKIPPED, 0),
        (zstd_sized(1, 4, block(RAW, 4)), 4),
        (zstd_sized(1, 0, block(RAW, 0)), 0),
        (zstd_sized(2, 300, block(REPEATED, 300)), 300),
        (zstd_sized(2, 256, block(REPEATED, 256)), 256),
        (zstd_sized(4, 300, block(REPEATED, 300)), 300),
        (zstd_sized(8, 300, block(REPEATED, 300)), 300),
        (zstd_sized(4, 300, block(REPEATED, 300), flags=ZSTD_SINGLE), 300),
        (zstd(block(RAW, 4), flags=1, fields=bytes(1)), 4),
        (zstd(block(RAW, 4), flags=2, fields=bytes(2)), 4),
        (zstd(block(RAW, 4), flags=3, fields=bytes(4)), 4),
        (zstd(block(RAW, 4), flags=0x10), 4),
    ],
)
def test_a_zstd_stream_is_bounded_by_its_blocks_and_inflates_to_that(stream: bytes, size: int) -> None:
    assert most(Compression.ZSTD, stream) == size
    assert len(decompress(Compression.ZSTD, stream)) == size


@pytest.mark.parametrize(
    ("stream", "bound"),
    [
        (zstd(block(DEFLATED, 1)), 128 * 1024),
        (zstd(block(DEFLATED, 1, last=False), block(RAW, 3)), 128 * 1024 + 3),
        (zstd_sized(4, 5000, block(DEFLATED, 1)), 5000),
        (zstd(block(RAW, 4), flags=ZSTD_SUM) + bytes(4), 4),
        (zstd(block(RAW, 4), flags=ZSTD_SUM) + bytes(4) + zstd(block(RAW, 5), flags=ZSTD_SUM) + bytes(4), 9),
        (zstd(block(RAW, 4), flags=ZSTD_SUM | 1, fields=b"\x07") + bytes(4), 4),
    ],
)
def test_the_headers_of_a_zstd_stream_tell_the_most_that_it_can_hold(stream: bytes, bound: int) -> None:
    assert most(Compression.ZSTD, stream) == bound


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (b"\x28\xb5\x2f\xfd\x20", "no zstd frame at byte 0 of 5"),
        (b"\x28\xb5\x2f\xfd\x20\x00", "zstd frame without a last block"),
        (b"\x29" + zstd(block(RAW, 4))[1:], "no zstd frame at byte 0 of 13"),
        (zstd(block(RAW, 4)) + b"??", "no zstd frame at byte 13 of 15"),
        (zstd(block(RAW, 4)) + b"?" * 10, "no zstd frame at byte 13 of 23"),
        (zstd(block(RAW, 4)) + SKIPPED + b"?" * 10, "no zstd frame at byte 26 of 36"),
        (b"\x60" + SKIPPED[1:], "no zstd frame at byte 0 of 13"),
        (zstd(block(REPEATED, 128 * 1024 + 1)), "zstd block of kind 1 and 131073 bytes"),
        (zstd(block(RAW, 128 * 1024 + 1)), "zstd block of kind 0 and 131073 bytes"),
        (zstd(block(RESERVED, 4)), "zstd block of kind 3 and 4 bytes"),
        (zstd(block(RAW, 4, last=False)), "zstd frame without a last block"),
        (zstd(block(RAW, 4))[:-5], "zstd frame without a last block"),
        (zstd(block(RAW, 4)) + zstd(block(RAW, 4))[:5], "no zstd frame at byte 13 of 18"),
        (zstd(block(RAW, 4))[:-1], "zstd frame without its last byte"),
        (SKIPPED[:-1], "zstd frame without its last byte"),
        (
            zstd(block(RAW, 4)) + SKIPPED[:4] + (1 << 24).to_bytes(4, "little") + b"?",
            "zstd frame without its last byte",
        ),
        (zstd(block(REPEATED, 4))[:-1], "zstd frame without its last byte"),
        (zstd(block(RAW, 4), flags=ZSTD_SUM) + bytes(3), "zstd frame without its last byte"),
        (zstd_sized(1, 5, block(RAW, 4)), "zstd frame claims 5 bytes and has blocks for 4"),
        (zstd_sized(2, 257, block(REPEATED, 256)), "zstd frame claims 257 bytes and has blocks for 256"),
        (zstd_sized(4, 131_073, block(DEFLATED, 1)), "zstd frame claims 131073 bytes and has blocks for 131072"),
    ],
)
def test_what_is_no_zstd_stream_is_refused(stream: bytes, message: str) -> None:
    refused_by_both(Compression.ZSTD, stream, message)


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        (Compression.ZSTD, zstd(block(DEFLATED, 1))),
        (Compression.ZSTD, zstd(block(RAW, 3), flags=ZSTD_SUM) + bytes(4)),
        (Compression.ZSTD, zstd(block(RAW, 3, last=False), block(DEFLATED, 1))),
        (Compression.LZ4, lz4(deflated(3))),
        (Compression.LZ4, lz4(stored(10))),
    ],
)
def test_what_is_damaged_inside_is_corrupt_and_not_too_large(codec: Compression, stream: bytes) -> None:
    most(codec, stream)
    for max_size in (1 << 26, 3):
        with pytest.raises(CorruptRecords):
            decompress(codec, stream, max_size=max_size)


def test_a_zstd_frame_that_holds_more_than_it_says_is_corrupt_and_not_too_large() -> None:
    with pytest.raises(CorruptRecords):
        decompress(Compression.ZSTD, zstd_sized(1, 3, block(RAW, 4)))


def test_so_many_frames_and_blocks_of_a_zstd_stream_are_looked_at() -> None:
    stream = zstd(block(RAW, 1, last=False), block(RAW, 1))
    assert most(Compression.ZSTD, stream, max_blocks=3) == 2
    assert most(Compression.ZSTD, stream, max_blocks=2) == UNTOLD
    assert most(Compression.ZSTD, stream + stream, max_blocks=6) == 4
    assert most(Compression.ZSTD, stream + stream, max_blocks=5) == UNTOLD
    assert most(Compression.ZSTD, SKIPPED * 3, max_blocks=3) == 0
    assert most(Compression.ZSTD, SKIPPED * 3, max_blocks=2) == UNTOLD
    assert most(Compression.ZSTD, stream + SKIPPED, max_blocks=3) == UNTOLD


# -- names and bombs


@pytest.mark.parametrize(("name", "codec"), [("none", 0), ("uncompressed", 0), ("gzip", 1), ("zstd", 4)])
def test_codecs_have_the_names_of_kafkas_settings(name: str, codec: int) -> None:
    assert Compression.named(name) == codec


def test_an_unknown_codec_name_is_refused() -> None:
    with pytest.raises(ValueError, match="brotli"):
        Compression.named("brotli")


BOMB = """
import resource, sys, zlib, cramjam
from kavka.errors import RecordsError
from kavka.records.compression import Compression, decompress
codec = Compression[sys.argv[1]]
piece = bytes(1 << 20)
if codec is Compression.GZIP:
    c = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(c.compress(piece) for _ in range(1024)) + c.flush()
elif codec is Compression.ZSTD:
    bomb = bytes.fromhex("28b52ffd0068") + b"\\x02\\x00\\x10\\x00" * 8191 + b"\\x03\\x00\\x10\\x00"
else:
    c = cramjam.lz4.Compressor(block_linked=False)
    for _ in range(256):
        c.compress(piece)
    bomb = bytes(c.finish())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(codec, bomb, max_size=4 << 20)
    print("inflated")
except RecordsError as refusal:
    print(refusal.code.name, len(bomb), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("codec", ["GZIP", "LZ4", "ZSTD"])
def test_a_bomb_takes_no_more_memory_than_its_bound(codec: str) -> None:
    done = subprocess.run([sys.executable, "-c", BOMB, codec], capture_output=True, text=True, check=True, timeout=60)
    name, bomb_bytes, grown_kib = done.stdout.split()
    assert name == "MESSAGE_TOO_LARGE"
    assert int(bomb_bytes) < 3_000_000
    assert int(grown_kib) < 24 * 1024
