"""The server of network_micro.py: answers every request with 100 bytes or a slice of a file. Ends with its input."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile

from kavka.metrics import Registry
from kavka.model import FileSlice
from kavka.protocol.connection import Handler, Request, Response
from kavka.runtime.loop import raise_file_limit, run
from kavka.runtime.network import socket_connection
from kavka.runtime.network.socket_server import ListenerLimits, SocketServer, SocketServerLimits

ANSWER = Response((bytes(100),))


class OpenFile:
    """A file with content, already without a name."""

    def __init__(self, size: int) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with its last slice
        self._file.write(os.urandom(size))
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def read_at(self, position: int, length: int) -> bytes:
        return os.pread(self._file.fileno(), length, position)


def at_once(request: Request) -> Response:
    return ANSWER


def deferred(request: Request) -> asyncio.Future[Response]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Response] = loop.create_future()
    loop.call_soon(future.set_result, ANSWER)
    return future


def slices(size: int) -> Handler:
    file = OpenFile(size)
    answer = Response((b"a header of a fetch answer", FileSlice(file, 0, size)))
    return lambda request: answer


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--deferred", action="store_true")
    parser.add_argument("--slice", type=int, default=0)
    parser.add_argument("--copy-below", type=int, default=-1)
    parser.add_argument("--receive-buffer", type=int, default=102400)
    parser.add_argument("--send-buffer", type=int, default=102400)
    arguments = parser.parse_args()
    raise_file_limit()
    if arguments.copy_below >= 0:
        socket_connection.COPIED_SLICE_BYTES = arguments.copy_below
    listener = ListenerLimits(
        backlog=1024, send_buffer_bytes=arguments.send_buffer, receive_buffer_bytes=arguments.receive_buffer
    )
    handler: Handler = slices(arguments.slice) if arguments.slice else deferred if arguments.deferred else at_once
    loop = asyncio.get_running_loop()
    server = SocketServer(
        loop,
        handler,
        limits=SocketServerLimits(listener=listener, network_threads=arguments.threads),
        registry=Registry(),
        api_name=str,
        on_halt=lambda violation: os._exit(1),
    )
    acceptor = server.listen("PLAINTEXT", "127.0.0.1", 0)
    acceptor.start()
    print(acceptor.port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    await server.stop()


if __name__ == "__main__":
    run(main())
