"""What the environment of a container asks for, in the variables of the image `apache/kafka`.

Decides which settings `KAFKA_...` variables stand for, which of them a cluster without KRaft leaves out, and where such
a cluster has its ZooKeeper. Reads no file itself. `kavka container` (cli/run/container.py) does what comes of it.

    name        KAFKA_LOG_DIRS is log.dirs; `_` is a dot, `__` a `_`, `___` a `-`
    roles       controller.quorum.voters of one node that is broker and controller: a broker alone. Of several nodes,
                the voter with the lowest id serves ZooKeeper at its controller's address, and all brokers use it.
    listeners   those that controller.listener.names has are a KRaft controller's: they are left out

Source: the image's scripts (docker/resources/common-scripts/configure) and kafka.docker.KafkaDockerWrapper of 3.9, 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kavka.errors import ConfigError

PREFIX = "KAFKA_"
NOT_SETTINGS = {
    "KAFKA_VERSION",
    "KAFKA_HEAP_OPTS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_OPTS",
    "KAFKA_JMX_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_PORT",
}
"""Variables for the JVM and its loggers."""
SECRETS = ("keystore", "truststore")
DEFAULT_LOG_DIRS = "/var/lib/kafka/data"
ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
DEFAULTS = {
    **ALONE,
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "num.partitions": "1",
    "log.dirs": DEFAULT_LOG_DIRS,
}
"""Where neither a variable nor a file says anything: what the image has then, without KRaft."""
_LEVELS = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "error",
}


class Voter(NamedTuple):
    """A node of a KRaft quorum, as controller.quorum.voters names it."""

    node_id: int
    host: str
    port: int


class ContainerPlan(NamedTuple):
    """What a container is to run."""

    broker: dict[str, str] | None
    """The settings of the broker that runs here; None: none does."""
    log_directory: str
    """The first one, also of a container without a broker."""
    cluster_id: str
    """For a new cluster; empty: one is drawn."""
    log_level: str
    zookeeper_port: int | None
    """Where this container serves ZooKeeper for all; None: it does not."""
    notes: tuple[str, ...]
    """What has no effect, and why, a sentence each."""


def container_plan(
    environment: Mapping[str, str], mounted: Mapping[str, str], read_secret: Callable[[str], tuple[str, str]]
) -> ContainerPlan:
    """`mounted`: the settings of the mounted file. `read_secret` gives the path and the content of a file in the
    directory of secrets. Raises ConfigError."""
    named = {
        setting_name(name): text
        for name, text in environment.items()
        if name.startswith(PREFIX) and name not in NOT_SETTINGS
    }
    settings = {**mounted, **named} or dict(DEFAULTS)
    notes = [f"{name} has no effect: kavka runs without a JVM" for name in _of_a_jvm(environment)]
    _fill_in_listeners(settings)
    _fill_in_tls(settings, read_secret)
    _require_no_jaas_file(settings, environment)
    cluster_id, level = environment.get("CLUSTER_ID", ""), _log_level(environment)
    roles = {each.strip() for each in settings.pop("process.roles", "broker").split(",")}
    if roles - {"broker", "controller"}:
        raise ConfigError(f"KAFKA_PROCESS_ROLES={','.join(sorted(roles))}: the roles are broker and controller")
    voters = _voters(settings)
    first = voters[0] if voters else None
    serves = first is not None and "controller" in roles and first.node_id == _node_id(settings)
    _leave_out_controllers(settings)
    settings["log.dirs"] = settings.get("log.dirs") or settings.pop("log.dir", "") or DEFAULT_LOG_DIRS
    directory = settings["log.dirs"].split(",")[0].strip()
    port = first.port if first is not None and serves else None
    if "broker" not in roles:
        if port is None:
            notes.append("nothing to do here: the controller with the lowest id serves ZooKeeper for the cluster")
        return ContainerPlan(None, directory, cluster_id, level, port, tuple(notes))
    if first is None or "zookeeper.connect" in settings or (serves and len(voters) == 1):
        return ContainerPlan(settings, directory, cluster_id, level, None, tuple(notes))
    settings["zookeeper.connect"] = f"{'127.0.0.1' if serves else first.host}:{first.port}"
    notes.append(
        f"kavka elects its controller through ZooKeeper, not KRaft: node {first.node_id} serves it at {first.host}:"
        f"{first.port}, and while that node is away no controller is elected"
    )
    return ContainerPlan(settings, directory, cluster_id, level, port, tuple(notes))


def setting_name(variable: str) -> str:
    """The setting that a variable stands for: KAFKA_LOG_DIRS is log.dirs."""
    name = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def _of_a_jvm(environment: Mapping[str, str]) -> list[str]:
    return sorted(
        name
        for name, text in environment.items()
        if text and name in NOT_SETTINGS and name not in ("KAFKA_VERSION", "KAFKA_LOG4J_ROOT_LOGLEVEL")
    )


def _log_level(environment: Mapping[str, str]) -> str:
    asked = environment.get("KAFKA_LOG4J_ROOT_LOGLEVEL") or "INFO"
    level = _LEVELS.get(asked.upper())
    if level is None:
        raise ConfigError(f"KAFKA_LOG4J_ROOT_LOGLEVEL={asked}: the levels are {', '.join(_LEVELS)}")
    return level


def _fill_in_listeners(settings: dict[str, str]) -> None:
    """Who says only what is advertised listens there on every address."""
    advertised = settings.get("advertised.listeners", "")
    if not settings.get("listeners") and advertised:
        settings["listeners"] = re.sub(r"://(\[[^]]*]|[^:]*):", "://0.0.0.0:", advertised)


def _fill_in_tls(settings: dict[str, str], read_secret: Callable[[str], tuple[str, str]]) -> None:
    """Files of keys and passwords are named by file names in the directory of secrets."""
    for store in SECRETS:
        name = settings.pop(f"ssl.{store}.filename", "")
        if name:
            settings[f"ssl.{store}.location"] = read_secret(name)[0]
        password = settings.pop(f"ssl.{store}.credentials", "")
        if password:
            settings[f"ssl.{store}.password"] = read_secret(password)[1].rstrip("\n")
    password = settings.pop("ssl.key.credentials", "")
    if password:
        settings["ssl.key.password"] = read_secret(password)[1].rstrip("\n")


def _require_no_jaas_file(settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
    if "java.security.auth.login.config" in environment.get("KAFKA_OPTS", ""):
        raise ConfigError(
            "KAFKA_OPTS names a JAAS file, which only a JVM reads: write each listener's login into "
            "KAFKA_LISTENER_NAME_<LISTENER>_<MECHANISM>_SASL_JAAS_CONFIG"
        )


def _voters(settings: Mapping[str, str]) -> list[Voter]:
    """The nodes of the quorum, the lowest id first. Raises ConfigError."""
    text = settings.get("controller.quorum.voters", "").strip()
    if not text:
        servers = settings.get("controller.quorum.bootstrap.servers", "").split(",")
        if len([each for each in servers if each.strip()]) > 1:
            raise ConfigError(
                "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS does not say which node is which: name them in "
                "KAFKA_CONTROLLER_QUORUM_VOTERS, as 1@host:port,..."
            )
        return []
    voters = []
    for each in text.split(","):
        found = re.fullmatch(r"\s*(\d+)@(.+):(\d+)\s*", each)
        if found is None:
            raise ConfigError(f"KAFKA_CONTROLLER_QUORUM_VOTERS={text}: {each!r} is not as in 1@host:port")
        voters.append(Voter(int(found[1]), found[2], int(found[3])))
    return sorted(voters)


def _node_id(settings: Mapping[str, str]) -> int:
    text = settings.get("node.id") or settings.get("broker.id") or "-1"
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"KAFKA_NODE_ID={text}: not a number") from None


def _leave_out_controllers(settings: dict[str, str]) -> None:
    """There is no KRaft controller that listens: what is said of its listeners goes."""
    names = {each.strip().upper() for each in settings.pop("controller.listener.names", "").split(",") if each.strip()}
    for setting in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
        entries = settings.get(setting, "").split(",")
        kept = [each.strip() for each in entries if each.strip().partition(":")[0].upper() not in names]
        if names and setting in settings:
            settings[setting] = ",".join(kept)
            if not kept:
                del settings[setting]
    for name in [name for name in settings if name.startswith(("controller.quorum.", "metadata.log."))]:
        del settings[name]
