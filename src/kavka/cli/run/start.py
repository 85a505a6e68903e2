"""`kavka up` and `kavka server`: from options to a running broker.

Decides which settings the options stand for, what is said when the broker serves, and what to do next when it cannot
start. Several brokers are cli/run/start_cluster.py's. Must not import typer or rich (kavka/cli/main.py says why).

Source of the defaults of `up`: what a cluster of one broker needs (Kafka's own for three would leave its internal
topics without enough replicas), on the loopback, where nothing is protected.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kavka.config.broker import BrokerConfig
from kavka.config.properties import parse_assignments, parse_properties
from kavka.errors import (
    AddressProblem,
    AddressUnavailable,
    ConfigError,
    ConnectionFailed,
    DamagedFile,
    DamagedMetadata,
    InconsistentMetadata,
    KavkaError,
    LinkLeadsNowhere,
    LogDirectoryLocked,
    LogsContradict,
    LogsElsewhere,
    StorageError,
    ZooKeeperError,
)

if TYPE_CHECKING:
    from kavka.runtime.server import Started

DEFAULT_PORT = 9092
DEFAULT_HOST = "127.0.0.1"
DEFAULT_DATA = "kavka-data"
DEFAULT_LOG_LEVELS = {"up": "warning", "server": "info"}
"""Whoever tries kavka out has no use for every event; who operates brokers has."""
LOG_LEVELS = ("debug", "info", "warning", "error")
ALL_INTERFACES = ("0.0.0.0", "::", "")
SINGLE_BROKER = {
    "broker.id": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
BROKER_DIRECTORY = "broker-"
"""In the data directory of several brokers: each one's directory, with its id behind it."""
FAILED, WRONG_USAGE = 1, 2
USAGE_NEXT = "see `kavka up --help` and docs/configuration.md"
CONFIG_NEXT = "correct the setting; docs/configuration.md has all of them with their ranges"


@dataclass(frozen=True, slots=True)
class Start:
    """A broker to start: from a file, or (file None) with the defaults of `up`. `settings` are name=value texts.

    `metrics_port` shows the brokers' metrics from there on, one port each; None: they show none. `console_port`: where
    the console listens that `up` starts beside them, unless `no_console`. `schema_registry`: one of these, too.

    `brokers` of `up` is how many; 0 for as many as the data directory has, one in a new one. `processes`: each in a
    process of its own. `zookeeper_port`: the embedded ZooKeeper's port is open there (0 for a free one).

    `ready_line`: said once more when the broker serves. `stop_with_stdin`: the end of standard input stops it.

    `secure`: with TLS, passwords (`mtls`: certificates) and access control; `insecure`: open where others reach it.
    """

    file: str | None = None
    port: int = DEFAULT_PORT
    host: str = DEFAULT_HOST
    advertise: str | None = None
    data: str = DEFAULT_DATA
    settings: tuple[str, ...] = ()
    log_level: str = ""
    as_json: bool = False
    brokers: int = 0
    processes: bool = False
    zookeeper_port: int | None = None
    metrics_port: int | None = None
    console_port: int | None = None
    no_console: bool = False
    schema_registry: bool = False
    secure: bool = False
    mtls: bool = False
    insecure: bool = False
    stop_with_stdin: bool = False
    ready_line: str = ""

    def __post_init__(self) -> None:
        level = self.log_level or DEFAULT_LOG_LEVELS["up" if self.file is None else "server"]
        object.__setattr__(self, "log_level", level)
        object.__setattr__(self, "host", self.host.strip("[]"))  # An IPv6 address may come as it stands in listeners.


class WrongUsage(Exception):
    """A command line that no broker can be started from."""


class NotSettings(ConfigError):
    """A file that `kavka server` was given is another kind of text."""


