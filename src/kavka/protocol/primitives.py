"""The wire's smallest pieces: variable-length integers, ids, and the sizes of record batches.

Everything here is called by the functions that compiler.py writes, and by nobody who reads a message. A reader gets the
whole message (`data`), a position and the message's end; nothing is allocated before it is known to fit what remains.

Encoding of an unsigned varint (KIP-482): seven bits a byte, lowest first, the eighth bit set on all but the last; five
bytes at most, the fifth with at most four bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias
from uuid import UUID

from kavka.errors import ProtocolViolation
from kavka.model import Chunk, FileSlice
from kavka.protocol.schema import ZERO_UUID, Records

Buffer: TypeAlias = bytes | bytearray | memoryview

STRING_MAX_BYTES = 32_767
"""Kafka's limit on a string, also where the length is a varint: older versions write it as an int16."""

UUID_CACHE_ENTRIES = 4_096
"""Ids of topics and directories come again with every request; this many are kept as objects."""

_IN_MEMORY = (bytes, bytearray, memoryview)
_ONE_CHUNK = (bytes, bytearray, memoryview, FileSlice)

ONE_BYTE = tuple(bytes([value]) for value in range(128))
"""The varints 0 to 127, encoded."""

UUIDS: dict[bytes, UUID] = {bytes(16): ZERO_UUID}
"""Ids seen lately, by their 16 bytes. A pure cache: what it holds cannot be seen from outside."""


def uvarint(value: int) -> bytes:
    """Encodes `value`, 0 to 2**32 - 1."""
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value > 127:
        encoded.append((value & 0x7F) | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def uvarint_tail(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """The value of a varint whose first byte, over 127, has been read, and the position behind it.

    Raises ProtocolViolation if it has more than five bytes or is over 2**32 - 1, IndexError if the bytes end within it.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        if byte < 0x80:
            value |= byte << shift
            if value > 0xFFFF_FFFF:
                raise ProtocolViolation(f"varint over 32 bits before byte {position}")
            return value, position
        value |= (byte & 0x7F) << shift
    raise ProtocolViolation(f"varint of more than 5 bytes before byte {position}")


def skip_tags(data: Buffer, position: int, end: int, count: int) -> int:
    """Skips the tagged fields of a struct that knows none; `count` is the first byte of their number."""
    if count > 127:
        count, position = uvarint_tail(data, position, count)
    if count * 2 > end - position:
        raise too_many("tagged fields", count, end - position)
    for _ in range(count):
        tag = data[position]
        position += 1
        if tag > 127:
            tag, position = uvarint_tail(data, position, tag)
        size = data[position]
        position += 1
        if size > 127:
            size, position = uvarint_tail(data, position, size)
        position += size
        if position > end:
            raise too_short(f"tagged field {tag}", size, end - position + size)
    return position


def make_uuid(raw: bytes) -> UUID:
    """The id of these 16 bytes, remembered."""
    if len(UUIDS) >= UUID_CACHE_ENTRIES:
        UUIDS.clear()
    made = UUIDS[raw] = UUID(bytes=raw)
    return made


def records_size(value: Records) -> int:
    """Bytes that `value` puts on the wire."""
    if isinstance(value, FileSlice):
        return value.length
    if isinstance(value, _IN_MEMORY):
        return len(value)
    size = 0
    for piece in value:
        size += piece.length if isinstance(piece, FileSlice) else len(piece)
    return size


def append_records(chunks: list[Chunk], value: Records) -> None:
    """Puts the pieces of `value` behind `chunks`, by reference."""
    if isinstance(value, _ONE_CHUNK):
        chunks.append(value)
    else:
        chunks.extend(value)


def records_bytes(value: Records) -> Buffer:
    """All of `value` in memory."""
    if isinstance(value, _IN_MEMORY):
        return value
    if isinstance(value, FileSlice):
        return _whole(value)
    return b"".join(records_bytes(piece) for piece in value)


def _whole(piece: FileSlice) -> bytes:
    read = piece.tobytes()
    if len(read) != piece.length:
        raise EOFError(f"slice of {piece.length} bytes at {piece.position} has only {len(read)} left")
    return read


def encode_tags(tags: Sequence[tuple[int, bytes | bytearray]]) -> bytearray:
    """A struct's tagged fields, which come in the order of their tags."""
    out = bytearray(uvarint(len(tags)))
    for tag, value in tags:
        out += uvarint(tag)
        out += uvarint(len(value))
        out += value
    return out


def too_short(what: str, length: int, remaining: int) -> ProtocolViolation:
    return ProtocolViolation(f"{what}: {length} bytes announced, {remaining} remain")


def too_many(what: str, count: int, remaining: int) -> ProtocolViolation:
    return ProtocolViolation(f"{what}: {count} elements announced, {remaining} bytes remain")


def not_nullable(what: str) -> ProtocolViolation:
    return ProtocolViolation(f"{what}: null, but it must have a value")


def too_long(what: str, length: Any) -> ProtocolViolation:
    return ProtocolViolation(f"{what}: a string of {length} bytes, at most {STRING_MAX_BYTES} are allowed")
