"""A simulated broker: the production Broker and Dispatcher on a node's loop, with simulated ports.

Decides only how a broker's process starts, ends and gets requests; `runtime.server` and `runtime.processor` do the same
with sockets. A broker has many lives on one machine: each is a node loop of its own, over one disk. Where its settings
name listeners, TLS and SASL stand before the dispatcher as they do in production.

    I1  requests of one connection are handled in order, answers leave in the order of their requests
    I2  a bug (an exception that a handler or a task lets through) is kept in `bugs`: the simulation fails with it
    I3  what comes before a connection's gate is open is handled one by one; after an answer that mutes the connection
        nothing is handled for so long
    I4  a broker that halts (an invariant, no log directory left) is dead like one that was killed, and says why
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Final, NamedTuple

from kavka.broker.acceptor import Acceptor, Admission, bounds_of, listeners_of_brokers
from kavka.broker.assembly.broker import Broker
from kavka.broker.assembly.ports import NOBODY, Ports
from kavka.broker.assembly.start import start_broker
from kavka.broker.dispatcher import Dispatcher
from kavka.broker.metadata.metadata_cache import Endpoint as BrokerAddress
from kavka.config.broker import BrokerConfig
from kavka.config.listeners import SASL_PROTOCOLS
from kavka.config.listeners import Endpoint as ListenerEndpoint
from kavka.decisions import Decision, RecordDecision, forget
from kavka.errors import ConnectionFailed, InvariantViolation, KavkaError, ProtocolViolation, StorageError
from kavka.filesystem import make_durable_directory
from kavka.model import chunk_bytes
from kavka.protocol.api import decode_request_header
from kavka.protocol.connection import (
    CLOSE_CONNECTION,
    UNREAD,
    ConnectionContext,
    Gate,
    Outcome,
    Request,
    Response,
    ServerConnection,
    Slot,
)
from kavka.protocol.frames import BufferPool
from kavka.security.connection_quota import ConnectionBounds, ConnectionQuota
from kavka.simulator.host.accepting import Arrived, Backlog, NoLog, Place, Places
from kavka.simulator.host.disk import SimulatedDisk
from kavka.simulator.host.network import Endpoint, NodeNetwork, SimulatedNetwork
from kavka.simulator.host.scheduler import NodeLoop, Scheduler
from kavka.simulator.host.tls import TlsAcceptor, TlsIdentity, TlsNetwork
from kavka.simulator.host.trace import Trace
from kavka.simulator.host.wire import Exchange, SaslMessage, Wire, sasl_message
from kavka.simulator.host.zookeeper import WALL_CLOCK_START_MS
from kavka.zookeeper.client import ClientOptions, ZooKeeperClient

LISTENER: Final = "PLAINTEXT"
PORT: Final = 9092
TLS_PROTOCOLS: Final = frozenset({"SSL", "SASL_SSL"})
LOG_DIRECTORIES: Final = "/logs"
"""Where a broker's settings say nothing else; each directory is a volume of its own."""
MAX_OPEN_SEGMENTS: Final = 1_000
RESTART_S: Final = 5.0
"""A broker that halted is started again after so long."""
FRAME_BYTES: Final = 4
"""The length in front of a frame, which the simulated wire does not carry."""


class Halt(NamedTuple):
    """A broker that ended itself."""

    at_ms: int
    broker_id: int
    why: str


class BrokerSurroundings(NamedTuple):
    """What all brokers of a world share. `bugs` and `halts` are lists that they add to."""

    scheduler: Scheduler
    network: SimulatedNetwork
    connect_string: str
    bugs: list[BaseException]
    halts: list[Halt]
    trace: Trace | None = None


