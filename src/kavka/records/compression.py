"""The five codecs of a record batch, and inflation that cannot be made to run away.

Decides how bytes are deflated and inflated as Kafka's own clients do it. Knows nothing of batches or records.

Invariants
  I1  `decompress` returns at most `max_size` bytes and never holds much more than that, whatever the input claims.
  I2  Bytes that are no valid stream of the codec raise `CorruptRecords`; more than `max_size` bytes raise
      `RecordsError(MESSAGE_TOO_LARGE)`. Nothing else is raised.

How each codec is bounded: zlib takes a bound for its output; a raw snappy block opens with its size; zstd frames and
an LZ4 frame are walked block by block, by their headers alone, for the most that they can hold, and are then inflated
into one buffer of that size. Large buffers are anonymous maps, so that a bound that is not used up costs no memory.

Formats: RFC 1952 (gzip), RFC 8878 (zstd), the LZ4 frame format 1.6, and for snappy what snappy-java writes: a 16-byte
header `82 "SNAPPY" 00`, version i32, compatible version i32, then blocks of a big-endian i32 length and raw snappy, and
perhaps such streams one behind another. Raw snappy without that header is read too, as Kafka's Java clients do.
"""

from __future__ import annotations

import mmap
import zlib
from enum import IntEnum
from typing import TypeAlias

import cramjam

from kavka.errors import CorruptRecords, ErrorCode, RecordsError

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_INFLATED_BYTES = 64 * 1024 * 1024
"""Bound on one batch's inflated records where the caller names none: 60 times Kafka's default max.message.bytes."""

XERIAL_HEADER = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") + (1).to_bytes(4, "big")
_XERIAL_MAGIC = XERIAL_HEADER[:8]
_XERIAL_MARK = int.from_bytes(XERIAL_HEADER[:4], "big", signed=True)
XERIAL_BLOCK_BYTES = 32 * 1024
"""Block size of snappy-java and of every client that followed it."""
_SNAPPY_MAX_RATIO = 24
"""A snappy element of 3 bytes yields at most 64 bytes."""

UNTOLD = 1 << 62
"""Answer of `check_frame` where the blocks are too many to be looked at."""
_GZIP_MIN_BYTES = 18
_GZIP_PIECE_BYTES = 512
_GZIP_PIECE_GROWTH = 4
"""What a member is given at first, and how much more each time: zlib copies what it does not take, so that thousands of
small members that are given all that is there would take as many copies of it."""
_GZIP_MAX_RATIO = 1032
"""Deflate's limit: 258 bytes for two bits."""

_LZ4_MAGIC = 0x184D2204
_LZ4_MAX_RATIO = 255
_LZ4_BLOCK_BYTES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_BYTES = 128 * 1024
_SKIPPABLE_MAGICS = range(0x184D2A50, 0x184D2A60)
_MAPPED_FROM_BYTES = 1024 * 1024
"""bytearray(n) writes n zeros at once; above this an anonymous map pays, whose pages appear as they are used."""


class Compression(IntEnum):
    """Codec of a batch: bits 0-2 of its attributes. Names and numbers are Kafka's."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def named(cls, name: str) -> Compression:
        """The codec called `name` in Kafka's settings: none, uncompressed, gzip, snappy, lz4, zstd; else ValueError."""
        try:
            return cls.NONE if name == "uncompressed" else cls[name.upper()]
        except KeyError:
            raise ValueError(f"unknown compression type {name!r}: expected none, gzip, snappy, lz4 or zstd") from None


