"""An address that cannot be listened on: why, and who has the port."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kavka.errors import AddressProblem, AddressUnavailable
from kavka.runtime.network import ports
from kavka.runtime.network.ports import holder, listen, patiently, require_free, reserve

LOOPBACK = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another process listens; its standard input ends it."""
    program = (
        "import socket, sys; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    yield int(process.stdout.readline())
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def refused(host: str, port: int) -> AddressUnavailable:
    with pytest.raises(AddressUnavailable) as failure:
        listen(host, port, backlog=1, what="tests")
    return failure.value


def test_a_port_that_is_taken_names_the_process(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "PATIENCE_S", 0.0)
    with pytest.raises(AddressUnavailable) as failure:
        require_free(LOOPBACK, taken, what="tests")
    said = str(failure.value)
    assert failure.value.problem is AddressProblem.TAKEN
    assert said.startswith(f"cannot listen on {LOOPBACK}:{taken} for tests: port {taken} is taken: process ")
    assert said.endswith("listens there")
    assert os.path.basename(sys.executable) in said


def test_a_reserved_port_is_given_to_nobody_else_and_its_server_listens_there() -> None:
    """One start of three brokers in some hundreds chose a port twice: each was let go before the next was chosen."""
    kept = [reserve(LOOPBACK) for _ in range(500)]
    numbers = [each.getsockname()[1] for each in kept]
    try:
        assert len(set(numbers)) == len(numbers)
        with socket.socket() as client, pytest.raises(OSError, match="in use"):
            client.bind((LOOPBACK, numbers[0]))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, numbers[0]))
        listen(LOOPBACK, numbers[0], backlog=1).close()
        listen(LOOPBACK, numbers[0], backlog=1).close()  # And again, as after a death.
    finally:
        for each in kept:
            each.close()


def test_a_clients_connection_is_named_as_one() -> None:
    with socket.create_server((LOOPBACK, 0)) as server, socket.socket() as client:
        client.bind((LOOPBACK, 0))
        client.connect(server.getsockname())
        port, to = client.getsockname()[1], server.getsockname()[1]
        assert refused(LOOPBACK, port).problem is AddressProblem.TAKEN
        said = holder(LOOPBACK, port)
        assert said.startswith(f"process {os.getpid()} (")
        assert said.endswith(f"has a connection to {LOOPBACK}:{to} from it")


def test_a_port_that_is_let_go_of_is_had_after_a_moment() -> None:
    async def scenario() -> None:
        server = socket.create_server((LOOPBACK, 0))
        port = server.getsockname()[1]
        asyncio.get_running_loop().call_later(2 * ports.RETRY_S, server.close)
        (await patiently(lambda: listen(LOOPBACK, port, backlog=1))).close()

    asyncio.run(scenario())


def test_another_machines_address_and_a_name_of_nobody_are_told_apart() -> None:
    assert "192.0.2.1 is not an address of this machine" in str(refused("192.0.2.1", 0))
    for name in ("no-such-host.invalid", "no..host"):  # The latter could be nobody's name.
        unknown = refused(name, 0)
        assert unknown.problem is AddressProblem.UNRESOLVED
        assert f"the name {name} cannot be resolved" in str(unknown)


def test_of_a_free_port_nobody_is_the_holder() -> None:
    with listen(LOOPBACK, 0, backlog=1) as bound:
        port = bound.getsockname()[1]
    assert holder(LOOPBACK, port) == ""


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_an_ipv6_holder_is_found() -> None:
    with listen("::1", 0, backlog=1) as bound:
        assert holder("", bound.getsockname()[1]).endswith("listens there")
        assert holder("127.0.0.1", bound.getsockname()[1]) == ""
