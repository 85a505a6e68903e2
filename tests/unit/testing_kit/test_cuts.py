"""What a cut way does to connections: nothing arrives, nobody is told, and all of it comes after the way has healed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from kavka.errors import ConnectionFailed
from kavka.network import Connection
from kavka.testing import cuts as room
from kavka.testing.cuts import QUEUED_BYTES, ZOOKEEPER, Cuts, CuttableConnection, CuttableNetwork
from kavka.testing.life import Dead, Life

PORT = 1000
SOON_S = 0.02


class Wire:
    """One connection's bytes as the peer sees them; the peer's answers are put into `answers`."""

    def __init__(self) -> None:
        self.arrived: list[bytes] = []
        self.answers: asyncio.Queue[bytes | ConnectionFailed] = asyncio.Queue()
        self.closed = False

    def send_frame(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        self.arrived.append(b"".join(parts))

    async def drain(self) -> None:
        return

    async def receive_frame(self) -> bytes:
        answer = await self.answers.get()
        if isinstance(answer, ConnectionFailed):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True


class Wires:
    """A Network port whose connections are wires."""

    def __init__(self) -> None:
        self.wires: list[Wire] = []

    async def connect(self, host: str, port: int, *, max_frame_bytes: int = 0) -> Wire:
        self.wires.append(Wire())
        return self.wires[-1]


class Scene:
    """Broker 1's network; broker 2 listens on PORT, ZooKeeper on the next one."""

    def __init__(self) -> None:
        self.cuts, self.wires, self.life = Cuts(), Wires(), Life()
        self.network = CuttableNetwork(self.life, self.wires, self.cuts, 1, {PORT: 2, PORT + 1: ZOOKEEPER})

    async def connect(self) -> tuple[CuttableConnection, Wire]:
        connection = await self.network.connect("h", PORT)
        assert isinstance(connection, CuttableConnection)
        return connection, self.wires.wires[-1]

    async def heal(self, *ways: tuple[int | str, int | str]) -> None:
        """Heals, and lets those that wait for it go on."""
        self.cuts.heal(list(ways) or None)
        await asyncio.sleep(SOON_S)


def run(play: Callable[[Scene], Awaitable[None]]) -> None:
    async def scene() -> None:
        await play(Scene())

    asyncio.run(scene())


async def still_waits(task: asyncio.Task[bytes] | asyncio.Task[None] | asyncio.Task[Connection]) -> bool:
    await asyncio.sleep(SOON_S)
    return not task.done()


def test_an_open_way_passes_everything_at_once() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        connection.send_frame([b"a", b"b"])
        assert wire.arrived == [b"ab"]
        wire.answers.put_nowait(b"c")
        assert await connection.receive_frame() == b"c"

    run(play)


def test_what_is_sent_over_a_cut_way_arrives_in_order_after_it_healed() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        scene.cuts.cut([(1, 2)])
        connection.send_frame([b"first"])
        connection.send_frame([b"second"])
        assert wire.arrived == []
        await scene.heal()
        connection.send_frame([b"third"])
        assert wire.arrived == [b"first", b"second", b"third"]

    run(play)


def test_a_one_way_cut_lets_the_answers_through() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        scene.cuts.cut([(1, 2)])
        wire.answers.put_nowait(b"still here")
        assert await connection.receive_frame() == b"still here"
        connection.send_frame([b"lost for now"])
        assert wire.arrived == []

    run(play)


def test_a_one_way_cut_of_the_answers_lets_the_requests_through() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        scene.cuts.cut([(2, 1)])
        connection.send_frame([b"request"])
        assert wire.arrived == [b"request"]
        wire.answers.put_nowait(b"answer")
        receiving = asyncio.create_task(connection.receive_frame())
        assert await still_waits(receiving)
        await scene.heal()
        assert await receiving == b"answer"

    run(play)


def test_who_gives_up_waiting_over_a_cut_way_loses_no_frame() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        scene.cuts.cut([(2, 1)])
        wire.answers.put_nowait(b"answer")
        receiving = asyncio.create_task(connection.receive_frame())
        assert await still_waits(receiving)
        receiving.cancel()
        await asyncio.wait([receiving])
        await scene.heal()
        assert await connection.receive_frame() == b"answer"

    run(play)


def test_the_end_of_a_connection_is_not_noticed_over_a_cut_way() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        scene.cuts.cut([(1, 2), (2, 1)])
        wire.answers.put_nowait(ConnectionFailed("reset"))
        receiving = asyncio.create_task(connection.receive_frame())
        assert await still_waits(receiving)
        await scene.heal()
        with pytest.raises(ConnectionFailed, match="reset"):
            await receiving

        other, other_wire = await scene.connect()
        scene.cuts.cut([(1, 2)])
        other.close()
        assert not other_wire.closed
        await scene.heal()
        assert other_wire.closed

    run(play)


def test_a_connection_that_is_closed_here_ends_its_receiver_in_spite_of_the_cut() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        scene.cuts.cut([(1, 2), (2, 1)])
        wire.answers.put_nowait(b"too late")
        receiving = asyncio.create_task(connection.receive_frame())
        assert await still_waits(receiving)
        connection.close()
        with pytest.raises(ConnectionFailed):
            await receiving
        with pytest.raises(ConnectionFailed):
            connection.send_frame([b"x"])

    run(play)


@pytest.mark.parametrize("way", [(1, 2), (2, 1)])
def test_a_connection_is_not_made_while_either_way_is_cut(way: tuple[int, int]) -> None:
    async def play(scene: Scene) -> None:
        scene.cuts.cut([way])
        connecting = asyncio.create_task(scene.network.connect("h", PORT))
        assert await still_waits(connecting)
        assert scene.wires.wires == []
        await scene.heal(way)
        await connecting

    run(play)


def test_an_attempt_to_connect_over_a_cut_way_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "CONNECT_TIMEOUT_S", 0.05)

    async def play(scene: Scene) -> None:
        scene.cuts.cut([(1, 2)])
        with pytest.raises(ConnectionFailed, match="no answer from h:1000"):
            await scene.network.connect("h", PORT)

    run(play)


def test_other_members_are_reached_all_the_same() -> None:
    async def play(scene: Scene) -> None:
        scene.cuts.cut([(1, 2), (2, 1), (3, 1)])
        await scene.network.connect("h", PORT + 1)
        await scene.network.connect("h", PORT + 7)
        assert len(scene.wires.wires) == 2

    run(play)


def test_a_sender_is_held_back_when_too_much_is_kept() -> None:
    async def play(scene: Scene) -> None:
        connection, wire = await scene.connect()
        scene.cuts.cut([(1, 2)])
        connection.send_frame([b"x" * QUEUED_BYTES])
        await connection.drain()
        connection.send_frame([b"y"])
        draining = asyncio.create_task(connection.drain())
        assert await still_waits(draining)
        await scene.heal()
        await draining
        assert [len(frame) for frame in wire.arrived] == [QUEUED_BYTES, 1]

    run(play)


def test_a_dead_member_opens_nothing_and_all_of_its_connections_are_closed() -> None:
    async def play(scene: Scene) -> None:
        _, wire = await scene.connect()
        scene.cuts.cut([(1, 2)])
        scene.life.end()
        scene.network.abort()
        assert wire.closed
        with pytest.raises(Dead):
            await scene.network.connect("h", PORT)

    run(play)
