"""`kavka zookeeper`: from options to a running ZooKeeper server.

Decides what is said when the server serves, and what to do next when it cannot start.
"""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.log_level import LogLevel
from kavka.cli.options import Json
from kavka.cli.output import Failure
from kavka.cli.run.start import DEFAULT_HOST, DEFAULT_LOG_LEVELS
from kavka.errors import AddressProblem, AddressUnavailable, ConfigError, KavkaError, LogDirectoryLocked, StorageError

if TYPE_CHECKING:
    from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperProcess
    from kavka.security.secret import Secret

app = CommandLine()
DEFAULT_PORT = 2181


Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        "-p",
        min=0,
        max=65535,
        metavar="PORT",
        help="Port without TLS; 0 for a free one.",
        show_default="2181, none with --secure-port",
    ),
]
SecurePort = Annotated[
    int | None,
    typer.Option(
        "--secure-port",
        min=0,
        max=65535,
        metavar="PORT",
        help="Port with TLS, where clients must show certificates.",
        show_default=False,
    ),
]
Certificate = Annotated[
    str,
    typer.Option("--certificate", metavar="FILE", help="Its key and certificate chain, as PEM.", show_default=False),
]
Authority = Annotated[
    str,
    typer.Option(
        "--authority", metavar="FILE", help="Authority that signs clients' certificates, as PEM.", show_default=False
    ),
]
Users = Annotated[
    str,
    typer.Option(
        "--users",
        metavar="FILE",
        help="Users for DIGEST-MD5, as in the section Server of ZooKeeper's JAAS file.",
        show_default=False,
    ),
]
TickTime = Annotated[
    int, typer.Option("--tick-time", min=1, metavar="MS", help="ZooKeeper's unit of time; sessions last 2 to 20 of it.")
]
Words = Annotated[
    str,
    typer.Option("--four-letter-words", metavar="WORD,...|*", help="The commands to answer, such as srvr and mntr."),
]
MaxConnections = Annotated[
    int, typer.Option("--max-connections", min=0, metavar="N", help="Connections from one host; 0 for no limit.")
]


@app.command("zookeeper")
def zookeeper(
    port: Port = None,
    secure_port: SecurePort = None,
    certificate: Certificate = "",
    authority: Authority = "",
    users: Users = "",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Open a port without TLS beyond this machine, to whoever reaches it.")
    ] = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = DEFAULT_HOST,
    data: Annotated[
        str, typer.Option("--data", "-d", metavar="DIRECTORY", help="Where its data is kept.")
    ] = "kavka-zookeeper",
    tick_ms: TickTime = 2000,
    words: Words = "srvr",
    max_connections: MaxConnections = 60,
    log_level: LogLevel = DEFAULT_LOG_LEVELS["server"],
    as_json: Json = False,
) -> None:
    """Start a ZooKeeper server.

    It serves Kafka's brokers and any other client of ZooKeeper. Ctrl-C stops it.

    [bold]Example[/bold]

    kavka zookeeper --port 2181 --data /data/zookeeper --four-letter-words ruok,srvr,mntr

    kavka zookeeper --host 0.0.0.0 --secure-port 2182 --certificate server.pem --authority authority.pem
    """
    from kavka.runtime.log_output import configure
    from kavka.runtime.zookeeper.zookeeper_server import ZooKeeperProcess, ZooKeeperServerSettings
    from kavka.zookeeper.decide.four_letter_words import whitelist

    if port is None and secure_port is None:
        port = DEFAULT_PORT
    known = _read_users(users) if users else {}
    _require_secure(host, port, insecure=insecure or bool(known))
    _require_files(secure_port, certificate, authority)
    configure(log_level, as_json=as_json)
    settings = ZooKeeperServerSettings(
        tick_ms=tick_ms, whitelist=whitelist(words), max_connections_per_host=max_connections, users=known
    )
    plan = ZooKeeperProcess(data, host, port, settings, secure_port, certificate, authority)
    raise typer.Exit(_run(plan, as_json=as_json))


def _run(plan: ZooKeeperProcess, *, as_json: bool) -> int:
    from kavka.runtime.zookeeper.zookeeper_server import run

    def tell(port: int | None, secure_port: int | None) -> None:
        plain = None if port is None else f"{plan.host}:{port}"
        secure = None if secure_port is None else f"{plan.host}:{secure_port}"
        if as_json:
            found = {"event": "ready", "address": plain, "secure_address": secure, "data": plan.directory}
            print(json.dumps({name: value for name, value in found.items() if value is not None}), flush=True)
        else:
            places = [*([plain] if plain else []), *([f"{secure} with TLS"] if secure else [])]
            print(f"ZooKeeper is ready on {' and '.join(places)}, data in {plan.directory}", flush=True)

    try:
        return run(plan, on_started=tell)
    except KavkaError as problem:
        raise Failure(str(problem), _next_step(problem)) from problem


def _require_secure(host: str, port: int | None, *, insecure: bool) -> None:
    """Raises Failure for a port that anybody could reach, who could then change everything."""
    if port is None or insecure or _is_loopback(host):
        return
    raise Failure(
        f"ZooKeeper's port on {host} would be open without TLS: whoever reaches it could read and change everything",
        "use --secure-port with --certificate and --authority, or --users, or add --insecure",
    )


def _require_files(secure_port: int | None, certificate: str, authority: str) -> None:
    """Raises Failure where TLS is half set up."""
    if secure_port is not None and not (certificate and authority):
        raise Failure(
            "a port with TLS needs a certificate, and an authority for those of clients",
            "add --certificate and --authority, each with a PEM file",
        )
    if secure_port is None and (certificate or authority):
        raise Failure("certificates are for a port with TLS, and there is none", "add --secure-port")


def _read_users(path: str) -> dict[str, Secret]:
    """Names and passwords. Raises Failure."""
    from kavka.config.zookeeper import require_md5
    from kavka.security.jaas import ZOOKEEPER_MODULES, MalformedJaas, parse

    try:
        with open(path, encoding="utf-8") as file:
            login = parse(file.read(), ZOOKEEPER_MODULES)
        require_md5()
        users = dict(login.users)
        if not users or login.username or login.password:
            raise MalformedJaas("it must have users (user_NAME), and no username or password of its own")
        if not all(password and (name + password.reveal()).isascii() for name, password in users.items()):
            raise MalformedJaas("DIGEST-MD5 takes names and passwords in ASCII, and no empty ones")
        return users
    except (OSError, UnicodeDecodeError, MalformedJaas) as error:
        module = next(iter(ZOOKEEPER_MODULES))
        raise Failure(
            f"the users in {path} cannot be read: {error}", f'write into it: {module} required user_NAME="password";'
        ) from error


def _is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than localhost may stand for any address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _next_step(problem: KavkaError) -> str:
    if isinstance(problem, ConfigError) and not isinstance(problem, AddressUnavailable):
        return "correct the files of --certificate and --authority"
    if isinstance(problem, LogDirectoryLocked):
        return "another server runs there: stop it, or choose another directory with --data"
    if isinstance(problem, StorageError):
        return "choose a directory that can be written, with --data, or make room on its disk"
    if isinstance(problem, AddressUnavailable) and problem.problem is AddressProblem.TAKEN:
        return "stop that program, or choose another port with --port"
    return "choose another address with --host or --port"
