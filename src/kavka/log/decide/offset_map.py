"""OffsetMap: the latest offset of each key, in bounded memory.

Decides which record of a key is the latest, and when no more keys fit. It must not know records or segments.

Invariants
  I1  At most `max_keys` keys are held.
  I2  Two keys share an entry only if they have the same 128 bits of BLAKE2b, which cannot be found on purpose. Keys of
      up to DIRECT_KEY_BYTES never do. (Kafka holds the MD5 of every key.)

Source: Kafka's SkimpyOffsetMap, there an open hash table of 24 bytes an entry in a buffer that is laid out beforehand.
A dict takes several times as much per key and nothing while no log is cleaned; ENTRY_BYTES is what it takes.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from kavka.model import NO_OFFSET, Offset

DIRECT_KEY_BYTES: Final = 32
"""Keys up to this many bytes are kept as they are: a digest, with its overhead, would not be shorter."""
ENTRY_BYTES: Final = 220
"""Measured: bytes for each entry, at most, in a dict of 1,000,000 keys of 32 bytes with their offsets."""
_DIGEST_BYTES: Final = 16
_DIGEST_MARK: Final = bytes(DIRECT_KEY_BYTES)
"""In front of a digest, so that no key which is held as it is equals one."""


class OffsetMap:
    """Keys to offsets. `latest_offset` is the last offset that was looked at, -1 for none."""

    __slots__ = ("_offsets", "latest_offset", "max_keys")

    def __init__(self, memory_bytes: int, load_factor: float = 1.0) -> None:
        # As a setting it may be any number, and none: NaN is not below 1.
        share = max(load_factor, 0.0) if load_factor < 1.0 else 1.0
        self.max_keys = max(int(memory_bytes * share) // ENTRY_BYTES, 1)
        self.latest_offset: Offset = NO_OFFSET
        self._offsets: dict[bytes, Offset] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, key: bytes, offset: Offset) -> bool:
        """Records that `key` is at `offset`, above all before. False if it is new and does not fit."""
        offsets = self._offsets
        held = key if len(key) <= DIRECT_KEY_BYTES else _digest(key)
        if len(offsets) >= self.max_keys and held not in offsets:
            return False
        offsets[held] = offset
        return True

    def get(self, key: bytes) -> Offset:
        """The latest offset of `key`, -1 if it was not seen."""
        return self._offsets.get(key if len(key) <= DIRECT_KEY_BYTES else _digest(key), NO_OFFSET)

    @property
    def utilization(self) -> float:
        """The share of the memory that is in use, 0 to 1."""
        return len(self._offsets) / self.max_keys


def _digest(key: bytes) -> bytes:
    return _DIGEST_MARK + blake2b(key, digest_size=_DIGEST_BYTES).digest()
