"""The way of a request from the socket to its handler and of its answer back, with Kafka's request metrics.

What it decides: how many requests may wait for the handler, how their times are counted, and which requests are
sampled. It must not know what a request means, nor how its bytes are sent.

Two ways lead to the handler:

* in the broker's own loop the processor calls it directly. Nothing waits, so nothing needs a bound there, and only one
  histogram is touched for each request (`RequestTimes.at_once`): the other times of such a request are 0 or equal to
  it, and are put together when somebody reads them;
* from a processor with a thread of its own through `RequestChannel`: a queue bounded by queued.max.requests.

I1  Never more than `capacity` requests wait; a processor that finds no room stops reading until it is woken.
I2  The handler runs on the broker's loop only, an answer is handled on its processor's loop only.
I3  While no request is slow and none is sampled, `RequestWatch` costs two comparisons for each, and no memory.

Source: Kafka's RequestChannel and the list of request metrics in Kafka's documentation on monitoring.

    RequestQueueTimeMs   in the channel             0 where the processor calls directly
    LocalTimeMs          in the handler
    RemoteTimeMs         waiting: replicas, data    0 where the handler answers at once
    ThrottleTimeMs       for how long the client is not read from after the answer: it is over its quota
    ResponseQueueTimeMs  back to the processor      0 where the processor calls directly
    ResponseSendTimeMs   from the answer being ready until the kernel has all of it; counted once for the answers that
                         leave together, for the API of the last one
    TotalTimeMs          from the request being read to its answer being ready
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from time import perf_counter_ns
from typing import Protocol

from kavka.errors import InvariantViolation
from kavka.metrics import Counter, Histogram, Registry
from kavka.protocol.connection import (
    CLOSE_CONNECTION,
    Answered,
    ConnectionContext,
    Handler,
    Request,
    Response,
    Trace,
)

MAX_BATCH = 64
"""Requests that are handled before the broker's loop looks at anything else."""
MAX_WAITS = 1_000
"""What so many slow requests waited for is remembered until their answers are sent; then all is forgotten."""
NEVER_NS = 1 << 62
"""No request takes so long."""

_MS_PER_NS = 1e-6
_GROUP = "kafka.network"
_KIND = "RequestMetrics"


class ApiTimes:
    """Times of one API's requests that were not answered at once, in nanoseconds."""

    __slots__ = ("local", "remote", "request_queue", "response_queue", "response_send", "throttle", "total", "versions")

    def __init__(self) -> None:
        self.versions: tuple[RequestTimes, ...] = ()
        """What is counted for each version. Another tuple when one is added, so that it can be read on any thread."""
        self.request_queue = Histogram(scale=_MS_PER_NS)
        self.local = Histogram(scale=_MS_PER_NS)
        self.remote = Histogram(scale=_MS_PER_NS)
        self.response_queue = Histogram(scale=_MS_PER_NS)
        self.response_send = Histogram(scale=_MS_PER_NS)
        self.throttle = Histogram(scale=_MS_PER_NS)
        """Of the requests after which their client had to wait."""
        self.total = Histogram(scale=_MS_PER_NS)


class RequestTimes:
    """What is counted for one API in one version."""

    __slots__ = ("api", "at_once", "deferred", "errors", "name")

    def __init__(self, name: str, api: ApiTimes) -> None:
        self.name = name
        self.api = api
        self.at_once = Histogram(scale=_MS_PER_NS)
        """Local time of the requests that were called directly and answered at once."""
        self.deferred = 0
        """Requests that went another way."""
        self.errors = 0
        """Requests whose handler failed."""


class TraceKeeper(Protocol):
    """Who keeps the stages of requests. Called on the broker's loop."""

    def begin(self, began_ns: int) -> Trace:
        """A request of the sample is about to be handled."""
        ...

    def keep(self, answered: Answered, send_ns: int, wait: object) -> None:
        """An answer has left: of a sampled request, or of one that may be slow. `wait` is what its handler said."""
        ...


class RequestWatch:
    """Which requests are looked at: those over `slow_ns`, and every one of `every`."""

    def __init__(self) -> None:
        self.slow_ns = NEVER_NS
        self.every = 0
        """0: there is no sample."""
        self._left = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._keeper: Callable[[], TraceKeeper] | None = None
        self._waits: dict[tuple[str, int], object] = {}

    def open(self, keeper: Callable[[], TraceKeeper]) -> None:
        """From now on somebody keeps traces, on this loop. `keeper` makes it with its first use."""
        self._loop = asyncio.get_running_loop()
        self._keeper = keeper

    def set(self, slow_ms: int, every: int) -> None:
        """Takes over the settings; a `slow_ms` of -1 and an `every` of 0 mean never."""
        self.slow_ns = NEVER_NS if slow_ms < 0 else slow_ms * 1_000_000
        self.every = self._left = every

    def is_due(self) -> bool:
        """Whether the next request is one of the sample. Asked on the broker's loop only, where `every` is not 0."""
        self._left -= 1
        if self._left > 0:
            return False
        self._left = self.every
        return self._keeper is not None

    def begin(self, request: Request, began_ns: int) -> Request:
        """The request, with what takes down its way."""
        assert self._keeper is not None
        return request._replace(trace=self._keeper().begin(began_ns))

    def waited(self, context: ConnectionContext, correlation_id: int, wait: object) -> None:
        if len(self._waits) >= MAX_WAITS:
            self._waits.clear()
        self._waits[context.connection_id, correlation_id] = wait

    def finish(self, answered: Answered, send_ns: int) -> None:
        """The answer has left, or never will; on any thread."""
        if self._loop is None:
            return
        if asyncio.get_running_loop() is self._loop:
            self._keep(answered, send_ns)
        else:
            self._loop.call_soon_threadsafe(self._keep, answered, send_ns)

    def _keep(self, answered: Answered, send_ns: int) -> None:
        assert self._keeper is not None
        key = (answered.context.connection_id, answered.header.correlation_id)
        self._keeper().keep(answered, send_ns, self._waits.pop(key, None))