OPTIONS_OF_UP = {
    "--port": "port",
    "-p": "port",
    "--host": "host",
    "--advertise": "advertise",
    "--data": "data",
    "-d": "data",
    "--brokers": "brokers",
    "-n": "brokers",
    "--processes": "processes",
    "--zookeeper-port": "zookeeper_port",
    "--metrics-port": "metrics_port",
    "--console-port": "console_port",
    "--no-console": "no_console",
    "--schema-registry": "schema_registry",
    "--secure": "secure",
    "--mtls": "mtls",
    "--insecure": "insecure",
    "--stop-with-stdin": "stop_with_stdin",
}
OPTIONS_OF_BOTH = {"--set": "settings", "-s": "settings", "--log-level": "log_level", "--json": "as_json"}
FLAGS = ("as_json", "processes", "no_console", "schema_registry", "secure", "mtls", "insecure", "stop_with_stdin")
MOST_BROKERS = 100
NUMBERS = {
    "port": range(65536),
    "brokers": range(1, MOST_BROKERS + 1),
    "zookeeper_port": range(65536),
    "metrics_port": range(1, 65536),
    "console_port": range(65536),
}
"""Options that are numbers, and which are allowed."""


def quick_start(words: Sequence[str]) -> Start | None:
    """What a plain `up` or `server` asks for; None for all else, which typer has to look at."""
    if not words or words[0] not in ("up", "server"):
        return None
    options = OPTIONS_OF_BOTH if words[0] == "server" else {**OPTIONS_OF_BOTH, **OPTIONS_OF_UP}
    values: dict[str, Any] = {}
    settings: list[str] = []
    files: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        field = options.get(name if word.startswith("--") else word)
        if field in FLAGS and not equals:
            values[field] = True
        elif field is None or field in FLAGS:
            if word.startswith("-"):
                return None
            files.append(word)
        else:
            text = value if equals else next(rest, None)
            if text is None:
                return None
            if field == "settings":
                settings.append(text)
            elif field not in NUMBERS:
                values[field] = text
            elif text.isdecimal() and int(text) in NUMBERS[field]:
                values[field] = int(text)
            else:
                return None
    if values.get("log_level", "info") not in LOG_LEVELS or len(files) != (words[0] == "server"):
        return None
    return Start(file=files[0] if files else None, settings=tuple(settings), **values)


def start(plan: Start) -> int:
    """Runs the broker, or brokers, until a signal ends it; returns the exit status."""
    if plan.file is None:
        from kavka.cli.run.start_secure import checked

        try:
            plan = checked(plan)
        except WrongUsage as problem:
            return fail(str(problem), USAGE_NEXT, status=WRONG_USAGE)
    if plan.stop_with_stdin:
        from kavka.cli.run.stdin_end import stop_with_stdin

        stop_with_stdin()
    if plan.file is None and (plan.brokers or plan.processes or plan.zookeeper_port is not None or has_cluster(plan)):
        from kavka.cli.run.start_cluster import start_cluster

        return start_cluster(plan)
    return start_one(plan)


def has_cluster(plan: Start) -> bool:
    """Whether the data directory of an `up` is that of several brokers."""
    elsewhere = any(text.startswith(("log.dirs=", "log.dir=")) for text in plan.settings)
    return not elsewhere and os.path.isdir(os.path.join(plan.data, f"{BROKER_DIRECTORY}2"))


