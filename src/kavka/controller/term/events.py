"""Events: what the controller may have to do, and the one queue in which that waits.

`EventQueue` is a flow: it gives events to a handler, one at a time, in the order in which they were put. An event that
waits already is not put twice: each says "look at this", not "this happened", and what is looked at is read when its
turn comes. So the queue is as long as there are different things to look at, at the most.

Invariants:
I1  One event at a time; the next one after the handler returned.
I2  An event put while it is being handled is handled again: what it looked at may have changed since.

Source: Kafka's ControllerEventManager.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from kavka.controller.term.fast_failover import RemoteController
from kavka.model import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class Elect:
    """There is no controller, or there may be none."""


@dataclass(frozen=True, slots=True)
class ControllerUnreachable:
    """The controller's process is gone, most likely, and its session is not over: see `fast_failover`."""

    controller: RemoteController


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Registrations below /brokers/ids."""


@dataclass(frozen=True, slots=True)
class BrokersLost:
    """Brokers were found to be unreachable; which ones is collected beside the queue, so that they are one event."""


@dataclass(frozen=True, slots=True)
class BrokerReachable:
    """An unreachable broker takes connections again."""

    broker_id: BrokerId
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerBehind:
    """Requests to a broker were dropped; it answers again."""

    broker_id: BrokerId
    epoch: int


@dataclass(frozen=True, slots=True)
class ReplicasFailed:
    """A broker answered that replicas are in a failed log directory."""

    broker_id: BrokerId
    epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ReplicasStopped:
    """A broker deleted replicas, or failed to."""

    broker_id: BrokerId
    epoch: int
    deleted: tuple[TopicPartition, ...]
    failed: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """The children of /brokers/topics."""


@dataclass(frozen=True, slots=True)
class TopicChanged:
    """A topic's znode."""

    name: str


@dataclass(frozen=True, slots=True)
class DeletionsChanged:
    """The children of /admin/delete_topics."""


@dataclass(frozen=True, slots=True)
class IsrNotified:
    """The children of /isr_change_notification."""


@dataclass(frozen=True, slots=True)
class LogDirNotified:
    """The children of /log_dir_event_notification."""


@dataclass(frozen=True, slots=True)
class IsrsChanged:
    """In-sync replicas changed: what waits for that goes on."""


@dataclass(frozen=True, slots=True)
class ReassignmentsSubmitted:
    """/admin/reassign_partitions."""


@dataclass(frozen=True, slots=True)
class ElectionsSubmitted:
    """/admin/preferred_replica_election."""


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """It is time to look whether preferred replicas lead."""


@dataclass(frozen=True, slots=True)
class TopicConfigChanged:
    """Settings of these topics (no topic: of the brokers) changed; unclean elections may be allowed now."""

    topics: tuple[str, ...]


ControllerEvent: TypeAlias = (
    Elect
    | ControllerUnreachable
    | BrokersChanged
    | BrokersLost
    | BrokerReachable
    | BrokerBehind
    | ReplicasFailed
    | ReplicasStopped
    | TopicsChanged
    | TopicChanged
    | DeletionsChanged
    | IsrNotified
    | LogDirNotified
    | IsrsChanged
    | ReassignmentsSubmitted
    | ElectionsSubmitted
    | RebalanceDue
    | TopicConfigChanged
)


class EventQueue:
    """Events that wait, and the task that hands them to `handle`, which raises only by a bug."""

    def __init__(self, handle: Callable[[ControllerEvent], Awaitable[None]]) -> None:
        self._handle = handle
        self._events: dict[ControllerEvent, None] = {}
        self._later: dict[ControllerEvent, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def start(self, on_ended: Callable[[asyncio.Task[None]], None]) -> None:
        """Begins to hand out events; `on_ended` is called when the task ends, also by `stop`."""
        self._running = asyncio.get_running_loop().create_task(self._run())
        self._running.add_done_callback(lambda task: self._idle.set())
        self._running.add_done_callback(on_ended)

    async def stop(self) -> None:
        """Hands out no more events; the one that is being handled is cancelled."""
        self.abort()
        if self._running is not None:
            await asyncio.wait([self._running])

    def abort(self) -> None:
        """As `stop`, but at once."""
        self.drop_later()
        if self._running is not None:
            self._running.cancel()

    def put(self, event: ControllerEvent) -> None:
        """The event waits for its turn, once."""
        timer = self._later.pop(event, None)
        if timer is not None:
            timer.cancel()
        self._events[event] = None
        self._idle.clear()
        self._wake.set()

    def put_later(self, event: ControllerEvent, delay_ms: int) -> None:
        """The event is put after `delay_ms`, unless it is on its way already."""
        if event not in self._later and event not in self._events:
            self._later[event] = asyncio.get_running_loop().call_later(delay_ms / 1000, self.put, event)

    def drop_later(self) -> None:
        """What was put for later is not put any more."""
        for timer in self._later.values():
            timer.cancel()
        self._later.clear()

    async def settled(self) -> None:
        """Returns when no event is waiting or being handled. Raises what ended the handling, if something did."""
        await self._idle.wait()
        if self._running is not None and self._running.done() and not self._running.cancelled():
            self._running.result()

    async def _run(self) -> None:
        while True:
            while self._events:
                event = next(iter(self._events))
                del self._events[event]
                await self._handle(event)
            self._idle.set()
            self._wake.clear()
            await self._wake.wait()
