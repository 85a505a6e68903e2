"""`kavka container`: a broker from the environment of a container, as the image `apache/kafka` has it.

Decides which files are read, in which order programs start and end, and what is said. What the variables mean is
config/container.py's.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json
from kavka.cli.output import Failure, note
from kavka.cli.run.start import Start, start

if TYPE_CHECKING:
    from kavka.config.container import ContainerPlan

app = CommandLine()

FILE = "server.properties"
META_PROPERTIES = "meta.properties"
ZOOKEEPER_DIRECTORY = ".zookeeper"
"""In the first log directory, which is a volume: where a container keeps the ZooKeeper that it serves, or has alone."""
ZOOKEEPER_SETTING = "kavka.zookeeper.data.dir"
ZOOKEEPER_BESIDE = "kavka-zookeeper"
"""Beside that directory: where `kavka server` keeps it, and where a container did that was not on a volume."""
ZOOKEEPER_PATIENCE_S = 60
RUNNING = "Transitioning from RECOVERY to RUNNING"
"""What Apache Kafka logs when it serves, and what Testcontainers' module for its image waits for."""

Assignments = Annotated[
    list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Variables that override the environment's.")
]
Secrets = Annotated[
    str, typer.Option("--secrets", metavar="DIRECTORY", help="Where KAFKA_SSL_..._FILENAME and _CREDENTIALS are.")
]
Mounted = Annotated[
    str, typer.Option("--mounted", metavar="DIRECTORY", help=f"A {FILE} in it is read before the variables.")
]


@app.command("container")
def container(
    assignments: Assignments = None,
    secrets: Secrets = "/etc/kafka/secrets",
    mounted: Mounted = "/mnt/shared/config",
    as_json: Json = False,
) -> None:
    """Start a broker from a container's environment.

    The variables are those of the image apache/kafka: KAFKA_LOG_DIRS stands for log.dirs. Without KAFKA_LISTENERS
    the broker listens on all addresses, without a login. SIGTERM stops it in order.

    [bold]Example[/bold]

    kavka container KAFKA_LISTENERS=PLAINTEXT://127.0.0.1:9092 KAFKA_LOG_DIRS=/tmp/kafka
    """
    from kavka.config.container import container_plan
    from kavka.config.properties import parse_assignments
    from kavka.errors import ConfigError

    try:
        environment = {**os.environ, **parse_assignments(assignments or ())}
        plan = container_plan(environment, _mounted(mounted), lambda name: _secret(secrets, name))
        for each in plan.notes:
            note(each)
        raise typer.Exit(_run(plan, as_json=as_json))
    except ConfigError as problem:
        raise Failure(str(problem), "docs/containers.md says which variables there are") from problem


def _mounted(directory: str) -> dict[str, str]:
    """The settings of the mounted file; none where there is no such file. Raises Failure."""
    from kavka.config.properties import parse_properties

    path = os.path.join(directory, FILE)
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(f"{path} cannot be read: {problem}", "mount a file of settings that this user may read") from None


def _secret(directory: str, name: str) -> tuple[str, str]:
    """The path of a file of secrets, and what stands in it (of a key store, nothing that is used). Raises Failure."""
    path = os.path.join(directory, name)
    try:
        return path, Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as problem:
        raise Failure(
            f"{path} cannot be read: {problem.strerror}", f"mount the file into {directory}, or name another directory"
        ) from None


def _run(plan: ContainerPlan, *, as_json: bool) -> int:
    """Runs what the plan asks for until a signal ends it; returns the exit status."""
    zookeeper = None if plan.zookeeper_port is None else _serve_zookeeper(plan.zookeeper_port, plan.log_directory)
    if plan.broker is None:
        return 0 if zookeeper is None else _wait_for(zookeeper)
    try:
        _place_zookeeper(plan.broker, plan.log_directory)
        _name_cluster(plan.broker, plan.cluster_id, plan.log_directory)
        descriptor = os.memfd_create(FILE)  # Passwords stand in it: nobody else can open it, and no disk has it.
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("".join(f"{_escaped(name)}={_escaped(text)}\n" for name, text in plan.broker.items()))
            file.flush()
            path = f"/proc/self/fd/{descriptor}"
            return start(Start(file=path, log_level=plan.log_level, as_json=as_json, ready_line=RUNNING))
    finally:
        if zookeeper is not None:
            zookeeper.terminate()
            zookeeper.wait()


def _escaped(text: str) -> str:
    """As a file of properties has it."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(f"\\{each}" if each in "=: #!" else each for each in escaped)


def _serve_zookeeper(port: int, directory: str) -> subprocess.Popen[bytes]:
    """Starts ZooKeeper beside the broker, and waits until it takes connections. Raises Failure."""
    data = os.path.join(directory, ZOOKEEPER_DIRECTORY)
    words = ["--host", "0.0.0.0", "--port", str(port), "--insecure", "--data", data, "--log-level", "warning"]
    with suppress(OSError):
        os.makedirs(data, exist_ok=True)  # What keeps it from being made, ZooKeeper says.
    process = subprocess.Popen([sys.executable, "-m", "kavka.cli.main", "zookeeper", *words])
    deadline = time.monotonic() + ZOOKEEPER_PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    process.wait()
    raise Failure(f"ZooKeeper did not start on port {port}", "the lines above say why")


def _wait_for(process: subprocess.Popen[bytes]) -> int:
    """Until it ends, or a signal ends it in order."""

    def end(_number: int, _frame: object) -> None:
        process.terminate()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    return process.wait()


def _place_zookeeper(settings: dict[str, str], log_directory: str) -> None:
    """What a broker alone has in ZooKeeper stands with its logs: beside them it would go with the container, which
    may not even write there."""
    beside = os.path.join(os.path.dirname(os.path.abspath(log_directory)), ZOOKEEPER_BESIDE)
    if "zookeeper.connect" not in settings and not os.path.isdir(beside):
        settings.setdefault(ZOOKEEPER_SETTING, os.path.join(log_directory, ZOOKEEPER_DIRECTORY))


def _name_cluster(settings: dict[str, str], cluster_id: str, log_directory: str) -> None:
    """A broker alone, in a new directory, has the id that CLUSTER_ID asks for. Raises Failure."""
    path = os.path.join(log_directory, META_PROPERTIES)
    if not cluster_id or "zookeeper.connect" in settings or os.path.exists(path):
        return
    broker_id = settings.get("node.id") or settings.get("broker.id") or "1"
    settings.setdefault("node.id", broker_id)
    try:
        os.makedirs(log_directory, exist_ok=True)
        for each in settings["log.dirs"].split(","):
            if os.path.isdir(each.strip()) and os.listdir(each.strip()):
                return  # Somebody's logs: the broker says what they are.
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"version=0\nbroker.id={broker_id}\ncluster.id={cluster_id}\n")
    except OSError as problem:
        raise Failure(
            f"{path} cannot be written: {problem.strerror}", "mount a volume there that this user may write to"
        ) from None
