"""`kavka console`: from options, environment and settings file to a running console.

Decides which source of a setting wins (console.settings says the order) and what is said when it is ready or cannot
start. Must not know what the console shows.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.log_level import LogLevel
from kavka.cli.login import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP, read_file
from kavka.cli.options import ClientConfig, Json, ZooKeeper
from kavka.cli.output import Failure, note
from kavka.cli.run import console_audit, console_rights, console_users
from kavka.cli.run.console_beside import NICENESS
from kavka.installation import install_command

if TYPE_CHECKING:
    from kavka.console.settings import ConsoleSettings

app = CommandLine(
    name="console",
    invoke_without_command=True,
    no_args_is_help=False,
)
app.add_typer(console_users.app, name="user")
app.add_typer(console_audit.app, name="audit")
app.command("rights")(console_rights.rights)


NEEDED = ("starlette", "uvicorn", "jinja2", "multipart", "itsdangerous")
"""What the console cannot start without."""
CONNECT_S = 1.0
"""How long bootstrap addresses may take, all together, to accept a connection before the console starts anyway."""
MISSING = "the console needs packages that are not installed"


class Wishes(NamedTuple):
    """What the command line says of the console. None leaves it to the environment, the file or the default."""

    bootstraps: tuple[str, ...] = ()
    file: str | None = None
    host: str | None = None
    port: int | None = None
    data: str | None = None
    zookeeper: str | None = None
    login: bool = False
    client_config: str | None = None
    tls: str | None = None
    """A PEM file with the console's certificate and key."""
    playground: str | None = None
    """The directory of the cluster in a page."""
    first_user: str | None = None
    """A file with the password of the user admin, who may do everything."""


def is_installed() -> bool:
    """Whether the console's extra is there."""
    return all(find_spec(name) is not None for name in NEEDED)


Bootstraps = Annotated[
    list[str] | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="[NAME=]HOST:PORT,...",
        show_default="127.0.0.1:9092",
        help="A cluster; may be repeated.",
    ),
]


Playground = Annotated[
    str | None,
    typer.Option("--playground", metavar="DIRECTORY", help="Show what `make playground` built there, too."),
]


@app.callback()
def console(
    context: typer.Context,
    bootstrap: Bootstraps = None,
    settings: Annotated[
        str | None, typer.Option("--settings", metavar="FILE", help="Clusters and settings, as TOML.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, metavar="PORT", show_default="8090", help="Port; 0 for a free one."
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            show_default="127.0.0.1",
            help="Address to listen on; beyond loopback, users must log in.",
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            metavar="DIRECTORY",
            show_default="kavka-console",
            help="Where history, users and jobs are kept.",
        ),
    ] = None,
    zookeeper: ZooKeeper = None,
    client_config: ClientConfig = None,
    login: Annotated[bool, typer.Option("--login", help="Require a login on loopback, too.")] = False,
    playground: Playground = None,
    log_level: LogLevel = "info",
    as_json: Json = False,
    tls: Annotated[str | None, typer.Option("--tls", hidden=True)] = None,
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
    first_user: Annotated[str | None, typer.Option("--first-user", metavar="FILE", hidden=True)] = None,
) -> None:
    """Serve the console: web pages about clusters.

    The clusters may be kavka's or Apache Kafka's. Ctrl-C stops it.

    [bold]Examples[/bold]

    kavka console --bootstrap localhost:9092

    kavka console --settings console.toml --port 8090

    kavka console user add ada --role operator && kavka console --host 0.0.0.0
    """
    if context.invoked_subcommand is not None:
        return
    wishes = Wishes(
        tuple(bootstrap or ()), settings, host, port, data, zookeeper, login, client_config, tls, playground, first_user
    )
    serve_console(wishes, log_level=log_level, as_json=as_json, beside=beside)


def serve_console(wishes: Wishes, *, log_level: str, as_json: bool, beside: bool) -> None:
    """Serves until a signal ends it. `beside`: it ends with its standard input, and takes another port where its own is
    taken. Raises Failure."""
    if not is_installed():
        raise Failure(MISSING, install_command("console"))
    from kavka.console.server import bind, serve
    from kavka.errors import AddressProblem, AddressUnavailable, ConfigError
    from kavka.runtime.log_output import configure

    try:
        settings = _settings(wishes)
        configure(log_level, as_json=as_json)
        if beside:
            os.nice(NICENESS)
        if wishes.first_user is not None:
            _add_first_user(settings, wishes.first_user)
        silent = {} if beside else _silent_clusters(settings)
        bound = bind(settings.host, settings.port, elsewhere=beside)
        serve(settings, bound, on_ready=lambda address: _tell(settings, address, silent, as_json), while_input=beside)
    except AddressUnavailable as problem:
        taken = problem.problem is AddressProblem.TAKEN
        step = (
            "stop that program, or choose another port with --port" if taken else "choose another address with --host"
        )
        raise Failure(str(problem), step) from problem
    except ConfigError as problem:
        raise Failure(str(problem), "docs/console.md has all settings") from problem
    except (OSError, sqlite3.Error) as problem:
        where = settings.data_directory
        raise Failure(f"{where}: {problem}", "choose a directory that can be written, with --data") from problem


