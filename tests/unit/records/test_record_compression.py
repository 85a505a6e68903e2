"""The codecs: what other clients write is read, and nothing inflates beyond its bound."""

import gzip
import os
import random
import subprocess
import sys
import time

import cramjam
import pytest

from kavka.errors import CorruptRecords, ErrorCode, RecordsError
from kavka.records.compression import UNTOLD, XERIAL_BLOCK_BYTES, Compression, check_frame, compress, decompress

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
