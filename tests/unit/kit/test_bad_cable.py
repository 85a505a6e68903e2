"""What a bad cable does to packets, by itself and between two hosts of a lab."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from tests.kit.bad_cable import HELD, Cable, Quality
from tests.kit.network_lab import CLIENT, NetworkLab, NoNetworkLab

ONE, OTHER = "10.220.1.2", "10.220.2.2"
PACKETS = 400
PORT = 9
RECEIVER = """
import select, socket, sys
listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listening.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
heard, silence_s = [listening, sys.stdin], None
while ready := select.select(heard, [], [], silence_s)[0]:
    if listening in ready:
        print(listening.recv(100).decode(), flush=True)
    if sys.stdin in ready:
        heard, silence_s = [listening], 1.5
"""
SENDER = """
import socket, sys, time
sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[3])):
    sending.sendto(str(number).encode(), (sys.argv[1], int(sys.argv[2])))
    time.sleep(0.001)
"""


def packet(source: str, target: str, number: int = 0) -> bytes:
    addresses = bytes(int(part) for part in f"{source}.{target}".split("."))
    return bytes(12) + addresses + number.to_bytes(4, "big")


def test_a_way_that_is_not_bad_keeps_all_packets_in_order() -> None:
    cable = Cable(1)
    cable.order(ONE, OTHER, Quality(lost=1.0))
    sent = [packet(OTHER, ONE, number) for number in range(100)]
    for one in sent:
        cable.take(one, 5.0)
    assert cable.give(5.0) == sent


def test_a_bad_way_loses_doubles_and_delays_its_share() -> None:
    cable = Cable(1)
    cable.order(ONE, OTHER, Quality(lost=0.25, twice=0.1, late=0.5, shortest_s=0.1, longest_s=0.2))
    sent = [packet(ONE, OTHER, number) for number in range(2000)]
    for one in sent:
        cable.take(one, 5.0)
    at_once, later = cable.give(5.0), cable.give(5.2)

    assert cable.next_at is None
    given = at_once + later
    assert 1400 < len(set(given)) < 1600
    assert 100 < len(given) - len(set(given)) < 200
    assert 0.45 < len(later) / len(given) < 0.55
    assert later != sorted(later)


def test_what_is_late_is_due_between_the_shortest_and_the_longest_time() -> None:
    cable = Cable(1)
    cable.order(ONE, OTHER, Quality(late=1.0, shortest_s=0.1, longest_s=0.2))
    cable.take(packet(ONE, OTHER), 5.0)
    assert cable.give(5.09) == []
    assert cable.next_at is not None
    assert 5.1 <= cable.next_at <= 5.2


def test_a_way_that_is_healed_loses_nothing_any_more() -> None:
    cable = Cable(1)
    cable.order(ONE, OTHER, Quality(lost=1.0))
    cable.order(ONE, OTHER, None)
    cable.take(packet(ONE, OTHER), 5.0)
    assert len(cable.give(5.0)) == 1


def test_what_does_not_fit_is_lost() -> None:
    cable = Cable(1)
    cable.order(ONE, OTHER, Quality(late=1.0, shortest_s=1.0, longest_s=1.0))
    for number in range(HELD + 5):
        cable.take(packet(ONE, OTHER, number), 5.0)
    assert len(cable.give(9.0)) == HELD


@pytest.fixture
def lab() -> NetworkLab:
    try:
        return NetworkLab()
    except NoNetworkLab as missing:
        pytest.skip(str(missing))


def arrived(lab: NetworkLab, host: str) -> list[int]:
    """The numbers that the host got of those that were sent to it from here. It listens until all were sent: a Python
    on a busy machine takes longer to start than silence tells anything."""
    arguments = [lab.address(host), str(PORT)]
    receiving = [*lab.command(host), sys.executable, "-c", RECEIVER, *arguments]
    with subprocess.Popen(receiving, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdin is not None
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "ready\n"
        subprocess.run([sys.executable, "-c", SENDER, *arguments, str(PACKETS)], check=True, timeout=60)
        receiver.stdin.close()
        return [int(line) for line in receiver.stdout]


def test_packets_between_two_hosts_of_a_lab_go_through_the_cable_until_it_is_healed(lab: NetworkLab) -> None:
    with lab:
        lab.add("one")
        try:
            lab.spoil(CLIENT, "one", Quality(lost=0.2, twice=0.2, late=0.5, shortest_s=0.01, longest_s=0.05))
        except NoNetworkLab as missing:
            pytest.skip(str(missing))
        numbers = arrived(lab, "one")
        assert 0.7 * PACKETS < len(set(numbers)) < 0.9 * PACKETS
        assert max(Counter(numbers).values()) == 2
        assert numbers != sorted(numbers)

        lab.cut(CLIENT, "one")
        assert arrived(lab, "one") == []

        lab.heal(CLIENT, "one")
        assert arrived(lab, "one") == list(range(PACKETS))
