"""MetricsServer: the broker's metrics on a port of its own, in Prometheus' text: GET /metrics.

Decides how little of the broker's loop a reading takes: the text is put together in pieces, and after SLICE_S of them
every other task has its turn. Must not know what is measured.

    I1  At most MAX_CONNECTIONS are served at a time, each for one request of at most MAX_REQUEST_BYTES, in PATIENCE_S.
    I2  A reading holds the loop for SLICE_S and one piece at most, however many partitions there are.

Source: Prometheus' exposition format 0.0.4; RFC 9110 and 9112 as far as one GET needs them.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from kavka.metrics import Registry, prometheus_pieces
from kavka.runtime.network.ports import listen, patiently

PATH: Final = b"/metrics"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SLICE_S: Final = 0.001
MAX_CONNECTIONS: Final = 16
MAX_REQUEST_BYTES: Final = 16 * 1024
PATIENCE_S: Final = 10.0


class MetricsServer:
    """One broker's. `start` and `stop` on the loop that the metrics belong to."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port. Raises AddressUnavailable where it cannot be had."""
        listening = await patiently(lambda: listen(host, port, backlog=MAX_CONNECTIONS, what="metrics"))
        self._server = await asyncio.start_server(
            self._on_connection, sock=listening, limit=MAX_REQUEST_BYTES, backlog=MAX_CONNECTIONS
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """No more is accepted, and what is under way is given up. Nothing happens if it was not started."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._serving:
            task.cancel()

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._serving) >= MAX_CONNECTIONS:
                return
            self._serving.add(task)
            async with asyncio.timeout(PATIENCE_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # Whoever asked is gone, or never asked.
        except asyncio.CancelledError:
            # asyncio's own callback of a connection takes a cancelled one for a failure (until Python 3.12).
            if self._server is not None:
                raise
        finally:
            self._serving.discard(task)
            writer.close()

    async def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or words[0] not in (b"GET", b"HEAD"):
            return _response("405 Method Not Allowed", "GET /metrics\n", is_head=False)
        if words[1].partition(b"?")[0] != PATH:
            return _response("404 Not Found", "GET /metrics\n", is_head=False)
        return _response("200 OK", await self.text(), is_head=words[0] == b"HEAD")

    async def text(self) -> str:
        """All metrics as they are now; others have their turn meanwhile."""
        pieces: list[str] = []
        began = time.perf_counter()
        for piece in prometheus_pieces(self._registry):
            pieces.append(piece)
            if time.perf_counter() - began >= SLICE_S:
                await asyncio.sleep(0)
                began = time.perf_counter()
        return "".join(pieces)


def _response(status: str, text: str, *, is_head: bool) -> bytes:
    body = text.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() if is_head else head.encode() + body
