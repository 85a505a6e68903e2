"""Followers over simulated networks and disks, against real leaders."""

from __future__ import annotations

from fetching_support import ORDERS, World


def test_records_arrive_byte_for_byte_and_the_high_watermark_follows() -> None:
    world = World()
    leader, second, third = world.node(1), world.node(2), world.node(3)
    world.lead(1, 0)
    leader.append(b"a", b"b")
    world.run_until(lambda: second.end() == third.end() == 2)
    leader.append(b"c")
    world.run_until(lambda: second.high_watermark() == 3 and third.high_watermark() == 3)
    assert second.bytes_of() == third.bytes_of() == leader.bytes_of()
    assert leader.high_watermark() == 3
    assert ORDERS in second.advanced