def compress(codec: Compression, data: Buffer, *, level: int | None = None) -> bytes:
    """`data` deflated. `level` is the codec's own scale (gzip 1-9, lz4 1-17, zstd -131072-22), None its default."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            deflater = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
            return deflater.compress(data) + deflater.flush()
        case Compression.SNAPPY:
            return _compress_xerial(data)
        case Compression.LZ4:
            # Kafka refuses frames whose blocks depend on one another, which is this library's default.
            frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
            frame.compress(bytes(data))
            return bytes(frame.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Compression, data: Buffer, *, max_size: int = MAX_INFLATED_BYTES) -> Buffer:
    """`data` inflated to at most `max_size` bytes; the answer may be a view onto `data` or onto a map.

    Raises `CorruptRecords` for what is no stream of the codec and `RecordsError(MESSAGE_TOO_LARGE)` for one that
    inflates to more.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _inflate_gzip(data, max_size)
        case Compression.SNAPPY:
            return _inflate_snappy(data, max_size)
        case Compression.LZ4:
            return _inflate_into(
                cramjam.lz4.decompress_into, "lz4", data, _lz4_bound(memoryview(data), len(data)), max_size
            )
        case Compression.ZSTD:
            return _inflate_into(
                cramjam.zstd.decompress_into, "zstd", data, _zstd_bound(memoryview(data), len(data)), max_size
            )


def check_frame(codec: Compression, data: memoryview, *, max_blocks: int) -> int:
    """The most bytes that `data` can inflate to, according to the headers of its frame and blocks; nothing is inflated.

    Gives up after `max_blocks` blocks, so that its cost is bounded, and then answers with `UNTOLD`. Raises
    `CorruptRecords` for what is no stream of the codec, as far as it looked.
    """
    match codec:
        case Compression.NONE:
            return len(data)
        case Compression.GZIP:
            if len(data) < _GZIP_MIN_BYTES or bytes(data[:3]) != b"\x1f\x8b\x08":
                raise CorruptRecords(f"no gzip member in {len(data)} bytes")
            return len(data) * _GZIP_MAX_RATIO
        case Compression.SNAPPY:
            return _snappy_bound(data, max_blocks)
        case Compression.LZ4:
            return _lz4_bound(data, max_blocks)
        case Compression.ZSTD:
            return _zstd_bound(data, max_blocks)


def _too_large(codec: str, max_size: int) -> RecordsError:
    return RecordsError(ErrorCode.MESSAGE_TOO_LARGE, f"{codec} records inflate to more than {max_size} bytes")


def _inflate_gzip(data: Buffer, max_size: int) -> Buffer:
    """All members of a gzip file in order. What follows the last one is ignored, as in Java."""
    view = memoryview(data)
    parts: list[bytes] = []
    left = max_size
    # One member is the rule: it is given all.
    position, piece_bytes = 0, len(view)
    while True:
        inflater = zlib.decompressobj(31)
        while not inflater.eof:
            if position >= len(view):
                raise CorruptRecords(f"gzip records end early after {len(data)} bytes")
            piece = view[position : position + piece_bytes]
            try:
                part = inflater.decompress(piece, left + 1)
            except zlib.error as failure:
                raise CorruptRecords(f"gzip records: {failure}") from failure
            if len(part) > left:
                raise _too_large("gzip", max_size)
            parts.append(part)
            left -= len(part)
            position += len(piece) - len(inflater.unused_data)
            piece_bytes *= _GZIP_PIECE_GROWTH
        if bytes(view[position : position + 2]) != b"\x1f\x8b":
            return b"".join(parts)
        piece_bytes = _GZIP_PIECE_BYTES


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _inflate_snappy(data: Buffer, max_size: int) -> Buffer:
    view = memoryview(data)
    if not _is_xerial(view):
        return _inflate_snappy_block(view, max_size, max_size)
    parts: list[Buffer] = []
    left = max_size
    position = len(XERIAL_HEADER)
    while position < len(view):
        position, block = _next_snappy_block(view, position)
        if block is None:
            continue
        part = _inflate_snappy_block(block, left, max_size)
        parts.append(part)
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _snappy_bound(view: memoryview, max_blocks: int) -> int:
    if not _is_xerial(view):
        return _snappy_block_size(view)
    bound = blocks = 0
    position = len(XERIAL_HEADER)
    while position < len(view):
        blocks += 1
        if blocks > max_blocks:
            return UNTOLD
        position, block = _next_snappy_block(view, position)
        bound += 0 if block is None else _snappy_block_size(block)
    return bound


