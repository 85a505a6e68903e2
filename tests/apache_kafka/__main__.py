"""Apache Kafka by hand: .venv/bin/python -m tests.apache_kafka start zk 3 19092 /tmp/peer."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tests.apache_kafka.cluster import ApacheKafka, _running
from tests.apache_kafka.release import VERSIONS, PeerMissing, Release, UnknownTool
from tests.apache_kafka.servers import Servers
from tests.kit.kavka_process import ProcessFailed

MODES = f"zk ({VERSIONS['zk']}) or kraft ({VERSIONS['kraft']})"


def main() -> int:
    parser = argparse.ArgumentParser(prog="apache_kafka", description="Run Apache Kafka on this machine's loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    install = commands.add_parser("install", help="fetch the jars of releases with Maven")
    install.add_argument("releases", nargs="*", default=["zk", "kraft"], help=f"{MODES}, or a version; both by default")
    start = commands.add_parser("start", help="start a cluster and return when every broker answers")
    start.add_argument("mode", choices=["zk", "kraft"], help=MODES)
    start.add_argument("brokers", type=int)
    start.add_argument("port", type=int, help="of the first broker; ZooKeeper's is 100 higher, KRaft controllers' 200")
    start.add_argument("directory", type=Path, help="gets configuration, logs, pid files and data")
    start.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of every broker")
    start.add_argument(
        "--heap",
        help="JVM options of each broker, which then starts quickly and compiles little; Kafka's own by default",
    )
    node = commands.add_parser("start-node", help="start one server again")
    node.add_argument("directory", type=Path)
    node.add_argument("name", help="zk, broker-1, ...")
    stop = commands.add_parser("stop", help="end the servers of a directory")
    stop.add_argument("directory", type=Path)
    stop.add_argument("names", nargs="*", help="all by default")
    stop.add_argument("--kill", action="store_true", help="with SIGKILL")
    tool = commands.add_parser("tool", help="run one of Kafka's own command-line tools; list: their names")
    tool.add_argument("release", help=f"{MODES}, or a version")
    tool.add_argument("name", help="kafka-topics.sh, topics, a class, or list")
    tool.add_argument("arguments", nargs=argparse.REMAINDER)
    try:
        return _run(parser.parse_args())
    except (PeerMissing, UnknownTool, ProcessFailed) as failure:
        print(failure, file=sys.stderr)
        return 2


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command == "install":
        for name in chosen.releases:
            print(Release.named(name).installed())
    elif chosen.command == "start":
        settings = dict(setting.split("=", 1) for setting in chosen.set)
        place = {"mode": chosen.mode, "brokers": chosen.brokers, "port": chosen.port}
        kafka = ApacheKafka(chosen.directory, settings=settings, heap=chosen.heap, **place)
        kafka.start()
        _running.discard(kafka)  # it outlives this process
        for name, seconds in kafka.start_times_s.items():
            print(f"{name}={seconds:.3f}")
        print(f"bootstrap={kafka.bootstrap}")
        if chosen.mode == "zk":
            print(f"zookeeper={kafka.zookeeper}")
    elif chosen.command == "start-node":
        Servers(chosen.directory.resolve()).start(chosen.name)
    elif chosen.command == "stop":
        Servers(chosen.directory.resolve()).stop(*chosen.names, at_once=chosen.kill)
    else:
        release = Release.named(chosen.release)
        release.installed()
        if chosen.name == "list":
            print("\n".join(release.tools()))
            return 0
        return subprocess.run(release.tool_command(chosen.name, *chosen.arguments), check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
