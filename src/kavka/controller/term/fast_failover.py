"""FastFailover: the next controller does not wait for the session of a dead one.

When a broker is killed its session, and with it /controller, lives on for zookeeper.session.timeout.ms. So every other
broker holds a connection to the controller. If that is lost, and connecting again is refused (the machine lives, the
process does not), the broker becomes the controller by one multi:

    set /controller_epoch to its next number, if its version is still that of the dead controller's term
    delete /controller
    create /controller, ephemeral, its own

`FastFailover` is the flow that watches the connection; it decides nothing but what counts as gone. The multi is the
candidate's (`take_over_operations`), and so is everything after it.

Why it is safe, whatever is true of the controller that is thought dead:
* The version of /controller_epoch changes with every term, and is read before /controller: if another broker has become
  the controller since, the whole multi is rejected. Of several candidates one wins.
* If the old controller lives (its listener is closed, or the network lies), its term ends exactly as by the end of its
  session: every write of its term checks the version that the multi has changed, and fails; brokers that heard of the
  new epoch refuse its requests. It sees /controller go, and takes part in the election as any other broker.
* Nothing rests on the time that anything takes.

Why it is not wrong often: a controller counts as gone only if it was connected to and then refused twice. One that was
never reached, that does not answer, or that is cut off, stays the controller until its session is over. Two brokers
that can reach each other never replace each other. One that cannot, and is replaced, has never been connected to the
new controller, so the role does not go back and forth.

Source: kavka's own; Kafka waits for the session. `kavka.controller.fast.failover` switches it off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kavka.controller.orders.channels import ChannelLimits, OpenPeer
from kavka.errors import ConnectionFailed, ConnectionRefused
from kavka.model import BrokerId
from kavka.zookeeper.port import Create, CreateMode, Delete, Operation, SetData
from kavka.zookeeper.znode_paths import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH
from kavka.zookeeper.znodes import ControllerNode, encode_controller_epoch

REFUSALS: Final = 2
"""How often in a row a connection must be refused."""
BETWEEN_REFUSALS_MS: Final = 20
RETRY_MS: Final = 1_000
"""Between attempts to connect to a controller that was not reached yet."""


@dataclass(frozen=True, slots=True)
class RemoteController:
    """The controller as another broker sees it. `epoch` and `epoch_version` are of /controller_epoch, read before
    /controller; `broker_epoch` is that of its registration."""

    broker_id: BrokerId
    broker_epoch: int
    host: str
    port: int
    epoch: int
    epoch_version: int


def take_over_operations(controller: RemoteController, successor: BrokerId, now_ms: int) -> list[Operation]:
    """The multi that replaces the controller; its first result is the stat of /controller_epoch."""
    return [
        SetData(CONTROLLER_EPOCH_PATH, encode_controller_epoch(controller.epoch + 1), controller.epoch_version),
        Delete(CONTROLLER_PATH),
        Create(CONTROLLER_PATH, ControllerNode(successor, now_ms).encode(), CreateMode.EPHEMERAL),
    ]


class FastFailover:
    """Holds a connection to the controller while that is another broker."""

    def __init__(
        self, open_peer: OpenPeer, on_unreachable: Callable[[RemoteController], None], limits: ChannelLimits
    ) -> None:
        """`on_unreachable` is called once for each controller whose process is gone; it must not block."""
        self._open_peer = open_peer
        self._on_unreachable = on_unreachable
        self._limits = limits
        self._controller: RemoteController | None = None
        self._watching: asyncio.Task[None] | None = None

    def watch(self, controller: RemoteController | None) -> None:
        """From now on this is the controller; None: no broker, or this one."""
        if controller == self._controller:
            return
        self.close()
        self._controller = controller
        if controller is not None:
            self._watching = asyncio.get_running_loop().create_task(self._watch(controller))
            self._watching.add_done_callback(_report_bug)

    def close(self) -> None:
        """Stops watching."""
        self._controller = None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch(self, controller: RemoteController) -> None:
        was_connected = False
        refusals = 0
        while True:
            try:
                connection = await self._open_peer(controller.host, controller.port, self._limits.socket_timeout_ms)
            except ConnectionRefused:
                refusals += 1
                if was_connected and refusals >= REFUSALS:
                    self._on_unreachable(controller)
                    return
                await asyncio.sleep((BETWEEN_REFUSALS_MS if was_connected else RETRY_MS) / 1000)
                continue
            except ConnectionFailed:
                await asyncio.sleep(RETRY_MS / 1000)
                continue
            was_connected = True
            refusals = 0
            try:
                await connection.wait_closed()
            finally:
                connection.close()


def _report_bug(task: asyncio.Task[None]) -> None:
    """The watch must not end with an exception: it is reported to the host, which halts."""
    if not task.cancelled() and (bug := task.exception()) is not None:
        task.get_loop().call_exception_handler(
            {"message": "the watch on the controller failed by a bug", "exception": bug, "task": task}
        )
