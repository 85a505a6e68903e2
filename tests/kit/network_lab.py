"""NetworkLab: a host of its own for every process of a cluster, with cuts that drop packets as a dead cable would.

Each host is a network namespace with one address, joined to a hub namespace that routes between them; a cut is a
routing rule in the hub, "from A to B: discard", so that it has a direction, is silent (no reset, no ICMP), and also
holds for connections that stand. A way can also be bad: its packets go through a program that loses, doubles and
delays them (bad_cable.py). The processes of the test itself are the host `CLIENT`.

Decides how packets go; knows nothing of brokers. Needs root; without it NoNetworkLab says so in a sentence.

I1  Nothing outlives `close`: with the namespaces go their interfaces, addresses, routes and rules. What an interpreter
    that was killed left behind is removed by the next one.
I2  Nothing changes on the machine's own network but one interface and one route into the lab's private range.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
import weakref
from pathlib import Path
from types import TracebackType

from tests.kit import bad_cable
from tests.kit.bad_cable import Quality

CLIENT = "client"
CABLE_TABLE = "77"
"""The hub's routing table for ways that are bad."""
CUT, BACK_FROM_CABLE, TO_CABLE = "10", "20", "30"
"""Priorities of the hub's rules: a way that is cut is cut, however bad it is, and no packet goes twice to the cable."""
NAMESPACES = Path("/run/netns")
SLOTS = range(220, 250)
"""Second byte of the lab's addresses, 10.SLOT.0.0/16; a lab takes the first that no other lab on this machine has."""
NAME = re.compile(r"^lab(?P<slot>\d+)p(?P<pid>\d+)-(?P<host>.+)$")

_open: weakref.WeakSet[NetworkLab] = weakref.WeakSet()


class NoNetworkLab(Exception):
    """Network namespaces cannot be had here; the message says why."""