def start_one(plan: Start) -> int:
    """Runs one broker, with a ZooKeeper of its own or as its file says."""
    from kavka.cli.run.start_secure import SecuredStart, client_addresses, require_closed, tell_of_open

    try:
        config = settings_of(plan)
        if plan.file is None:
            require_closed(plan, config)
    except WrongUsage as problem:
        return fail(str(problem), USAGE_NEXT, status=WRONG_USAGE)
    except NotSettings as problem:
        return fail(str(problem), "name a file such as Kafka's server.properties")
    except ConfigError as problem:
        return fail(str(problem), CONFIG_NEXT)
    except OSError as problem:
        return fail(f"cannot read {plan.file}: {problem.strerror}", "name a file that you may read")
    from kavka.runtime.log_output import configure
    from kavka.runtime.server import run

    configure(plan.log_level, as_json=plan.as_json)
    if plan.file is not None and config.broker_id >= 0:
        from kavka.logger import on_broker

        on_broker.set(config.broker_id)  # Its lines may stand among those of other brokers.
    warn_of_settings(config)
    warn_of_secrets(plan)
    if plan.file is None:
        tell_of_open(plan, [config])
    else:
        warn_of_open(config)
    secured, beside = SecuredStart(plan, 1), ExitStack()
    waiting = beside.enter_context(ExitStack())
    if plan.file is not None and config.zookeeper_connect and not plan.as_json:
        from kavka.cli.run.zookeeper_wait import said_while_waiting

        waiting.enter_context(said_while_waiting(config.zookeeper_connect))

    def on_started(started: Started) -> None:
        waiting.close()
        addresses = client_addresses(started.endpoints)
        secured.on_started(",".join(addresses.values()))
        say(lambda: _tell(plan, started, addresses, secured.lines()))
        from kavka.cli.run.console_beside import ConsoleBeside  # late: the broker serves by now

        console = ConsoleBeside(plan)
        beside.callback(console.stop)
        console.start(list(addresses.values()), None)

    try:
        secured.prepare()
        return run(config, on_started=on_started, prepare=secured.store_user if plan.secure else None)
    except KavkaError as problem:
        return fail(str(problem), next_step(problem, plan))
    except KeyboardInterrupt:
        return 128 + 2
    except OSError as problem:
        return fail(f"{problem.filename}: {problem.strerror}", "choose a directory that can be written, with --data")
    finally:
        secured.end()
        beside.close()


def settings_of(plan: Start) -> BrokerConfig:
    """The configuration that a plan stands for. Raises WrongUsage, ConfigError, OSError.

    Where no broker id is asked for, it is the one of the broker that wrote the log directories.
    """
    asked = written_settings(plan)
    defaults = {} if plan.file is not None else _defaults_of_up(plan)
    if plan.file is None and "node.id" in asked:
        del defaults["broker.id"]  # The two are one setting.
    config = BrokerConfig.from_properties({**defaults, **asked})
    if "broker.id" in asked or "node.id" in asked:
        return config
    recorded = _recorded_broker_id(config)
    return config if recorded is None else config.with_broker_id(recorded)


def written_settings(plan: Start) -> dict[str, str]:
    """What the file says, if there is one, and the command line. Raises WrongUsage, ConfigError, OSError."""
    try:
        settings = parse_assignments(plan.settings)
    except ConfigError as problem:
        raise WrongUsage(f"--set: {problem}") from problem
    if plan.file is None:
        return settings
    with open(plan.file, encoding="utf-8") as file:
        try:
            written = parse_properties(file.read())
        except UnicodeDecodeError as problem:
            raise ConfigError(f"{plan.file}: not a text: {problem}") from problem
    _require_settings(plan.file, written)
    return {**written, **settings}


def _require_settings(path: str, written: Mapping[str, str]) -> None:
    """Any text is lines of name=value to the parser. Raises NotSettings for one in which no name is a setting."""
    from kavka.config.broker import setting_named

    if written and all(setting_named(name) is None for name in written):
        first = next(iter(written))
        raise NotSettings(f"{path} is not a file of broker settings; its first line sets {first!r}")


def _recorded_broker_id(config: BrokerConfig) -> int | None:
    from kavka.broker.membership.adoption import recorded_broker_id
    from kavka.runtime.disk import LocalFileSystem

    return recorded_broker_id(LocalFileSystem(), config.log_directories)


def _defaults_of_up(plan: Start) -> dict[str, str]:
    return {
        **SINGLE_BROKER,
        "log.dirs": os.path.abspath(os.path.join(plan.data, "logs")),
        **listeners_of(plan, plan.port),
        **metrics_of(plan),
    }


def metrics_of(plan: Start, *, distance: int = 0) -> dict[str, str]:
    """The settings for showing metrics, `distance` above the port that was asked for."""
    return {} if plan.metrics_port is None else {"kavka.metrics.port": str(plan.metrics_port + distance)}


