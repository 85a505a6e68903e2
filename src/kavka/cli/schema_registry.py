"""`kavka schema-registry`: from options to a running registry.

Decides what is said when it serves, and what to do next when it cannot start. Must not know what a registry does.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.log_level import LogLevel
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Failure, explain
from kavka.cli.session import found_way
from kavka.installation import install_command

app = CommandLine()

NEEDED = ("starlette", "uvicorn", "fastavro")
"""What it cannot start without."""


def is_installed() -> bool:
    """Whether the registry's extra is there."""
    return all(find_spec(name) is not None for name in NEEDED)


@app.command("schema-registry")
def schema_registry(
    bootstrap: Bootstrap = None,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, metavar="PORT", help="Port; 0 for a free one.")
    ] = 8081,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    topic: Annotated[
        str, typer.Option("--topic", metavar="NAME", help="The topic that holds the schemas; made if there is none.")
    ] = "_schemas",
    log_level: LogLevel = "info",
    as_json: Json = False,
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Serve a schema registry beside any Kafka.

    It has Confluent's REST interface and keeps schemas in Confluent's topic, on kavka or Apache Kafka. Ctrl-C stops it.

    [bold]Examples[/bold]

    kavka schema-registry -b localhost:9092

    curl localhost:8081/subjects
    """
    if not is_installed():
        raise Failure("the schema registry needs packages that are not installed", install_command("schema-registry"))
    from kavka.errors import AddressProblem, AddressUnavailable, ConfigError, KavkaError
    from kavka.runtime.log_output import configure
    from kavka.schema_registry.access import is_loopback
    from kavka.schema_registry.server import RegistrySettings, bind, serve

    way = found_way(bootstrap)
    configure(log_level, as_json=as_json)
    try:
        if not is_loopback(f"[{host}]" if ":" in host else host):
            raise ConfigError(
                f"--host {host}: beyond the loopback everybody could change schemas, and there are no users"
            )
        settings = RegistrySettings(bootstrap=way.addresses, sasl=way.login.sasl, tls=way.login.tls, topic=topic)
        bound = bind(host, port, elsewhere=beside)
        shown = f"http://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
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


def _tell(address: str, topic: str, brokers: str, subjects: int, *, as_json: bool) -> None:
    if as_json:
        facts = {"event": "schema registry", "address": address, "topic": topic, "brokers": brokers}
        print(json.dumps({**facts, "subjects": subjects}), flush=True)
        return
    noun = "subject" if subjects == 1 else "subjects"
    print(f"The schema registry is ready: {address} ({subjects} {noun} in {topic} on {brokers})", flush=True)