class RequestMetrics:
    """Counts requests. `api_name` gives the name of an API key. `watch` has those that are looked at closer.

    Network threads count at the same time, and the broker's loop reads meanwhile.
    """

    def __init__(self, registry: Registry, api_name: Callable[[int], str]) -> None:
        self.watch = RequestWatch()
        self._adding = threading.Lock()
        self._registry = registry
        self._api_name = api_name
        self._by_version: dict[int, RequestTimes] = {}
        self._apis: dict[int, ApiTimes] = {}

    def times(self, api_key: int, api_version: int) -> RequestTimes:
        """What is counted for `api_key` in `api_version`."""
        found = self._by_version.get(api_key << 16 | api_version)
        if found is not None:
            return found
        with self._adding:
            return self._by_version.get(api_key << 16 | api_version) or self._add(api_key, api_version)

    def _add(self, api_key: int, api_version: int) -> RequestTimes:
        name = self._api_name(api_key)
        api = self._apis.get(api_key)
        if api is None:
            api = self._apis[api_key] = ApiTimes()
            self._register_api(name, api)
        times = RequestTimes(name, api)
        api.versions = (*api.versions, times)
        self._registry.derive(
            _GROUP,
            _KIND,
            "RequestsPerSec",
            lambda: _counter(times.at_once.count + times.deferred),
            request=name,
            version=str(api_version),
        )
        self._by_version[api_key << 16 | api_version] = times
        return times

    def _register_api(self, name: str, api: ApiTimes) -> None:
        def at_once() -> Iterable[Histogram]:
            return (times.at_once for times in api.versions)

        def requests() -> int:
            return sum(times.at_once.count + times.deferred for times in api.versions)

        def with_zeros(histogram: Histogram) -> Histogram:
            return _merged((histogram,), zeros=max(requests() - histogram.count, 0))

        derive = partial(self._registry.derive, _GROUP, _KIND)
        derive("RequestQueueTimeMs", lambda: with_zeros(api.request_queue), request=name)
        derive("LocalTimeMs", lambda: _merged((api.local, *at_once())), request=name)
        derive("RemoteTimeMs", lambda: with_zeros(api.remote), request=name)
        derive("ThrottleTimeMs", lambda: with_zeros(api.throttle), request=name)
        derive("ResponseQueueTimeMs", lambda: with_zeros(api.response_queue), request=name)
        derive("ResponseSendTimeMs", lambda: api.response_send, request=name)
        derive("TotalTimeMs", lambda: _merged((api.total, *at_once())), request=name)
        derive("ErrorsPerSec", lambda: _counter(sum(times.errors for times in api.versions)), request=name)


def _counter(value: int) -> Counter:
    counter = Counter()
    counter.value = value
    return counter


def _merged(histograms: Iterable[Histogram], *, zeros: int = 0) -> Histogram:
    return Histogram(scale=_MS_PER_NS).add_all(histograms, zeros=zeros)


class Asker(Protocol):
    """Who put a request into the channel and takes its answer, on a loop of its own."""

    loop: asyncio.AbstractEventLoop

    def on_answer(self, ticket: Ticket) -> None: ...

    def on_room(self) -> None:
        """There is room in the channel again; called on the asker's loop after `put` found none."""
        ...


class Ticket:
    """A request on its way through the channel, and its answer on the way back."""

    __slots__ = (
        "asker",
        "completed_ns",
        "context",
        "failure",
        "local_ns",
        "put_ns",
        "queued_ns",
        "remote_ns",
        "request",
        "response",
        "response_queue_ns",
        "times",
        "trace",
    )

    def __init__(self, asker: Asker, request: Request, times: RequestTimes) -> None:
        self.asker = asker
        self.request: Request | None = request
        self.times = times
        self.put_ns = perf_counter_ns()
        self.completed_ns = 0
        self.response: Response = CLOSE_CONNECTION
        self.failure: BaseException | None = None
        self.context = request.context
        self.trace: Trace | None = None
        self.queued_ns = self.local_ns = self.remote_ns = self.response_queue_ns = 0


