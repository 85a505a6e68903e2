"""Release: one release of Apache Kafka on this machine: its jars, and how Java is called with them.

The jars come from Maven on first use (pom.xml beside this file) and lie in $PEERS_HOME, ~/.cache/kavka-peers if that
is not set; nothing else outside the checkout is read or written. Every reason why a release cannot run here is a
PeerMissing whose message is one sentence, so that a test can skip with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

VERSIONS: Final = {
    "zk": os.environ.get("KAFKA_ZK_VERSION", "3.9.2"),
    "kraft": os.environ.get("KAFKA_KRAFT_VERSION", "4.3.1"),
}
"""By mode: the last line of releases that has ZooKeeper, and the newest one that has KRaft."""

FLAGS: Final = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
]
"""What Kafka's own kafka-run-class.sh gives to a server, without remote JMX, which would listen on all addresses."""

SMALL_FLAGS: Final = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
"""For a server that holds little for a short time: it starts with 60 % of the processor time."""

TOOL_FLAGS: Final = ("-Xmx512M", "-XX:+UseSerialGC")
QUICK_TOOL_FLAGS: Final = (*TOOL_FLAGS, "-XX:TieredStopAtLevel=1")
"""For tools that only start and ask; those that measure get both compilers."""
MEASURING_TOOLS: Final = ("perf-test", "latency", "Performance", "Latency")

RENAMED_TOOLS: Final = {
    "acls": ("AclCommand",),
    "broker-api-versions": ("BrokerApiVersionsCommand",),
    "client-metrics": ("ClientMetricsCommand",),
    "cluster": ("ClusterTool",),
    "configs": ("ConfigCommand",),
    "console-consumer": ("consumer.ConsoleConsumer", "ConsoleConsumer"),
    "console-producer": ("ConsoleProducer",),
    "console-share-consumer": ("consumer.ConsoleShareConsumer",),
    "consumer-groups": ("consumer.group.ConsumerGroupCommand", "ConsumerGroupCommand"),
    "consumer-perf-test": ("ConsumerPerformance",),
    "delegation-tokens": ("DelegationTokenCommand",),
    "delete-records": ("DeleteRecordsCommand",),
    "dump-log": ("DumpLogSegments",),
    "e2e-latency": ("EndToEndLatency",),
    "features": ("FeatureCommand",),
    "get-offsets": ("GetOffsetShell",),
    "groups": ("GroupsCommand",),
    "jmx": ("JmxTool",),
    "leader-election": ("LeaderElectionCommand",),
    "log-dirs": ("LogDirsCommand",),
    "metadata-quorum": ("MetadataQuorumCommand",),
    "producer-perf-test": ("ProducerPerformance",),
    "reassign-partitions": ("reassign.ReassignPartitionsCommand", "ReassignPartitionsCommand"),
    "replica-verification": ("ReplicaVerificationTool",),
    "share-consumer-perf-test": ("ShareConsumerPerformance",),
    "share-groups": ("consumer.group.ShareGroupCommand",),
    "storage": ("StorageTool",),
    "streams-application-reset": ("StreamsResetter",),
    "streams-groups": ("streams.StreamsGroupCommand",),
    "topics": ("TopicCommand",),
    "transactions": ("TransactionsCommand",),
    "verifiable-consumer": ("VerifiableConsumer",),
    "verifiable-producer": ("VerifiableProducer",),
    "verifiable-share-consumer": ("VerifiableShareConsumer",),
}
"""A tool's script, without "kafka-" and ".sh", and the classes behind it, below one of TOOL_PACKAGES."""
TOOL_PACKAGES: Final = ("org.apache.kafka.tools", "kafka.admin", "kafka.tools")
OTHER_TOOLS: Final = {
    "zookeeper-shell": "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
    "metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "mirror-maker": "kafka.tools.MirrorMaker",
    "connect-distributed": "org.apache.kafka.connect.cli.ConnectDistributed",
    "connect-mirror-maker": "org.apache.kafka.connect.mirror.MirrorMaker",
}

COMPLETE: Final = ".complete"
"""In a directory of jars: the pom that they were fetched for."""

_HERE = Path(__file__).resolve().parent
POM: Final = _HERE / "pom.xml"


class PeerMissing(Exception):
    """A program to compare with cannot run here; the message says what is missing."""


class UnknownTool(Exception):
    """A release has no tool of this name."""


def peers_home() -> Path:
    """Where the jars of other projects are kept from one run to the next."""
    return Path(os.environ.get("PEERS_HOME", Path.home() / ".cache" / "kavka-peers"))


def installed(mode: str) -> Path:
    """The directory of a release's jars, fetched with Maven at first. mode: "zk" or "kraft". Raises PeerMissing."""
    return Release(VERSIONS[mode]).installed()


