"""The Network port: connections that this process opens (clients, replica fetchers, the controller's requests).

Connections that others open are the listener's matter (broker/acceptor.py). In production the port is
`runtime.network.SocketNetwork`, in the simulator links with delay, loss and cuts. A failure of any call raises
`ConnectionFailed`: what was in flight has an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Connection(Protocol):
    """One connection that carries frames: four bytes of length, big-endian, then so many bytes."""

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Queues one frame made of `parts` (the length is added here). Returns at once; the parts must not change."""
        ...

    async def drain(self) -> None:
        """Waits while more bytes are queued than the peer takes."""
        ...

    async def receive_frame(self) -> bytes:
        """The next frame, without its length. A frame over the limit given to `connect` raises `FrameTooLarge`."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    """Opens connections."""

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> Connection: ...