class RequestChannel:
    """Hands requests of processors with threads of their own to the handler on the broker's loop.

    A deque is safe between threads, so there is no lock. A wake-up of the other loop (a write to its pipe, 5 us) is
    asked for only where none is under way:

        1. the asker appends, sees `_awake` false, sets it, wakes the broker's loop;
        2. the broker's loop clears `_awake` *before* it takes what is there;
        3. so whatever is appended after the last look finds `_awake` false and wakes again.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        capacity: int,
        *,
        on_halt: Callable[[InvariantViolation], None],
        watch: RequestWatch | None = None,
    ) -> None:
        self._loop = loop
        self._watch = watch or RequestWatch()
        self.handler = handler
        self._capacity = capacity
        self._on_halt = on_halt
        self._tickets: deque[Ticket] = deque()
        self._awake = False
        self._waiting: deque[Asker] = deque()
        self._answers: dict[Asker, deque[Ticket]] = {}
        self._asker_awake: dict[Asker, bool] = {}

    def join(self, asker: Asker) -> None:
        """Makes `asker` known; on any thread, before its first `put`."""
        self._answers[asker] = deque()
        self._asker_awake[asker] = False

    @property
    def size(self) -> int:
        """Requests that wait for the handler: Kafka's RequestQueueSize."""
        return len(self._tickets)

    @property
    def answers_size(self) -> int:
        """Answers that wait for their processors: Kafka's ResponseQueueSize."""
        return sum(len(answers) for answers in self._answers.values())

    def room(self) -> int:
        """How many requests may be put now."""
        return self._capacity - len(self._tickets)

    def wait_for_room(self, asker: Asker) -> None:
        """`asker.on_room` is called once, when there is room."""
        self._waiting.append(asker)
        # The broker's loop may have taken all requests just before: then nobody would look at the waiting ones.
        self._wake()

    def put(self, ticket: Ticket) -> None:
        """Queues a request, on the asker's thread; the caller asked `room` before."""
        self._tickets.append(ticket)
        self._wake()

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        """Handles a bounded batch of what is queued; on the broker's loop."""
        self._awake = False
        tickets = self._tickets
        for _ in range(min(len(tickets), MAX_BATCH)):
            self._handle(tickets.popleft())
        while self._waiting and len(tickets) <= self._capacity // 2:
            asker = self._waiting.popleft()
            _tell(asker, asker.on_room)
        if tickets or self._waiting:
            self._wake()

    def _handle(self, ticket: Ticket) -> None:
        request, ticket.request = ticket.request, None
        assert request is not None
        started = perf_counter_ns()
        api = ticket.times.api
        ticket.times.deferred += 1
        ticket.queued_ns = started - ticket.put_ns
        api.request_queue.record(ticket.queued_ns)
        if self._watch.every and self._watch.is_due():
            request = self._watch.begin(request, ticket.put_ns)
            ticket.trace = request.trace
        try:
            outcome = self.handler(request)
        except InvariantViolation as violation:
            self._on_halt(violation)
            return
        except Exception as error:  # noqa: BLE001  # the boundary of a handler: its bug closes one connection
            ticket.failure = error
            outcome = CLOSE_CONNECTION
        handled = perf_counter_ns()
        ticket.local_ns = handled - started
        api.local.record(ticket.local_ns)
        if isinstance(outcome, Response):
            self._send_back(ticket, outcome)
        else:
            asyncio.ensure_future(outcome, loop=self._loop).add_done_callback(partial(self._on_done, ticket, handled))

    def _on_done(self, ticket: Ticket, handled_ns: int, future: asyncio.Future[Response]) -> None:
        response = CLOSE_CONNECTION
        if future.cancelled():
            pass  # its connection is gone, or the broker ends: no failure
        elif (error := future.exception()) is None:
            response = future.result()
        elif isinstance(error, InvariantViolation):
            self._on_halt(error)
            return
        else:
            ticket.failure = error
        ticket.remote_ns = perf_counter_ns() - handled_ns
        ticket.times.api.remote.record(ticket.remote_ns)
        self._send_back(ticket, response)

    def _send_back(self, ticket: Ticket, response: Response) -> None:
        ticket.response = response
        ticket.completed_ns = perf_counter_ns()
        ticket.times.api.total.record(ticket.completed_ns - ticket.put_ns)
        asker = ticket.asker
        self._answers[asker].append(ticket)
        if not self._asker_awake[asker]:
            self._asker_awake[asker] = True
            _tell(asker, self._give_back, asker)

    def _give_back(self, asker: Asker) -> None:
        """Gives an asker its answers; on its loop."""
        self._asker_awake[asker] = False
        answers = self._answers[asker]
        for _ in range(len(answers)):
            ticket = answers.popleft()
            ticket.response_queue_ns = perf_counter_ns() - ticket.completed_ns
            ticket.times.api.response_queue.record(ticket.response_queue_ns)
            asker.on_answer(ticket)


def _tell(asker: Asker, call: Callable[..., object], *arguments: object) -> None:
    """Has `call` run on the asker's loop. A broker that stops ends its processors first, each with its connections, and
    cancels what they still waited for after that: nobody is left to be told."""
    try:
        asker.loop.call_soon_threadsafe(call, *arguments)
    except RuntimeError:
        if not asker.loop.is_closed():
            raise
