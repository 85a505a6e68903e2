"""A worker acknowledges at once what Spark's JVM sent it over TCP."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kavka_spark import jvm_sockets
from kavka_spark.jvm_sockets import Acknowledging

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux has TCP_QUICKACK")

Pair = tuple[socket.socket, socket.socket]


class Reader(Acknowledging):
    """As Spark's are: pickled where it is planned, unpickled in a worker."""

    def __init__(self, topic: str) -> None:
        self.topic = topic


@pytest.fixture(params=[(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=["IPv4", "IPv6"])
def connection(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A worker's end and the JVM's, in the state that questions and answers leave: the worker's end waits with what it
    acknowledges, for an answer to carry it."""
    family, host = request.param
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"{host} is not there")
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]) as worker:
            jvm, _ = listener.accept()
            with jvm:
                for _ in range(20):
                    jvm.sendall(b"?")
                    worker.recv(1)
                    worker.sendall(b"!")
                    jvm.recv(1)
                yield worker, jvm


def is_prompt(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


@pytest.fixture(autouse=True)
def new_process() -> None:
    """As in a worker that has seen no reader before."""
    jvm_sockets._sockets.cache_clear()


def arrives(reader: Reader) -> Reader:
    arrived: Reader = pickle.loads(pickle.dumps(reader))
    return arrived


def test_a_reader_that_arrives_acknowledges_what_brought_it(connection: Pair) -> None:
    worker, _ = connection
    assert not is_prompt(worker)

    assert arrives(Reader("orders")).topic == "orders"

    assert is_prompt(worker)
    assert worker.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_the_next_reader_does_so_again(connection: Pair) -> None:
    worker, jvm = connection
    arrives(Reader("orders"))
    for _ in range(20):
        jvm.sendall(b"?")
        worker.recv(1)
        worker.sendall(b"!")
        jvm.recv(1)
    assert not is_prompt(worker)

    arrives(Reader("orders"))

    assert is_prompt(worker)


def test_a_socket_that_has_several_descriptors_is_asked_once(connection: Pair) -> None:
    worker, _ = connection
    copies = [os.dup(worker.fileno()) for _ in range(2)]  # As PySpark makes them for each task, and closes them.
    arrives(Reader("orders"))
    asked = jvm_sockets._sockets(os.getpid())
    assert worker.fileno() in asked
    assert not set(copies) & set(asked)
    for descriptor in copies:
        os.close(descriptor)


def test_what_is_no_connection_of_this_machine_is_left_alone_and_no_descriptor_stays_open() -> None:
    one, other = socket.socketpair()
    reading, writing = os.pipe()
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    before = len(os.listdir("/proc/self/fd"))

    arrives(Reader("orders"))

    assert len(os.listdir("/proc/self/fd")) == before
    other.sendall(b"still open")
    assert one.recv(10) == b"still open"
    os.write(writing, b"here, too")
    assert os.read(reading, 9) == b"here, too"
    for descriptor in (one, other, datagrams):
        descriptor.close()
    os.close(reading)
    os.close(writing)


def test_without_linux_a_reader_arrives_all_the_same() -> None:
    program = (
        "import pickle, socket; del socket.TCP_QUICKACK;"
        "from tests.unit.spark.test_jvm_sockets import Reader;"
        "print(pickle.loads(pickle.dumps(Reader('orders'))).topic)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "orders\n"
