"""FlightRing: one broker's flight recording as it lies on its disk, read from the older file to the newer.

Decides what of damaged files can be read. Must not know what entries mean.

    I1  what is whole is read, whatever is broken before or behind it; what is not is named as a `Gap`, with its place
    I2  one file's bytes and one block's entries are in memory at a time
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kavka.flight.format import FLIGHT_FILES, Cut, Entry, MalformedEntry, blocks, entries

RING_DEPTH: Final = 3
"""How far below a directory rings are looked for: data/broker-1/logs."""


class Told(NamedTuple):
    """An entry. Its times are by the broker's own clock; `wall_ahead_ms` more is what its wall clock showed."""

    wall_ms: int
    """When its block was written."""
    wall_ahead_ms: int
    entry: Entry


class Gap(NamedTuple):
    """Something that could not be read. `at_end`: nothing of the file follows; so it is after a kill -9."""

    path: str
    position: int
    length: int
    why: str
    at_end: bool

    def __str__(self) -> str:
        return f"{self.path}: {self.length:,} bytes at {self.position:,} cannot be read: {self.why}"


class FlightRing(NamedTuple):
    """The files of one broker, older first."""

    directory: str
    paths: tuple[str, ...]

    def read(self) -> Iterator[Told | Gap]:
        """All of it, in order. Raises OSError."""
        for path in self.paths:
            with open(path, "rb") as file:
                data = file.read()
            yield from read_file(path, data)


def read_file(path: str, data: bytes) -> Iterator[Told | Gap]:
    for block in blocks(data):
        if isinstance(block, Cut):
            length = block.until - block.position
            yield Gap(path, block.position, length, block.why, block.until == len(data))
            continue
        ahead_ms = block.wall_ms - block.clock_ms
        try:
            for entry in entries(block.entries):
                yield Told(block.wall_ms, ahead_ms, entry)
        except MalformedEntry as problem:
            yield Gap(path, 0, len(block.entries), str(problem), at_end=False)


def find_rings(directories: Sequence[str], depth: int = RING_DEPTH) -> list[FlightRing]:
    """The rings in these directories and up to `depth` below. Raises OSError where one of them cannot be read."""
    found: dict[str, None] = {}
    for directory in directories:
        for each in _directories(directory, depth):
            found[os.path.realpath(each)] = None
    rings = []
    for directory in found:
        paths = tuple(path for name in FLIGHT_FILES if os.path.isfile(path := os.path.join(directory, name)))
        if paths:
            rings.append(FlightRing(directory, paths))
    return rings


def _directories(directory: str, depth: int) -> Iterator[str]:
    yield directory
    if depth:
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _directories(entry.path, depth - 1)