def _settings(wishes: Wishes) -> ConsoleSettings:
    """Raises ConfigError, Failure."""
    from kavka.console.settings import ConsoleSettings, parse_settings, with_bootstrap, with_environment
    from kavka.runtime.tls.server_tls import ServerTlsSettings

    settings, file, zookeeper = ConsoleSettings(), wishes.file, wishes.zookeeper
    if file is not None:
        try:
            with open(file, encoding="utf-8") as stream:
                settings = parse_settings(stream.read(), where=file)
        except (OSError, UnicodeDecodeError) as problem:
            raise Failure(f"cannot read {file}: {problem}", "name a file of settings that you may read") from problem
    settings = with_environment(settings, os.environ)
    named = list(wishes.bootstraps)
    if not named and os.environ.get(BOOTSTRAP_VARIABLE):
        named = [os.environ[BOOTSTRAP_VARIABLE]]
    if named or not settings.clusters:
        settings = with_bootstrap(settings, named or [DEFAULT_BOOTSTRAP])
    if zookeeper:
        settings = replace(settings, clusters=tuple(replace(each, zookeeper=zookeeper) for each in settings.clusters))
    if wishes.client_config is not None and file is None:  # A file of settings says itself how each is reached.
        settings = _with_login(settings, wishes.client_config, is_named=bool(named))
    chosen = {
        "host": wishes.host,
        "port": wishes.port,
        "data_directory": wishes.data,
        "playground": wishes.playground,
        "login": True if wishes.login else None,
        "tls": None if wishes.tls is None else ServerTlsSettings(certificate=wishes.tls),
    }
    return replace(settings, **{name: value for name, value in chosen.items() if value is not None})  # type: ignore[arg-type]  # each is of its field's type


def _with_login(settings: ConsoleSettings, path: str, *, is_named: bool) -> ConsoleSettings:
    """The settings with the login of a client's file for its clusters; without other addresses, with those of the file.

    Raises ConfigError, Failure.
    """
    try:
        login = read_file(path)
    except OSError as problem:
        raise Failure(
            f"cannot read {path}: {problem.strerror}", "name a file of settings that you may read"
        ) from problem
    if login.bootstrap and not is_named and [each.bootstrap for each in settings.clusters] == [DEFAULT_BOOTSTRAP]:
        settings = replace(settings, clusters=(replace(settings.clusters[0], bootstrap=login.bootstrap),))
    return replace(
        settings,
        clusters=tuple(replace(each, sasl=login.sasl, tls=login.tls) for each in settings.clusters),
    )


def _add_first_user(settings: ConsoleSettings, path: str) -> None:
    """Sees to it that admin may log in with the password of a file. Raises OSError, Failure."""
    import asyncio
    from pathlib import Path

    from kavka.console.access.auth import Users
    from kavka.console.ledger import LEDGER, open_ledger
    from kavka.console.rights import Role

    with open(path, encoding="utf-8") as file:
        password = file.readline().strip()
    users = Users(open_ledger(Path(settings.data_directory) / LEDGER))
    if asyncio.run(users.check("admin", password)) is None:
        users.add("admin", password, Role.ADMIN)


def _silent_clusters(settings: ConsoleSettings) -> dict[str, str]:
    """Why no bootstrap address of a cluster can be connected to, by the cluster's name; those that can are left out."""
    from kavka.client.cluster import parse_bootstrap

    silent = {}
    until = time.monotonic() + CONNECT_S
    for cluster in settings.clusters:
        reasons = []
        for host, port in parse_bootstrap(cluster.bootstrap):
            try:
                socket.create_connection((host, port), max(until - time.monotonic(), 0.1)).close()
                break
            except OSError as problem:
                reasons.append(f"{host}:{port}: {problem.strerror or 'no answer'}")
        else:
            silent[cluster.name] = "; ".join(reasons)
    return silent


def _tell(settings: ConsoleSettings, address: str, silent: Mapping[str, str], as_json: bool) -> None:
    if as_json:
        names = [each.name for each in settings.clusters]
        facts = {"event": "console", "address": address, "clusters": names, "silent": dict(silent)}
        print(json.dumps(facts), flush=True)
        return
    print(f"The console is ready: {address}", flush=True)
    for name, why in silent.items():
        note(f"Cluster {name} does not answer ({why}). The console shows it as soon as it does.")