def _is_xerial(view: memoryview) -> bool:
    """Whether the header is there, and whole; which versions it names no reader asks."""
    return len(view) >= len(XERIAL_HEADER) and view[:8] == _XERIAL_MAGIC


def _next_snappy_block(view: memoryview, position: int) -> tuple[int, memoryview | None]:
    """(position behind the block, the block) at `position`, where its length stands.

    None for what is stepped over, as in snappy-java: the header of another stream, and less than a length at the end.
    """
    if len(view) - position < 4:
        return len(view), None
    length = int.from_bytes(view[position : position + 4], "big", signed=True)
    if length == _XERIAL_MARK and _is_next_stream(view[position : position + len(XERIAL_HEADER)]):
        return position + len(XERIAL_HEADER), None
    position += 4
    if not 0 < length <= len(view) - position:
        raise CorruptRecords(f"snappy block of {length} bytes, but only {len(view) - position} remain")
    return position + length, view[position : position + length]


def _is_next_stream(header: memoryview) -> bool:
    """Unlike of the first header, readers ask of the next ones for their version: one that is at least 1."""
    return _is_xerial(header) and int.from_bytes(header[8:12], "big", signed=True) >= 1


def _snappy_block_size(block: memoryview) -> int:
    try:
        size: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as failure:
        raise CorruptRecords(f"snappy records: {failure}") from failure
    if size > len(block) * _SNAPPY_MAX_RATIO:
        raise CorruptRecords(f"snappy block of {len(block)} bytes claims to hold {size}")
    return size


def _inflate_snappy_block(block: memoryview, left: int, max_size: int) -> Buffer:
    size = _snappy_block_size(block)
    if size > left:
        raise _too_large("snappy", max_size)
    target = _buffer(size)
    try:
        written: int = cramjam.snappy.decompress_raw_into(block, target)
    except cramjam.DecompressionError as failure:
        raise CorruptRecords(f"snappy records: {failure}") from failure
    if written != size:
        raise CorruptRecords(f"snappy block claims to hold {size} bytes and holds {written}")
    return memoryview(target)


def _inflate_into(inflate: object, codec: str, data: Buffer, bound: int, max_size: int) -> Buffer:
    """Inflates into one buffer of the smaller of `bound` (what `data` can hold at most) and `max_size` bytes."""
    target = _buffer(min(bound, max_size))
    try:
        written: int = inflate(data, target)  # type: ignore[operator]  # cramjam's functions carry no common type
    except cramjam.DecompressionError as failure:
        # The library says "failed to write whole buffer" (Rust's WriteZero) where the target is full.
        if bound > max_size and "whole buffer" in str(failure):
            raise _too_large(codec, max_size) from failure
        raise CorruptRecords(f"{codec} records: {failure}") from failure
    return memoryview(target)[:written]


def _buffer(size: int) -> bytearray | mmap.mmap:
    return bytearray(size) if size < _MAPPED_FROM_BYTES else mmap.mmap(-1, size)


