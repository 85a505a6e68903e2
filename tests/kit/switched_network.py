"""SwitchedNetwork: the Network port on real sockets, with a switch: connections that are cut, refused, or say nothing.

mode = SERVING   as `SocketNetwork`
mode = REFUSING  nobody can be connected to; connections that stand are untouched (`cut` ends them)
mode = SILENT    frames of old and new connections are lost both ways, as if a cable were pulled: nobody is told;
                 a connection that lost one stays silent
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from kavka.errors import ConnectionFailed
from kavka.network import Connection, Network
from kavka.runtime.network.network import SocketNetwork


class Mode(Enum):
    SERVING = "serving"
    REFUSING = "refusing"
    SILENT = "silent"


class SwitchedNetwork:
    def __init__(self, network: Network | None = None) -> None:
        self.mode = Mode.SERVING
        self._network = network or SocketNetwork()
        self._connections: list[_SwitchedConnection] = []

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 256 * 1024 * 1024) -> _SwitchedConnection:
        if self.mode is Mode.REFUSING:
            raise ConnectionFailed(f"{host}:{port} refuses: switched off")
        connection = await self._network.connect(host, port, max_frame_bytes=max_frame_bytes)
        self._connections = [each for each in self._connections if not each.closed]
        self._connections.append(_SwitchedConnection(self, connection))
        return self._connections[-1]

    def cut(self) -> None:
        """Ends all connections."""
        for connection in self._connections:
            connection.close()


class _SwitchedConnection:
    def __init__(self, switch: SwitchedNetwork, connection: Connection) -> None:
        self.closed = False
        self._broken = False
        self._switch = switch
        self._connection = connection

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        if not self._loses():
            self._connection.send_frame(parts)

    async def drain(self) -> None:
        await self._connection.drain()

    async def receive_frame(self) -> bytes:
        while True:
            frame = await self._connection.receive_frame()
            if not self._loses():
                return frame

    def _loses(self) -> bool:
        """Whether a frame is lost now; all that come behind it are lost too, as a stream has no holes."""
        self._broken = self._broken or self._switch.mode is Mode.SILENT
        return self._broken

    def close(self) -> None:
        self.closed = True
        self._connection.close()