class SimulatedBroker:
    """One broker of a simulation, through its lives."""

    def __init__(self, around: BrokerSurroundings, broker_id: int, settings: Mapping[str, str]) -> None:
        scheduler = around.scheduler
        self._scheduler = scheduler
        self._trace = around.trace
        self._network = around.network
        self.broker_id = broker_id
        self.node = f"broker-{broker_id}"
        self._connect_string = around.connect_string
        self._settings = {"log.dirs": LOG_DIRECTORIES, **settings}
        self.tls = TlsIdentity()
        """What it shows and believes on listeners with TLS."""
        self.log_directories = tuple(self._settings["log.dirs"].split(","))
        self._bugs = around.bugs
        self._halts = around.halts
        self.disk = SimulatedDisk(scheduler.new_random(), wall_ms=self.wall_ms)
        self.disk_delay_s = 0.0
        self.clock_skew_ms = 0
        self.is_given_up = False
        """Nobody starts or wakes it any more, whatever was planned before."""
        self.clock_rate = 1.0
        """How much faster its clocks go than time does."""
        self.life = 0
        self.is_serving = False
        self.loop: NodeLoop | None = None
        self._ports: list[int] = [PORT]
        """Where this life listens."""
        self.broker: Broker | None = None
        """The broker of this life, to look into; None while it is dead or starting."""
        self._acceptors: list[Acceptor[Arrived]] = []
        self._admission: Admission | None = None
        self.bounds = ConnectionBounds()
        """On this life's connections, as its settings have them now."""
        self.places: Places | None = None
        """What clients of this life have open."""
        self.backlogs: dict[str, Backlog] = {}
        """By listener: who waits to be accepted."""
        self.on_accepted: Callable[[SimulatedBroker], None] = lambda broker: None
        self.hosted: Broker | None = None
        """The same from the beginning of its start on, for those who watch its logs."""
        self.wire: Wire | None = None
        """Is told what this broker is asked and what it answers."""
        self.on_decision: RecordDecision = forget

    @property
    def settings(self) -> Mapping[str, str]:
        """What its next life is started with; but for what each life is told besides."""
        return self._settings

    def set(self, settings: Mapping[str, str]) -> None:
        """Its properties file is edited: its next life goes by that."""
        self._settings = {**self._settings, **settings}

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.loop is not None and not self.loop.is_killed

    @property
    def is_paused(self) -> bool:
        return self.loop is not None and self.loop.is_paused

    @property
    def has_offline_directory(self) -> bool:
        """Whether it gave up a log directory in this life."""
        return self.broker is not None and bool(self.broker.logs.offline_directories)

    @property
    def is_whole(self) -> bool:
        """Whether it serves and has all of its disks."""
        return self.is_serving and not self.disk.is_broken and not self.has_offline_directory

    # -- lives

    def start(self) -> None:
        """Begins another life on the same disk; it serves some time later."""
        assert not self.is_alive, f"{self.node} runs already"
        if self.is_given_up:
            return
        self.life += 1
        self._acceptors, self._admission, self.places, self.backlogs = [], None, None, {}
        if self._trace is not None:
            self._trace.on_broker_began(self.node, f"life {self.life}")
        self.loop = self._scheduler.node(f"{self.node}.{self.life}")
        self.loop.owner = self.broker_id
        self.loop.rate = self.clock_rate
        self._network.machine_up(self.node)
        self.loop.create_task(self._begin(self.loop)).add_done_callback(self._on_begun)

    def kill(self) -> None:
        """As SIGKILL: what was written is in the kernel's hands, connections are reset."""
        self._die("killed")

    def power_cut(self) -> None:
        """The machine dies: unsynced writes are lost or torn, and no connection is closed."""
        loop = self._end("power lost")
        self.disk.process_died(loop)
        self.disk.power_cut()
        self._network.machine_died(self.node, loop)

    def lose_power(self) -> None:
        """The machine dies while no broker runs on it: what was written before may be lost or torn."""
        assert not self.is_alive, f"{self.node} runs"
        self._tell("power lost", "nothing ran")
        self.disk.power_cut()

    def stop(self) -> asyncio.Task[None]:
        """As SIGTERM: controlled shutdown, then a clean end. The task is done when the process is gone."""
        assert self.loop is not None
        self._tell("stopping", "in order: a controlled shutdown")
        return self.loop.create_task(self._stop())

    def pause(self) -> None:
        assert self.loop is not None
        self._tell("paused")
        self.loop.pause()

    def resume(self) -> None:
        assert self.loop is not None
        if self.is_given_up:
            return
        self._tell("resumed")
        self.loop.resume()

    def _tell(self, kind: str, text: str = "") -> None:
        if self._trace is not None:
            self._trace.on_node(self.node, kind, text)

    def _on_decision(self, decision: Decision) -> None:
        self.on_decision(decision)
        if self._trace is not None:
            self._trace.on_decision(self.node, decision)

    def _die(self, how: str) -> None:
        loop = self._end(how)
        self.disk.process_died(loop)
        self._network.process_died(loop)

    def _end(self, how: str) -> NodeLoop:
        loop = self.loop
        assert loop is not None
        self._tell(how)
        self.collect_bugs()
        loop.kill()
        self.broker = self.hosted = None
        self.is_serving = False
        return loop

    def collect_bugs(self) -> None:
        """Moves what this life's tasks and callbacks let through into `bugs`."""
        if self.loop is None:
            return
        for context in self.loop.failures:
            failure = context.get("exception")
            self._bugs.append(failure if isinstance(failure, BaseException) else RuntimeError(str(context)))
        self.loop.failures.clear()

    async def _begin(self, loop: NodeLoop) -> None:
        filesystem = self.disk.port(loop)
        for directory in self.log_directories:
            make_durable_directory(filesystem, directory)
        config = BrokerConfig.from_properties(
            {
                "broker.id": str(self.broker_id),
                "zookeeper.connect": self._connect_string,
                "kavka.flight.recorder.enable": "false",  # the trace tells more, of all nodes at once
                **self._settings,
                "listeners": self._settings.get("listeners", f"{LISTENER}://{{node}}:{PORT}").format(node=self.node),
            }
        )
        network = self._network.port_of(self.node, loop)
        rng = self._scheduler.new_random()
        zookeeper = await ZooKeeperClient.connect(
            network,
            self._connect_string,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_time_ms,
            rng=rng,
            options=ClientOptions(config.zookeeper_requests_in_flight),
        )
        ports = Ports(
            zookeeper,
            filesystem,
            rng,
            self.wall_ms,
            self._run_blocking,
            self._halt,
            MAX_OPEN_SEGMENTS,
            self._on_config,
            self._peers(config, network),
            is_alone=False,
            on_decision=self._on_decision,
            place=f"boot-{self.disk.crashes}/here",
            on_made=self._on_made,
            clock_ns=lambda: round(self._scheduler.now_ms * 1_000_000),
            secret_bytes=Random(f"secrets {self._scheduler.seed} {self.node} {self.life}").randbytes,
            own_principal=self._own_principal(config),
        )
        listeners = config.listener_endpoints
        self._ports = [each.port for each in listeners]
        advertised = {each.listener: BrokerAddress(self.node, each.port) for each in listeners}
        broker = self.broker = await start_broker(config, ports, advertised)
        dispatcher = Dispatcher(broker)
        self._open(config, loop, broker, dispatcher)
        await broker.first_metadata.wait_for(5.0)
        self.is_serving = True
        self._tell("serves")

    def _peers(self, config: BrokerConfig, network: NodeNetwork) -> NodeNetwork | TlsNetwork:
        """How it reaches the others: with TLS, where their listener for brokers has it."""
        if config.security_protocols.get(config.inter_broker_listener) not in TLS_PROTOCOLS:
            return network
        return TlsNetwork(network, self.tls, self.wall_ms)

    def _own_principal(self, config: BrokerConfig) -> str:
        certificate = self.tls.certificate
        if certificate is None or config.security_protocols.get(config.inter_broker_listener) != "SSL":
            return NOBODY
        return f"User:{certificate.subject}"

    def _tls_of(self, config: BrokerConfig, listener: ListenerEndpoint) -> TlsAcceptor | None:
        if listener.security_protocol not in TLS_PROTOCOLS:
            return None
        client_auth = "none" if listener.security_protocol in SASL_PROTOCOLS else config.ssl_client_auth
        return TlsAcceptor(self.tls, self.wall_ms, client_auth)

    def _on_made(self, broker: Broker) -> None:
        self.hosted = broker

    def _on_begun(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (failure := task.exception()) is None:
            return
        if isinstance(failure, KavkaError):
            self._halt(f"did not start: {failure!r}")
        else:
            self._bugs.append(failure)

    async def _stop(self) -> None:
        broker, loop = self.broker, self.loop
        assert broker is not None
        assert loop is not None
        await broker.leave_cluster()
        broker.answer_waiting()
        for acceptor in self._acceptors:
            acceptor.stop()
        assert self.places is not None
        for each in self.places.all():  # As runtime.server: nobody is heard any more.
            each.close()
        await broker.stop()
        self._scheduler.after(0, self._exited)

    def _exited(self) -> None:
        if self.is_alive:
            self._die("stopped")

    # -- ports

    def wall_ms(self) -> int:
        """The time by its machine's clock."""
        return WALL_CLOCK_START_MS + round(self._scheduler.now_ms * self.clock_rate) + self.clock_skew_ms

    async def _run_blocking(self, work: Callable[[], None]) -> None:
        await asyncio.sleep(self.disk_delay_s)
        work()

    def _halt(self, why: str) -> None:
        self._halts.append(Halt(self._scheduler.now_ms, self.broker_id, why))
        self._tell("halts", why)
        if self.is_alive:
            self.kill()
        # As whoever supervises processes does.
        self._scheduler.after(RESTART_S, lambda: None if self.is_alive else self.start())

    # -- connections

    def _open(self, config: BrokerConfig, loop: NodeLoop, broker: Broker, dispatcher: Dispatcher) -> None:
        """All listeners, over what stands before requests in production, too."""
        self._on_config(config)
        quota = ConnectionQuota(self.bounds, listeners_of_brokers(config))
        places = self.places = Places(loop)
        admission = self._admission = Admission(loop, quota, NoLog(), [places], [places])
        network = self._network.port_of(self.node, loop)
        for each in config.listener_endpoints:
            tls = self._tls_of(config, each)

            def serve(arrived: Arrived, context: ConnectionContext, tls: TlsAcceptor | None = tls) -> None:
                connection = _Connection(arrived.endpoint, dispatcher, self, tls, context, quota)
                places.add(context, connection.look)
                loop.create_task(connection.run(loop)).add_done_callback(self._on_ended)

            backlog = Backlog(loop, partial(network.close_listener, each.port), lambda: self.on_accepted(self))
            acceptor = Acceptor(loop, backlog, [serve], admission, listener_name=each.listener)
            if each.security_protocol in SASL_PROTOCOLS:
                assert broker.gates is not None, "a broker with such a listener has gates"
                acceptor.new_gate = broker.gates.new
            acceptor.start()
            self._acceptors.append(acceptor)
            self.backlogs[each.listener] = backlog
            network.listen(each.port, backlog.on_connection)

    def _on_config(self, config: BrokerConfig) -> None:
        """As runtime.server: bounds on connections may change."""
        self.bounds = bounds_of(config)
        if self._admission is not None:
            self._admission.quota.change_limits(self.bounds)
            self._admission.close_surplus()

    def _on_ended(self, task: asyncio.Task[None]) -> None:
        """A connection's; nothing but a bug makes it fail."""
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._bugs.append(failure)

    def on_bug(self, bug: BaseException) -> None:
        """A handler let an exception through."""
        self._bugs.append(bug)

    def on_violation(self, violation: InvariantViolation) -> None:
        """A handler broke an invariant."""
        self._bugs.append(violation)
        self._halt(f"an invariant is broken: {violation}")


class _Connection:
    """One client's connection."""

    def __init__(
        self,
        endpoint: Endpoint,
        dispatcher: Dispatcher,
        broker: SimulatedBroker,
        tls: TlsAcceptor | None,
        context: ConnectionContext,
        quota: ConnectionQuota,
    ) -> None:
        self._endpoint = endpoint
        self._dispatcher = dispatcher
        self._broker = broker
        self._tls = tls
        self._has_said_hello = tls is None
        self._quota = quota
        self._context = context
        self._slots = ServerConnection(self._context, BufferPool(), 0)
        self._muted_until_s = 0.0
        self._accepted_at = self._active_at = endpoint.loop.time()

    def look(self) -> Place:
        """As it is now."""
        context, gate = self._context, self._context.gate
        is_unknown = not self._has_said_hello or (gate is not None and not gate.is_open)
        return Place(
            context.listener_name, context.client_host, is_unknown, self._accepted_at, self._active_at, self.close
        )

    def close(self) -> None:
        """Both ends; its place is free."""
        self._endpoint.close()
        places = self._broker.places
        if places is not None and self._context in places:
            places.remove(self._context)
            self._quota.remove(self._context.listener_name, self._context.client_host)

    async def run(self, loop: NodeLoop) -> None:
        try:
            if self._tls is not None:
                subject = await self._tls.accept(self._endpoint)
                self._has_said_hello = True
                if subject is not None:
                    self._context.principal = f"User:{subject}"
            while not self._slots.closing:
                frame = memoryview(bytearray(await self._endpoint.receive_frame()))
                self._active_at = loop.time()
                while (muted_s := self._muted_until_s - loop.time()) > 0:  # noqa: ASYNC110 - it is known for how long
                    await asyncio.sleep(muted_s)
                gate = self._context.gate
                try:
                    if gate is not None:
                        await self._take_through(gate, frame, loop)
                    else:
                        header, body = decode_request_header(frame)
                        self._take(Request(header, frame[body:], self._context), loop)
                except ProtocolViolation:
                    return
                except InvariantViolation as violation:
                    self._broker.on_violation(violation)
                    return
                except Exception as bug:  # noqa: BLE001  # the boundary of a handler, as in runtime.processor
                    self._broker.on_bug(bug)
                    return
        except ConnectionFailed:
            pass  # The client is gone.
        finally:
            self._slots.close()
            self.close()
            # Not at once: a handler that is cancelled before it began leaves a coroutine that nobody awaits, of which
            # Python warns whenever it is collected; in the frame of a NamedTuple that warning itself fails.
            loop.call_soon(self._context.end)

    def _take(self, request: Request, loop: NodeLoop) -> None:
        exchange = None if self._broker.wire is None else self._broker.wire.on_request(self._broker, request)
        outcome = self._dispatcher.handle(request)
        if isinstance(outcome, Response):
            self._tell(exchange, outcome)
            self._slots.answer(request.header, outcome)
            self._send()
        else:
            self._defer(request, outcome, exchange, loop)

    def _defer(
        self, request: Request, outcome: Awaitable[Response], exchange: Exchange | None, loop: NodeLoop
    ) -> asyncio.Future[Response]:
        task: asyncio.Future[Response] = asyncio.ensure_future(outcome, loop=loop)
        slot = self._slots.defer(request.header)
        self._context.hold(task)
        task.add_done_callback(lambda task: self._complete(slot, task, exchange))
        return task

    async def _take_through(self, gate: Gate, frame: memoryview, loop: NodeLoop) -> None:
        """A frame on a connection with a gate. Until that is open the next one is not read before this is answered."""
        is_open = gate.is_open
        message = sasl_message(frame, was_open=is_open)
        if is_open:
            header, position = decode_request_header(frame)
            request = Request(header, frame[position:], self._context)
        else:
            request = Request(UNREAD, frame, self._context)
        outcome = gate.handle(request, self._serve)
        if message is not None:
            outcome = self._logged_in(message, outcome)
        if isinstance(outcome, Response):
            self._slots.answer(request.header, outcome)
            self._send()
            return
        task = self._defer(request, outcome, None, loop)
        if not is_open:
            await asyncio.wait([task])

    def _logged_in(self, message: SaslMessage, outcome: Outcome) -> Outcome:
        """Those who watch the wire learn of a message of a login and its answer, when there is one."""
        wire = self._broker.wire
        if wire is None:
            return outcome
        if isinstance(outcome, Response):
            wire.on_sasl(self._broker, self._context, message, outcome)
            return outcome

        async def later() -> Response:
            response = await outcome
            wire.on_sasl(self._broker, self._context, message, response)
            return response

        return later()

    def _serve(self, request: Request) -> Outcome:
        """What the gate lets pass."""
        exchange = None if self._broker.wire is None else self._broker.wire.on_request(self._broker, request)
        outcome = self._dispatcher.handle(request)
        if isinstance(outcome, Response):
            self._tell(exchange, outcome)
            return outcome
        return self._told(exchange, outcome)

    async def _told(self, exchange: Exchange | None, outcome: Awaitable[Response]) -> Response:
        response = await outcome
        self._tell(exchange, response)
        return response

    def _tell(self, exchange: Exchange | None, response: Response) -> None:
        """Passes the answer to the watchers of the wire. A broken rule ends the simulation."""
        if exchange is not None and self._broker.wire is not None:
            try:
                self._broker.wire.on_answer(exchange, response)
            except Exception as violation:  # noqa: BLE001  # every bug of a handler is a finding
                self._broker.on_bug(violation)

    def _complete(self, slot: Slot, task: asyncio.Future[Response], exchange: Exchange | None) -> None:
        self._context.release(task)
        if task.cancelled() or self._slots.closing:
            return
        failure = task.exception()
        if failure is None:
            self._tell(exchange, task.result())
            self._slots.complete(slot, task.result())
        elif isinstance(failure, InvariantViolation):
            self._broker.on_violation(failure)
            return
        else:
            if not isinstance(failure, ProtocolViolation):
                self._broker.on_bug(failure)
            self._slots.complete(slot, CLOSE_CONNECTION)
        self._send()

    def _send(self) -> None:
        """Sends the answers that are ready: each is a head with its length, then its chunks."""
        try:
            stream = b"".join(map(chunk_bytes, self._slots.take_output()))
        except StorageError:  # As runtime.processor: what cannot be read ends the connection.
            self._endpoint.close()
            return
        position = 0
        while position < len(stream):
            size = int.from_bytes(stream[position : position + FRAME_BYTES], "big")
            end = position + FRAME_BYTES + size
            self._endpoint.send_frame((stream[position + FRAME_BYTES : end],))
            position = end
        if self._slots.mute_ms:
            mute_s, self._slots.mute_ms = self._slots.mute_ms / 1000, 0
            self._muted_until_s = max(self._muted_until_s, asyncio.get_running_loop().time() + mute_s)
        if self._slots.closing:
            self._endpoint.close()