class NetworkLab:
    """Hosts are added by name; `address` tells where one is, `command` how a program is started there."""

    def __init__(self) -> None:
        """Raises NoNetworkLab."""
        if os.geteuid() != 0:
            raise NoNetworkLab("network namespaces need root")
        remove_leftovers()
        self._slot = self._take_slot()
        self._hosts: dict[str, int] = {CLIENT: 0}
        self._cuts: set[tuple[str, str]] = set()
        self._bad: set[tuple[str, str]] = set()
        self._cable: subprocess.Popen[str] | None = None
        _open.add(self)
        try:
            outside = f"lab{self._slot}c"
            self._ip("link", "add", outside, "type", "veth", "peer", "name", "h0", "netns", self._namespace("hub"))
            self._ip("addr", "add", f"{self.address(CLIENT)}/24", "dev", outside)
            self._ip("link", "set", outside, "up")
            self._in_hub("addr", "add", f"{self._gateway(0)}/24", "dev", "h0")
            self._in_hub("link", "set", "h0", "up")
            self._ip("route", "add", f"10.{self._slot}.0.0/16", "via", self._gateway(0))
            forward = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
            _run(["nsenter", f"--net={NAMESPACES / self._namespace('hub')}", *forward])
        except BaseException:
            self.close()
            raise

    def _take_slot(self) -> int:
        used = {int(found["slot"]) for name in _namespaces() if (found := NAME.match(name))}
        for slot in SLOTS:
            if slot in used:
                continue
            try:
                _run(["ip", "netns", "add", f"lab{slot}p{os.getpid()}-hub"])
            except subprocess.CalledProcessError as error:
                raise NoNetworkLab(f"network namespaces cannot be made here: {error.stderr.strip()}") from error
            taken = sorted(name for name in _namespaces() if name.startswith(f"lab{slot}p") and name.endswith("-hub"))
            if len(taken) == 1:
                return slot
            _run(["ip", "netns", "del", f"lab{slot}p{os.getpid()}-hub"])  # another took it at the same time
        raise NoNetworkLab("too many labs on this machine")

    # -- hosts

    def add(self, host: str) -> str:
        """A new host; returns its address."""
        number = len(self._hosts)
        self._hosts[host] = number
        namespace, port = self._namespace(host), f"h{number}"
        _run(["ip", "netns", "add", namespace])
        self._in_hub("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        self._in_hub("addr", "add", f"{self._gateway(number)}/24", "dev", port)
        self._in_hub("link", "set", port, "up")
        for arguments in (
            ["addr", "add", f"{self.address(host)}/24", "dev", "eth0"],
            ["link", "set", "eth0", "up"],
            ["link", "set", "lo", "up"],
            ["route", "add", "default", "via", self._gateway(number)],
        ):
            self._ip("-n", namespace, *arguments)
        return self.address(host)

    def address(self, host: str) -> str:
        return f"10.{self._slot}.{self._hosts[host]}.2"

    def command(self, host: str) -> list[str]:
        """What to put before a command so that it runs on a host."""
        return ["nsenter", f"--net={NAMESPACES / self._namespace(host)}", "--"]

    # -- cuts

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Discard what `source` sends to `target` from now on, and with both_ways the other direction too."""
        for one in ((source, target), (target, source))[: 2 if both_ways else 1]:
            if one not in self._cuts:
                self._cuts.add(one)
                self._in_hub("rule", "add", *self._rule(*one))

    def spoil(self, source: str, target: str, quality: Quality) -> None:
        """The ways between two hosts, both of them, are of that quality from now on. Raises NoNetworkLab."""
        cable = self._cable or self._lay_cable()
        for one in ((source, target), (target, source)):
            self._order(cable, one, quality)
            if one not in self._bad:
                self._bad.add(one)
                self._in_hub("rule", "add", *self._way(*one), "table", CABLE_TABLE, "priority", TO_CABLE)

    def heal(self, source: str, target: str) -> None:
        """End the cuts between two hosts, in either direction, and what else is bad between them."""
        for one in ((source, target), (target, source)):
            if one in self._cuts:
                self._cuts.remove(one)
                self._in_hub("rule", "del", *self._rule(*one))
            if one in self._bad:
                self._bad.remove(one)
                self._in_hub("rule", "del", *self._way(*one), "table", CABLE_TABLE, "priority", TO_CABLE)
                assert self._cable is not None
                self._order(self._cable, one, None)

    def heal_all(self) -> None:
        for source, target in sorted(self._cuts | self._bad):
            self.heal(source, target)

    def _rule(self, source: str, target: str) -> list[str]:
        return [*self._way(source, target), "blackhole", "priority", CUT]

    def _way(self, source: str, target: str) -> list[str]:
        return ["from", self.address(source), "to", self.address(target)]

    # -- bad ways

    def _lay_cable(self) -> subprocess.Popen[str]:
        # What comes back from the cable comes from where its sender is not: no check of that.
        checks = [f"/proc/sys/net/ipv4/conf/{one}/rp_filter" for one in ("all", "default")]
        _run([*self.command("hub"), "sh", "-c", "; ".join(f"echo 0 > {one}" for one in checks)])
        program = [sys.executable, bad_cable.__file__, str(self._slot)]
        self._cable = subprocess.Popen(
            [*self.command("hub"), *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._cable.stdout is not None
        if self._cable.stdout.readline().strip() != bad_cable.READY:
            raise NoNetworkLab("no TUN device can be made here; the lines above say why")
        self._in_hub("link", "set", bad_cable.DEVICE, "up")
        self._in_hub("route", "add", "default", "dev", bad_cable.DEVICE, "table", CABLE_TABLE)
        self._in_hub("rule", "add", "iif", bad_cable.DEVICE, "lookup", "main", "priority", BACK_FROM_CABLE)
        return self._cable

    def _order(self, cable: subprocess.Popen[str], way: tuple[str, str], quality: Quality | None) -> None:
        assert cable.stdin is not None
        source, target = (self.address(host) for host in way)
        cable.stdin.write(json.dumps([source, target, quality]) + "\n")
        cable.stdin.flush()

    # -- end

    def close(self) -> None:
        if self._cable is not None:
            self._cable.kill()
            self._cable.wait()
            for pipe in (self._cable.stdin, self._cable.stdout):
                assert pipe is not None
                pipe.close()
            self._cable = None
        for host in [*self._hosts, "hub"]:
            if (NAMESPACES / self._namespace(host)).exists():
                _run(["ip", "netns", "del", self._namespace(host)], check=False)
        # The peer of an interface goes with its namespace, but only once the last process in it has gone.
        _run(["ip", "link", "del", f"lab{self._slot}c"], check=False)
        _open.discard(self)

    def __enter__(self) -> NetworkLab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _namespace(self, host: str) -> str:
        return f"lab{self._slot}p{os.getpid()}-{host}"

    def _gateway(self, number: int) -> str:
        return f"10.{self._slot}.{number}.1"

    def _in_hub(self, *arguments: str) -> None:
        self._ip("-n", self._namespace("hub"), *arguments)

    def _ip(self, *arguments: str) -> None:
        _run(["ip", *arguments])


def _run(command: list[str], *, check: bool = True) -> None:
    subprocess.run(command, check=check, capture_output=True, text=True)


def _namespaces() -> list[str]:
    return sorted(path.name for path in NAMESPACES.iterdir()) if NAMESPACES.is_dir() else []


def remove_leftovers() -> None:
    """Remove the namespaces of interpreters that were killed."""
    for name in _namespaces():
        found = NAME.match(name)
        if found and not Path(f"/proc/{found['pid']}").exists():
            _run(["ip", "netns", "del", name], check=False)
            _run(["ip", "link", "del", f"lab{found['slot']}c"], check=False)


@atexit.register
def _close_what_is_open() -> None:
    for lab in list(_open):
        lab.close()