class Release:
    """A version of Apache Kafka, for example 3.9.2; it need not be installed yet."""

    def __init__(self, version: str, *, pom: Path = POM) -> None:
        """pom: names the jars."""
        self.version = version
        self._pom = pom

    @classmethod
    def named(cls, name: str) -> Release:
        """Of a mode ("zk", "kraft") or of a version."""
        return cls(VERSIONS.get(name, name))

    @property
    def jars(self) -> Path:
        """Where its jars lie once it is installed."""
        return peers_home() / f"kafka-{self.version}"

    @property
    def class_path(self) -> str:
        return f"{self.jars}/*"

    def installed(self) -> Path:
        """The directory of its jars; fetches them where they are missing or others than the pom names, one process at a
        time. Raises PeerMissing."""
        java()
        if self._is_complete():
            return self.jars
        if shutil.which("mvn") is None:
            raise PeerMissing(f"needs Apache Kafka {self.version} in {self.jars}, or Maven (mvn) to fetch it")
        peers_home().mkdir(parents=True, exist_ok=True)
        with _only_one_at_a_time(peers_home() / ".install.lock"):
            if not self._is_complete():
                self._fetch()
        return self.jars

    def server_command(self, main_class: str, *arguments: str, options: Sequence[str]) -> list[str]:
        """How one of its servers (broker, ZooKeeper) is started. options: for the JVM, such as -Xmx1G and FLAGS."""
        return [java(), *options, *self._logging(), "-cp", self.class_path, main_class, *arguments]

    def tool_command(self, name: str, *arguments: str) -> list[str]:
        """How one of its command-line tools is called. Raises UnknownTool.
        name: a script's name (kafka-topics.sh, kafka-topics or topics) or a class, with its package."""
        logging = self._logging(of_tool=True)
        flags = TOOL_FLAGS if name.removesuffix(".sh").endswith(MEASURING_TOOLS) else QUICK_TOOL_FLAGS
        return [java(), *flags, *logging, "-cp", self.class_path, self.tool_class(name), *arguments]

    def tool_class(self, name: str) -> str:
        """The class of a tool, which moved between releases. Raises UnknownTool."""
        if "." in name.removesuffix(".sh"):
            return name
        short = name.removesuffix(".sh").removeprefix("kafka-")
        if short in OTHER_TOOLS:
            candidates = [OTHER_TOOLS[short]]
        else:
            known = RENAMED_TOOLS.get(short, ())
            candidates = [f"{package}.{each}" for each in known for package in TOOL_PACKAGES]
        found = next((each for each in candidates if each in _classes(self.jars)), None)
        if found is None:
            raise UnknownTool(f"Apache Kafka {self.version} has no tool {name!r}; known: {', '.join(self.tools())}")
        return found

    def tools(self) -> list[str]:
        """The names of the tools that this release has, without "kafka-"."""
        classes = _classes(self.jars)
        tools = [
            name
            for name, known in RENAMED_TOOLS.items()
            if any(f"{package}.{each}" in classes for each in known for package in TOOL_PACKAGES)
        ]
        return sorted([*tools, *(name for name, each in OTHER_TOOLS.items() if each in classes)])

    def _is_complete(self) -> bool:
        """Whether they are those of the pom as it is now: a jar that was added to it since must not go missing."""
        try:
            return (self.jars / COMPLETE).read_text() == self._pom.read_text()
        except FileNotFoundError:
            return False

    def _fetch(self) -> None:
        unfinished, former = (self.jars.with_name(f"{self.jars.name}.{part}") for part in ("part", "old"))
        for leftover in (unfinished, former):
            shutil.rmtree(leftover, ignore_errors=True)
        command = [
            *("mvn", "-q", "-B", "-Dstyle.color=never", "-f", str(self._pom)),
            *(f"-P{self._log4j}", f"-Dkafka.version={self.version}"),
            *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            said = (result.stderr or result.stdout)[-400:]
            raise PeerMissing(f"Maven could not fetch Apache Kafka {self.version}: {said}")
        shutil.copyfile(self._pom, unfinished / COMPLETE)
        with contextlib.suppress(FileNotFoundError):
            self.jars.rename(former)
        unfinished.rename(self.jars)
        shutil.rmtree(former, ignore_errors=True)

    @property
    def _log4j(self) -> str:
        return "log4j1" if self.version.startswith("3.") else "log4j2"

    def _logging(self, *, of_tool: bool = False) -> list[str]:
        file = _HERE / "log4j" / f"{self._log4j}{'-tool' if of_tool else ''}.properties"
        option = "log4j.configuration" if self._log4j == "log4j1" else "log4j2.configurationFile"
        return [f"-D{option}=file:{file}"]


def java() -> str:
    """The command that runs Java: $JAVA, or the one on the path. Raises PeerMissing."""
    found = shutil.which(os.environ.get("JAVA", "java"))
    if found is None:
        raise PeerMissing("needs java (17 or newer) to run Apache Kafka")
    return found


@functools.cache
def _classes(jars: Path) -> frozenset[str]:
    """The classes that may have a main, of the jars that hold tools."""
    names: set[str] = set()
    for pattern in ("kafka*.jar", "connect-*.jar", "zookeeper-*.jar"):
        for path in jars.glob(pattern):
            with zipfile.ZipFile(path) as jar:
                entries = (entry for entry in jar.namelist() if entry.endswith(".class") and "$" not in entry)
                names.update(entry.removesuffix(".class").replace("/", ".") for entry in entries)
    return frozenset(names)


@contextlib.contextmanager
def _only_one_at_a_time(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
