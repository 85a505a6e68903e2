"""Replica logs: are the logs of a partition's replicas the same, byte for byte, below the high watermark?

Reads the segments of stopped brokers. It knows of the format only how a batch tells its offsets and its length, so that
it is no judge by kavka's own reading.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

# base offset i64, batch length i32, leader epoch i32, magic i8, crc u32, attributes i16, last offset delta i32,
# timestamps 2 * i64, producer id i64, producer epoch i16
HEADER = struct.Struct(">qiibIhi16xqh")
BYTES_BEFORE_LENGTH_COUNTS = 12


class StoredBatch(NamedTuple):
    """One batch on disk; digest: of all its bytes, leader epoch included."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    digest: bytes
    producer_id: int
    producer_epoch: int


def read_log(directory: Path) -> Iterator[StoredBatch]:
    """Every whole batch of a partition's directory, in order."""
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            (base_offset, length, leader_epoch, _magic, _crc, _attributes, delta, producer_id, producer_epoch) = (
                HEADER.unpack_from(data, position)
            )
            end = position + BYTES_BEFORE_LENGTH_COUNTS + length
            if length <= 0 or end > len(data):
                break
            digest = hashlib.blake2b(data[position:end], digest_size=16).digest()
            last_offset = base_offset + delta
            yield StoredBatch(base_offset, last_offset, leader_epoch, digest, producer_id, producer_epoch)
            position = end


def differences(directories: Mapping[int, Path], high_watermark: int) -> list[str]:
    """directories: by broker id. What is not the same below the high watermark, in words; the first of each broker."""
    logs = {
        broker_id: [batch for batch in read_log(directory) if batch.last_offset < high_watermark]
        for broker_id, directory in directories.items()
    }
    reference_id = max(logs, key=lambda broker_id: len(logs[broker_id]))
    reference, found = logs[reference_id], []
    if high_watermark > 0 and (not reference or reference[-1].last_offset != high_watermark - 1):
        found.append(f"no replica holds all records below the high watermark {high_watermark}")
    for broker_id, log in logs.items():
        for index, batch in enumerate(reference):
            if index >= len(log):
                found.append(f"broker {broker_id} ends before {batch.base_offset}, which broker {reference_id} has")
                break
            if log[index] != batch:
                found.append(f"broker {broker_id} has {_text(log[index])}, broker {reference_id} {_text(batch)}")
                break
    return found


def _text(batch: StoredBatch) -> str:
    return f"{batch.base_offset}..{batch.last_offset} of epoch {batch.leader_epoch} ({batch.digest.hex()[:8]})"