def listeners_of(plan: Start, port: int, *, distance: int = 0) -> dict[str, str]:
    """The settings for listening on `port`; an advertised port is `distance` above the one that was asked for.

    Raises WrongUsage.
    """
    everywhere = plan.host in ALL_INTERFACES
    if everywhere and plan.advertise is None:
        raise WrongUsage(f"--host {plan.host} listens on all interfaces: name the address for clients with --advertise")
    settings = {"listeners": f"PLAINTEXT://{address('' if everywhere else plan.host, port)}"}
    if plan.advertise is not None:
        name, colon, own_port = plan.advertise.rpartition(":")
        if colon and own_port.isdecimal() and not name.endswith(":"):
            settings["advertised.listeners"] = f"PLAINTEXT://{name}:{int(own_port) + distance}"
        else:
            settings["advertised.listeners"] = f"PLAINTEXT://{address(plan.advertise.strip('[]'), port)}"
    if plan.secure:
        from kavka.cli.run.start_secure import listeners_of as secured_listeners

        return secured_listeners(plan, settings, distance=distance)
    return settings


def warn_of_settings(config: BrokerConfig) -> None:
    """One line that names the settings without effect, and one for each that nobody knows."""
    if not config.without_effect and not config.unknown:
        return
    from kavka.config.similar import similar_name
    from kavka.logger import Logger

    logger = Logger(__name__)
    if config.without_effect:
        logger.warning(
            "settings without effect",
            names=", ".join(config.without_effect),
            next_step="leave them out, or see why in docs/configuration.md",
        )
    for name in config.unknown:
        close = similar_name(name, config.rows)
        meant = {"did_you_mean": close} if close else {}
        logger.warning("unknown setting", name=name, **meant, instead="it is kept and ignored, as Kafka does")


def warn_of_secrets(plan: Start) -> None:
    """A line that names the passwords on the command line: every user of this machine can read them there."""
    from kavka.config.broker import setting_named

    names = [text.partition("=")[0].strip() for text in plan.settings]
    shown = [name for name in names if (setting := setting_named(name)) is not None and setting.sensitive]
    if shown:
        from kavka.logger import Logger

        Logger(__name__).warning(
            "secrets on the command line, where every user of this machine can read them",
            settings=", ".join(shown),
            next_step="write them into a file of settings that only you may read, and start with `kavka server FILE`",
        )


def warn_of_open(config: BrokerConfig) -> None:
    """A line about listeners without TLS that others reach: a file says so, as one for Apache Kafka may."""
    if config.clear_text_endpoints:
        from kavka.logger import Logger

        Logger(__name__).warning(
            "listeners in clear where other machines reach them",
            listeners=", ".join(map(str, config.clear_text_endpoints)),
            next_step="use SSL or SASL_SSL (docs/security.md); kavka.refuse.insecure.listeners=true refuses them",
        )


def say(tell: Callable[[], None]) -> None:
    """Prints, where there is somebody to read it."""
    try:
        tell()
    except OSError:
        pass  # Nobody listens, or the disk behind the output is full: the broker serves all the same.


def _tell(plan: Start, started: Started, addresses: Mapping[str, str], more: Sequence[str]) -> None:
    if plan.as_json:
        import json

        facts = {
            "event": "ready",
            "broker_id": started.broker_id,
            "cluster_id": started.cluster_id,
            "listeners": addresses,
            "log_directories": list(started.log_directories),
            "seconds": round(started.seconds, 3),
        }
        print(json.dumps(facts), flush=True)
        return
    bold, plain = ("\x1b[1m", "\x1b[0m") if wants_colour() else ("", "")
    first = next(iter(addresses.values()))
    directories = ", ".join(map(short_path, started.log_directories))
    lines = [f"{bold}kavka is ready{plain} on {', '.join(addresses.values())}, data in {directories}"]
    if plan.file is None:
        at = "" if first.endswith(f":{DEFAULT_PORT}") and plan.host == DEFAULT_HOST else f" -b {first}"
        if plan.secure:
            at = login_option(plan)
        lines += [
            "",
            *more,
            f"  Produce     echo 'hello' | kavka produce{at} greetings",
            f"  Consume     kavka consume{at} greetings -o beginning",
            f"  Clients     bootstrap.servers={first}",
            "",
            "Ctrl-C stops it; the data stays.",
        ]
    if plan.ready_line:
        lines.append(plan.ready_line)
    print("\n".join(lines), flush=True)


