"""`kavka schema-registry`: from options to a running registry.

Decides what is said when it serves, and what to do next when it cannot start. Must not know what a registry does.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.log_level import LogLevel
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Failure, explain, unreadable
from kavka.cli.session import found_way
from kavka.installation import install_command

if TYPE_CHECKING:
    from kavka.cli.login import Way
    from kavka.schema_registry.access import Access
    from kavka.schema_registry.server import RegistrySettings

app = CommandLine()

NEEDED = ("starlette", "uvicorn", "fastavro", "jsonschema", "google.protobuf", "grpc_tools")
"""What it cannot start without."""


def is_installed() -> bool:
    """Whether the registry's extra is there."""
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # Where not even google is there, google.protobuf is not looked for.
        return False


@app.command("schema-registry")
def schema_registry(
    bootstrap: Bootstrap = None,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, metavar="PORT", help="Port; 0 for a free one.")
    ] = 8081,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    topic: Annotated[
        str, typer.Option("--topic", metavar="NAME", help="The topic that holds the schemas; created if missing.")
    ] = "_schemas",
    users: Annotated[
        str | None,
        typer.Option("--users", metavar="FILE", help="Users who must log in, as TOML (docs/schema-registry.md)."),
    ] = None,
    tls: Annotated[
        str | None, typer.Option("--tls", metavar="FILE", help="Serve https with this certificate chain and key (PEM).")
    ] = None,
    log_level: LogLevel = "info",
    as_json: Json = False,
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
    admin_password: Annotated[str | None, typer.Option("--admin-password", metavar="FILE", hidden=True)] = None,
) -> None:
    """Serve a schema registry beside any Kafka.

    It has Confluent's REST interface and keeps schemas in Confluent's topic, on kavka or Apache Kafka. Ctrl-C stops it.

    [bold]Examples[/bold]

    kavka schema-registry -b localhost:9092

    curl localhost:8081/subjects
    """
    place = Place(port, host, users, tls, admin_password)
    serve_registry(place, found_way(bootstrap), topic, log_level=log_level, as_json=as_json, beside=beside)


class Place(NamedTuple):
    """Where a registry listens, and who may ask it. users, admin_password: files."""

    port: int
    host: str
    users: str | None
    tls: str | None
    admin_password: str | None


def serve_registry(place: Place, way: Way, topic: str, *, log_level: str, as_json: bool, beside: bool) -> None:
    """Serves until a signal ends it. `beside`: it ends with its standard input, and takes another port where its own is
    taken. Raises Failure."""
    if not is_installed():
        raise Failure("the schema registry needs packages that are not installed", install_command("schema-registry"))
    from kavka.errors import AddressProblem, AddressUnavailable, ConfigError, KavkaError
    from kavka.runtime.log_output import configure
    from kavka.schema_registry.server import bind, serve

    configure(log_level, as_json=as_json)
    try:
        settings = _settings(place, way, topic)
        bound = bind(place.host, place.port, elsewhere=beside)
        scheme = "http" if place.tls is None else "https"
        shown = f"{scheme}://{_in_url(place.host)}:{bound.getsockname()[1]}"
        serve(
            settings,
            bound,
            on_ready=lambda subjects: _tell(shown, topic, way.addresses, subjects, as_json=as_json),
            while_input=beside,
        )
    except AddressUnavailable as problem:
        taken = problem.problem is AddressProblem.TAKEN
        step = (
            "stop that program, or choose another port with --port" if taken else "choose another address with --host"
        )
        raise Failure(str(problem), step) from problem
    except ConfigError as problem:
        raise Failure(str(problem), "docs/schema-registry.md explains the settings") from problem
    except KavkaError as problem:
        raise explain(problem, way.addresses) from problem


def _settings(place: Place, way: Way, topic: str) -> RegistrySettings:
    """Raises ConfigError, Failure."""
    from kavka.errors import ConfigError
    from kavka.runtime.tls.server_tls import ServerTlsSettings
    from kavka.schema_registry.access import LocalOnly, is_loopback
    from kavka.schema_registry.server import RegistrySettings

    access = _access(place.users, place.admin_password)
    if isinstance(access, LocalOnly) and not is_loopback(_in_url(place.host)):
        raise ConfigError(f"--host {place.host}: beyond the loopback users must log in, and --users names no file")
    return RegistrySettings(
        bootstrap=way.addresses,
        sasl=way.login.sasl,
        tls=way.login.tls,
        topic=topic,
        certificate=None if place.tls is None else ServerTlsSettings(certificate=place.tls),
        access=access,
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _access(users: str | None, admin_password: str | None) -> Access:
    """Who may ask. Raises ConfigError, Failure."""
    from kavka.schema_registry.access import LocalOnly, Logins, RegistryUser, Role, parse_users
    from kavka.security.passwords import salted_hash

    file = users or admin_password
    if file is None:
        return LocalOnly()
    try:
        with open(file, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(unreadable(file, problem), "name a file that you may read") from problem
    if users is not None:
        return Logins(parse_users(text, where=users))
    return Logins([RegistryUser("admin", Role.ADMIN, salted_hash(text.strip()))])


def _tell(address: str, topic: str, brokers: str, subjects: int, *, as_json: bool) -> None:
    if as_json:
        facts = {"event": "schema registry", "address": address, "topic": topic, "brokers": brokers}
        print(json.dumps({**facts, "subjects": subjects}), flush=True)
        return
    noun = "subject" if subjects == 1 else "subjects"
    print(f"The schema registry is ready: {address} ({subjects} {noun} in {topic} on {brokers})", flush=True)