def _lz4_bound(view: memoryview, max_blocks: int) -> int:
    """The most that the LZ4 frame in `view` can inflate to; raises `CorruptRecords` for what is not one such frame.

    A second frame is refused: Kafka's reader ends with the first one, and would not come past a batch of two. A block
    that holds nothing (a stored one of no bytes, a deflated one of one) is refused for the same reason: that reader
    takes it for the end.

    | offset | width | field                                                                               |
    |      0 |     4 | magic, little-endian                                                                |
    |      4 |     1 | flags: version 01, independent, block sum, content size, content sum, two that are 0 |
    |      5 |     1 | block size class in bits 4-6                                                        |
    |      6 |   0/8 | content size                                                                        |
    |        |     1 | header checksum                                                                     |
    |        |     4 | per block: length, high bit set where it is stored; 0 ends the frame                |
    """
    end = len(view)
    if end < 7 or int.from_bytes(view[:4], "little") != _LZ4_MAGIC:
        raise CorruptRecords(f"no lz4 frame in {end} bytes")
    flags = view[4]
    block_bytes = _LZ4_BLOCK_BYTES.get(view[5] >> 4 & 7)
    if flags >> 6 != 1 or flags & 3 or block_bytes is None:
        raise CorruptRecords(f"lz4 frame with unknown version, flags or block size (flags {flags:#04x})")
    if not flags & 0x20:
        raise CorruptRecords("lz4 frame whose blocks depend on one another")
    block_sum_bytes = 4 if flags & 0x10 else 0
    position = 7 + (8 if flags & 0x08 else 0)
    bound = blocks = 0
    while True:
        length = int.from_bytes(view[position : position + 4], "little")
        position += 4
        if position > end:
            raise CorruptRecords("lz4 frame without an end mark")
        if length == 0:
            break
        stored = length >> 31
        length &= 0x7FFFFFFF
        if not 2 - stored <= length <= block_bytes:
            raise CorruptRecords(f"lz4 block of {length} bytes in a frame with blocks of {block_bytes}")
        blocks += 1
        if blocks > max_blocks:
            return UNTOLD
        bound += length if stored else min(block_bytes, length * _LZ4_MAX_RATIO)
        position += length + block_sum_bytes
    position += 4 if flags & 0x04 else 0
    if position > end:
        raise CorruptRecords("lz4 frame without its checksum")
    if position < end:
        raise CorruptRecords(f"{end - position} bytes follow the lz4 frame")
    return bound


def _zstd_bound(view: memoryview, max_blocks: int) -> int:
    """The most that the zstd frames in `view` can inflate to; raises `CorruptRecords` for what is no such frame.

    A frame: magic u32 little-endian, descriptor u8 (bits 6-7 width of the content size, 5 single segment, 2 checksum,
    0-1 width of the dictionary id), window u8 unless single segment, dictionary id, content size, then blocks: a
    little-endian u24 header (bit 0 last, bits 1-2 kind, the rest the size) and their bytes.
    """
    end = len(view)
    position = bound = blocks = 0
    while position < end:
        magic = int.from_bytes(view[position : position + 4], "little")
        blocks += 1
        if blocks > max_blocks:
            return UNTOLD
        if magic in _SKIPPABLE_MAGICS:
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            continue
        if magic != _ZSTD_MAGIC or end - position < 6:
            raise CorruptRecords(f"no zstd frame at byte {position} of {end}")
        descriptor = view[position + 4]
        single_segment = descriptor >> 5 & 1
        size_width = (single_segment, 2, 4, 8)[descriptor >> 6]
        position += 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
        content_size = int.from_bytes(view[position : position + size_width], "little")
        position += size_width
        frame_bound = 0
        last = False
        while not last:
            block = int.from_bytes(view[position : position + 3], "little")
            position += 3
            if position > end:
                raise CorruptRecords("zstd frame without a last block")
            last = bool(block & 1)
            kind = block >> 1 & 3
            size = block >> 3
            if kind == 3 or size > _ZSTD_BLOCK_BYTES:
                raise CorruptRecords(f"zstd block of kind {kind} and {size} bytes")
            blocks += 1
            if blocks > max_blocks:
                return UNTOLD
            frame_bound += size if kind < 2 else _ZSTD_BLOCK_BYTES
            position += 1 if kind == 1 else size
        position += 4 if descriptor & 4 else 0
        if size_width:
            # A one- or two-byte size field cannot be empty; two bytes count from 256.
            content_size += 256 if size_width == 2 else 0
            if content_size > frame_bound:
                raise CorruptRecords(f"zstd frame claims {content_size} bytes and has blocks for {frame_bound}")
            frame_bound = content_size
        bound += frame_bound
    if position > end:
        raise CorruptRecords("zstd frame without its last byte")
    return bound
