"""A bad cable: packets of some ways are lost, come twice, come late and overtake each other.

It does what tc's netem does, for kernels that lack it: a program in the hub of a NetworkLab that reads IP packets from
a TUN device, which the hub's rules lead there, and writes them to it again, later or never.

Ways   (source address, target address) -> Quality; a packet of another way goes on at once
Orders lines of JSON on standard input, [source, target, [lost, twice, late, shortest_s, longest_s]] or
       [source, target, null]; the end of input ends the program

I1  A packet whose way has no Quality keeps its place among those of its way that go on at once.
I2  At most HELD packets wait; more are lost, as in any queue.

Source: tc-netem(8); Linux, Documentation/networking/tuntap.rst.
"""

from __future__ import annotations

import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from typing import Final, NamedTuple

DEVICE: Final = "cable"
READY: Final = "ready"
HELD: Final = 20_000
PACKET_BYTES: Final = 65_536
TUNSETIFF: Final = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
ADDRESSES: Final = slice(12, 20)
"""Of source and target in an IPv4 header."""
IDLE_S: Final = 3600.0


class Quality(NamedTuple):
    """Shares of packets from 0 to 1. Those that are late wait between shortest_s and longest_s, drawn for each, and so
    overtake each other; the others do not wait."""

    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0
    shortest_s: float = 0.0
    longest_s: float = 0.0


class Cable:
    """What becomes of packets; it knows no device and no clock."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ways: dict[bytes, Quality] = {}
        self._waiting: list[tuple[float, int, bytes]] = []
        self._taken = 0

    def order(self, source: str, target: str, quality: Quality | None) -> None:
        way = _address(source) + _address(target)
        if quality is None:
            self._ways.pop(way, None)
        else:
            self._ways[way] = quality

    def take(self, packet: bytes, now: float) -> None:
        quality = self._ways.get(packet[ADDRESSES], Quality())
        if self._random.random() < quality.lost:
            return
        for _ in range(2 if self._random.random() < quality.twice else 1):
            late = self._random.random() < quality.late
            due = now + (self._random.uniform(quality.shortest_s, quality.longest_s) if late else 0.0)
            self._taken += 1
            if len(self._waiting) < HELD:
                heapq.heappush(self._waiting, (due, self._taken, packet))

    def give(self, now: float) -> list[bytes]:
        """Those whose time has come, in the order of their times."""
        given = []
        while self._waiting and self._waiting[0][0] <= now:
            given.append(heapq.heappop(self._waiting)[2])
        return given

    @property
    def next_at(self) -> float | None:
        return self._waiting[0][0] if self._waiting else None


def _address(text: str) -> bytes:
    return bytes(int(part) for part in text.split("."))


def main() -> int:
    cable, device = Cable(int(sys.argv[1])), os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    print(READY, flush=True)
    orders = b""
    while True:
        wait_s = IDLE_S if cable.next_at is None else max(cable.next_at - time.monotonic(), 0.0)
        ready, _, _ = select.select([device, sys.stdin], [], [], wait_s)
        if sys.stdin in ready:
            read = os.read(sys.stdin.fileno(), PACKET_BYTES)
            if not read:
                return 0
            *lines, orders = (orders + read).split(b"\n")
            for line in lines:
                source, target, quality = json.loads(line)
                cable.order(source, target, None if quality is None else Quality(*quality))
        if device in ready:
            cable.take(os.read(device, PACKET_BYTES), time.monotonic())
        for packet in cable.give(time.monotonic()):
            try:
                os.write(device, packet)
            except OSError:
                continue  # The device is not up yet, or the way ends nowhere: lost.


if __name__ == "__main__":
    sys.exit(main())