def login_option(plan: Start) -> str:
    """What commands need to get into the secured cluster of a plan; nothing, where they find it themselves."""
    from kavka.cli.login import ADMIN_FILE

    file = os.path.join(plan.data, "security", "admin.properties")
    return "" if os.path.normpath(file) == ADMIN_FILE else f" --client-config {short_path(os.path.abspath(file))}"


def address(host: str, port: int) -> str:
    """host:port, as clients take it: an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def short_path(path: str) -> str:
    """The path as it is from the working directory, where it lies below that."""
    here = os.path.relpath(path)
    return path if here.startswith(os.pardir) else here


def wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def next_step(problem: KavkaError, plan: Start) -> str:
    """What to do about a start that failed."""
    own: object = getattr(problem, "next_step", None)
    if isinstance(own, str):
        return own
    if isinstance(problem, AddressUnavailable):
        return _next_address(problem, plan)
    if isinstance(problem, LogDirectoryLocked):
        return "stop that broker, or choose another directory with --data"
    if isinstance(problem, LinkLeadsNowhere):
        return "mount the disk that it leads to, or put the file back"
    if isinstance(problem, DamagedMetadata):
        return "restore the file, or take it away: the broker whose logs are in this directory writes it anew"
    if isinstance(problem, LogsContradict):
        return "move the one that nobody misses out of its log directory: that of a former topic, or with older records"
    if isinstance(problem, InconsistentMetadata):
        return "the directory belongs to another broker or cluster: choose another with --data or log.dirs"
    if isinstance(problem, LogsElsewhere):
        return (
            f"set log.dirs={problem.path}, or move its content to the new place; if these logs are lost for good, "
            f"start once with --set kavka.abandoned.log.dirs={problem.path}"
        )
    if isinstance(problem, DamagedFile):
        return (
            "restore the file; or move its directory away: the topics are then found again in the logs, without their "
            "settings (docs/operations.md)"
        )
    if isinstance(problem, StorageError):
        return "choose a directory that can be written, with --data or log.dirs, or make room on its disk"
    if isinstance(problem, ConnectionFailed | ZooKeeperError):
        return "see whether ZooKeeper runs there, and correct zookeeper.connect"
    return "look at the cause above, then start it again: the logs are recovered"


def _next_address(problem: AddressUnavailable, plan: Start) -> str:
    if plan.file is not None:
        setting = "kavka.metrics.port" if problem.what == "metrics" else "listeners"
        port = host = f"in the setting {setting}"
    else:
        port = {"metrics": "with --metrics-port", "ZooKeeper": "with --zookeeper-port"}.get(problem.what, "with --port")
        host = "with --host"
    match problem.problem:
        case AddressProblem.TAKEN:
            return f"stop that program, or choose another port {port}"
        case AddressProblem.FORBIDDEN:
            return f"choose a port of 1024 or more {port}"
        case AddressProblem.NOT_OURS | AddressProblem.UNRESOLVED:
            return f"choose an address of this machine {host}: 127.0.0.1 for local clients, 0.0.0.0 for all"
        case _:
            return f"choose another address {host}"


def fail(problem: str, next_step: str, *, status: int = FAILED) -> int:
    red, plain = ("\x1b[31m", "\x1b[0m") if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    print(f"{red}Error:{plain} {problem}\n  Next: {next_step}", file=sys.stderr)
    return status
