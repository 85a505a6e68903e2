"""`kavka up --brokers N`: from options to several running brokers, in this process or in processes of their own.

Decides how many brokers a data directory stands for, which settings each of them has, and what is said when they serve.
Must not import typer or rich (kavka/cli/main.py says why).

    DIR/broker-1/logs .. DIR/broker-N/logs   the brokers' log directories. Broker 1 stays in DIR/logs where a single
                                             broker has grown
    DIR/kavka-zookeeper                      what they share: topics, settings, ids
    DIR/broker-I/server.properties           written for each process of --processes

A directory may grow: brokers that are new to it begin empty. It never shrinks by a mistyped number: fewer brokers than
there are would leave replicas, and perhaps whole partitions, behind.

Source of the defaults: Kafka's own for a production cluster, as far as so many brokers can hold them.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kavka.cli.run.start import (
    ALL_INTERFACES,
    BROKER_DIRECTORY,
    CONFIG_NEXT,
    DEFAULT_HOST,
    DEFAULT_PORT,
    FAILED,
    USAGE_NEXT,
    WRONG_USAGE,
    Start,
    WrongUsage,
    address,
    fail,
    listeners_of,
    login_option,
    metrics_of,
    next_step,
    say,
    start_one,
    wants_colour,
    warn_of_secrets,
    warn_of_settings,
)
from kavka.cli.run.start_secure import SecuredStart, client_addresses, require_closed, tell_of_open
from kavka.config.broker import BrokerConfig
from kavka.config.properties import parse_assignments
from kavka.errors import AddressUnavailable, ConfigError, KavkaError

if TYPE_CHECKING:
    from socket import socket

    from kavka.cli.run.console_beside import ConsoleBeside

ZOOKEEPER_DIRECTORY = "kavka-zookeeper"
OF_ONE_BROKER = ("broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir")
"""Settings that brokers of one machine cannot have in common."""
WITH_AN_ENSEMBLE = ("zookeeper.connect",)


class TooFewBrokers(Exception):
    """The data directory has more brokers than were asked for."""


@dataclass(frozen=True, slots=True)
class BrokerStarted:
    """A broker that serves; `pid` is its process."""

    broker_id: int
    address: str
    log_directory: str
    pid: int


def start_cluster(plan: Start) -> int:
    """Runs the brokers until a signal ends them; returns the exit status."""
    try:
        count = broker_count(plan)
        if count == 1 and not plan.processes and plan.zookeeper_port is None:
            return start_one(plan)
        settings = {broker_id: settings_of_broker(plan, broker_id, count) for broker_id in range(1, count + 1)}
        configs = {broker_id: BrokerConfig.from_properties(own) for broker_id, own in settings.items()}
        require_closed(plan, configs[1])
        require_free_ports(plan, count)
    except WrongUsage as problem:
        return fail(str(problem), USAGE_NEXT, status=WRONG_USAGE)
    except TooFewBrokers as problem:
        return fail(str(problem), "leave --brokers out, or choose another directory with --data", status=FAILED)
    except AddressUnavailable as problem:
        return fail(str(problem), next_step(problem, plan))
    except ConfigError as problem:
        return fail(str(problem), CONFIG_NEXT)
    from kavka.cli.run.console_beside import ConsoleBeside
    from kavka.runtime.log_output import configure

    configure(plan.log_level, as_json=plan.as_json)
    warn_of_settings(configs[1])
    warn_of_secrets(plan)
    tell_of_open(plan, configs.values())
    console, secured = ConsoleBeside(plan), SecuredStart(plan, count)
    try:
        if plan.processes:
            return _run_processes(plan, settings, console)
        secured.prepare()
        return _run_here(plan, configs, console, secured)
    except KavkaError as problem:
        return fail(str(problem), next_step(problem, plan))
    except OSError as problem:
        return fail(f"{problem.filename}: {problem.strerror}", "choose a directory that can be written, with --data")
    except KeyboardInterrupt:
        return 128 + 2
    finally:
        secured.end()
        console.stop()


# -- which brokers


def broker_count(plan: Start) -> int:
    """As many as were asked for; without a wish as many as the directory has, one in a new directory.

    Raises TooFewBrokers.
    """
    found = _brokers_in(plan.data)
    if plan.brokers and plan.brokers < found:
        raise TooFewBrokers(
            f"{plan.data} has {found} brokers, and --brokers is {plan.brokers}: the others' replicas would be missing"
        )
    return plan.brokers or found or 1


def _brokers_in(directory: str) -> int:
    """The highest id of a broker that has a directory there; 0 where there is none."""
    try:
        names = os.listdir(directory)
    except OSError:
        return 0
    ids = [int(name.removeprefix(BROKER_DIRECTORY)) for name in names if _is_broker_directory(name)]
    return max(ids, default=int("logs" in names))


def _is_broker_directory(name: str) -> bool:
    return name.startswith(BROKER_DIRECTORY) and name.removeprefix(BROKER_DIRECTORY).isdecimal()


def settings_of_broker(plan: Start, broker_id: int, count: int) -> dict[str, str]:
    """All settings of one of `count` brokers. Raises WrongUsage."""
    try:
        asked = parse_assignments(plan.settings)
    except ConfigError as problem:
        raise WrongUsage(f"--set: {problem}") from problem
    for name in (*OF_ONE_BROKER, *WITH_AN_ENSEMBLE):
        if name in asked:
            raise WrongUsage(
                f"--set {name} is not possible with several brokers on one embedded ZooKeeper: use `kavka server`"
            )
    replicas = min(3, count)
    # One replica may be down: of three two must be in sync, of two one.
    in_sync = max(1, replicas - 1)
    distance = broker_id - 1
    return {
        "broker.id": str(broker_id),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        # The last one to stop has nobody to hand over to, and shall not wait three times 5 s to be sure of it.
        "controlled.shutdown.retry.backoff.ms": "200",
        "log.dirs": _log_directory(plan.data, broker_id),
        "kavka.zookeeper.data.dir": os.path.join(os.path.abspath(plan.data), ZOOKEEPER_DIRECTORY),
        **listeners_of(plan, plan.port + distance if plan.port else 0, distance=distance),
        **metrics_of(plan, distance=distance),
        **asked,
    }


def _log_directory(data: str, broker_id: int) -> str:
    """As an absolute path: `kavka server` may be given the file in another working directory."""
    data = os.path.abspath(data)
    of_a_single_one = os.path.join(data, "logs")
    if broker_id == 1 and os.path.isdir(of_a_single_one):
        return of_a_single_one
    return os.path.join(data, f"{BROKER_DIRECTORY}{broker_id}", "logs")


def require_free_ports(plan: Start, count: int) -> None:
    """Raises AddressUnavailable before anything is written, rather than when half of the brokers run; WrongUsage."""
    ports = range(plan.port, plan.port + count) if plan.port else range(0)
    if ports and ports[-1] > 65535:
        raise WrongUsage(f"--port {plan.port}: {count} brokers need the ports up to {ports[-1]}")
    if plan.zookeeper_port and plan.zookeeper_port in ports:
        raise WrongUsage(
            f"--zookeeper-port {plan.zookeeper_port} is broker {plan.zookeeper_port - plan.port + 1}'s port"
        )
    wanted = [(port, f"broker {number}") for number, port in enumerate(ports, 1)]
    if plan.zookeeper_port:
        wanted.append((plan.zookeeper_port, "ZooKeeper"))
    from kavka.runtime.network.ports import require_free

    for port, whose in wanted:
        require_free(plan.host, port, what=whose)


# -- in this process


def _run_here(plan: Start, configs: Mapping[int, BrokerConfig], console: ConsoleBeside, secured: SecuredStart) -> int:
    from kavka.runtime.cluster import ClusterStarted, run
    from kavka.runtime.zookeeper.zookeeper_host import ZooKeeperPlace

    def tell(started: ClusterStarted) -> None:
        brokers = [
            BrokerStarted(
                broker.broker_id,
                ", ".join(client_addresses(broker.endpoints).values()),
                broker.log_directories[0],
                os.getpid(),
            )
            for broker in started.brokers
        ]
        more = secured.lines()
        _tell(plan, brokers, started.brokers[0].cluster_id, started.zookeeper, started.seconds, more=more)

    place = replace(ZooKeeperPlace.of(configs[1]), host=plan.host or DEFAULT_HOST, port=plan.zookeeper_port)

    def on_started(started: ClusterStarted) -> None:
        addresses = [each for broker in started.brokers for each in client_addresses(broker.endpoints).values()]
        secured.on_started(",".join(addresses))
        say(lambda: tell(started))
        console.start(addresses, started.zookeeper)

    prepare = secured.store_user if plan.secure else None
    return run(list(configs.values()), place, on_started=on_started, prepare=prepare)


# -- in processes of their own


def _run_processes(plan: Start, settings: Mapping[int, Mapping[str, str]], console: ConsoleBeside) -> int:
    from kavka.cli.run.zookeeper_wait import STARTED_BESIDE
    from kavka.runtime.network.ports import reserve
    from kavka.runtime.settings_file import write_settings
    from kavka.runtime.supervisor import ChildPlan, SupervisorStarted, run

    # Until this process ends: between the choice of a port and its server's own bind the kernel would else give it to
    # a sibling, or to the connection of one; and a broker that died finds its port free when it is started again.
    kept: list[socket] = []

    def free_port() -> int:
        kept.append(reserve(host))
        port: int = kept[-1].getsockname()[1]
        return port

    host = DEFAULT_HOST if plan.host in ALL_INTERFACES else plan.host
    zookeeper_port = plan.zookeeper_port or free_port()
    zookeeper = ChildPlan(
        "ZooKeeper",
        (
            *_command("zookeeper", plan),
            *("--host", host, "--port", str(zookeeper_port)),
            *("--data", settings[1]["kavka.zookeeper.data.dir"], "--max-connections", "0"),
            "--insecure",  # Whether this host may be served is decided before.
        ),
        host,
        zookeeper_port,
    )
    ports = {number: plan.port + number - 1 if plan.port else free_port() for number in settings}
    brokers = []
    for number, own in settings.items():
        shared = {name: value for name, value in own.items() if name != "kavka.zookeeper.data.dir"}
        listeners = listeners_of(plan, ports[number], distance=number - 1)
        file = os.path.join(plan.data, f"{BROKER_DIRECTORY}{number}", "server.properties")
        written = {**shared, **listeners, "zookeeper.connect": address(host, zookeeper_port)}
        write_settings(file, written, written_by="kavka up --processes")
        words = (*_command("server", plan), file)
        again = f"kavka server {shlex.quote(file)}"
        brokers.append(ChildPlan(f"broker {number}", words, host, ports[number], {STARTED_BESIDE: "1"}, again))

    def tell(started: SupervisorStarted) -> None:
        pids = {number: started.pids[f"broker {number}"] for number in settings}
        told = [
            BrokerStarted(number, address(host, ports[number]), own["log.dirs"], pids[number])
            for number, own in settings.items()
        ]
        place = address(host, zookeeper_port)
        _tell(plan, told, started.cluster_id, place, started.seconds, started.pids[zookeeper.name])

    def on_started(started: SupervisorStarted) -> None:
        say(lambda: tell(started))
        at = address(host, zookeeper_port)
        console.start([address(host, ports[number]) for number in settings], at)

    return run(zookeeper, brokers, on_started=on_started)


def _command(name: str, plan: Start) -> tuple[str, ...]:
    words = (sys.executable, "-m", "kavka.cli.main", name, "--log-level", plan.log_level)
    return (*words, "--json") if plan.as_json else words


# -- what is said


def _tell(
    plan: Start,
    brokers: list[BrokerStarted],
    cluster_id: str,
    zookeeper: str | None,
    seconds: float,
    zookeeper_pid: int = 0,
    more: Sequence[str] = (),
) -> None:
    """That all brokers serve: to a person with the next commands, to a program as JSON."""
    if not plan.as_json:
        print("\n".join(_ready_lines(plan, brokers, zookeeper, zookeeper_pid, more)), flush=True)
        return
    import json

    facts: dict[str, object] = {
        "event": "ready",
        "bootstrap": ",".join(broker.address for broker in brokers),
        "cluster_id": cluster_id,
        "brokers": [
            {
                "broker_id": broker.broker_id,
                "address": broker.address,
                "log_directory": broker.log_directory,
                "pid": broker.pid,
            }
            for broker in brokers
        ],
        "zookeeper": zookeeper,
        "seconds": round(seconds, 3),
    }
    if zookeeper_pid:
        facts["zookeeper_pid"] = zookeeper_pid
    print(json.dumps(facts), flush=True)


def _ready_lines(
    plan: Start, brokers: Sequence[BrokerStarted], zookeeper: str | None, zookeeper_pid: int, more: Sequence[str]
) -> list[str]:
    bootstrap = ",".join(broker.address for broker in brokers)
    bold, plain = ("\x1b[1m", "\x1b[0m") if wants_colour() else ("", "")
    of_them = "1 broker" if len(brokers) == 1 else f"{len(brokers)} brokers"
    lines = [f"{bold}kavka is ready{plain}: {of_them} on {bootstrap.replace(',', ', ')}, data in {plan.data}", ""]
    if zookeeper_pid:
        pids = ", ".join(f"broker {broker.broker_id} is {broker.pid}" for broker in brokers)
        lines.append(f"  Processes   {pids}, ZooKeeper is {zookeeper_pid}")
    if zookeeper is not None:
        lines.append(f"  ZooKeeper   {zookeeper}")
    lines += more
    at = "" if brokers[0].address == f"{DEFAULT_HOST}:{DEFAULT_PORT}" else f" -b {brokers[0].address}"
    if plan.secure:
        at = login_option(plan)
    return [
        *lines,
        f"  Topic       kavka topics create{at} greetings",
        f"  Produce     echo 'hello' | kavka produce{at} greetings",
        f"  Consume     kavka consume{at} greetings -o beginning",
        f"  Clients     bootstrap.servers={bootstrap}",
        "",
        "Ctrl-C stops them; the data stays.",
    ]
