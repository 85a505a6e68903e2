"""A rolling upgrade under load, and back, and again: `make upgrade`, or `python -m tests.upgrade.rolling --help`.

Three brokers and a ZooKeeper of an earlier build serve idempotent producers and a group of transformers, each with a
transactional id (tests/chaos/exactly_once.py). One after the other, ZooKeeper first, the servers end in order and begin
again with this checkout's build, later, ZooKeeper last, with the earlier one, and at last with this one again. In
between the mixed cluster serves, and makes a topic. Then the audit of the chaos run is made: every input has one
output, nothing is lost, doubled or torn, nothing hangs, the replicas are equal.

Decides when which server changes its build; what went wrong is the audit's to say.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from kazoo.exceptions import KazooException

from tests.chaos.campaign import TRANSACTIONS, Campaign, Outcome, Say, create_topics
from tests.chaos.exactly_once import EXACTLY_ONCE_SETTINGS, ExactlyOnceRun
from tests.kit.process_cluster import ProcessCluster, Server, kavka_command
from tests.upgrade.earlier_build import EVERY, FIRST, EarlierBuild, NoEarlierBuild

SETTINGS = {
    "log.segment.bytes": str(2**20),
    "log.index.size.max.bytes": str(2**16),
    "replica.lag.time.max.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "min.insync.replicas": "2",
    **EXACTLY_ONCE_SETTINGS,
}
SERVED_MIXED_S = 6.0
"""Before the first server, after each, and so between any two."""
STEP_S = 120.0


class RollingRun(ExactlyOnceRun):
    """A cluster that has started with the earlier build is upgraded, downgraded and upgraded again."""

    def __init__(self, campaign: Campaign, cluster: ProcessCluster, say: Say, earlier: Sequence[str]) -> None:
        super().__init__(campaign, cluster, say)
        self._earlier = earlier
        self._numbers = count()

    def disturb(self) -> None:
        zookeepers, brokers = list(self._cluster.zookeepers), list(self._cluster.brokers.values())
        self._serve()
        for server in (*zookeepers, *brokers):
            self._begin_anew(server, [kavka_command()], "this build")
        for server in (*brokers, *zookeepers):
            self._begin_anew(server, self._earlier, "the earlier build")
        for server in (*zookeepers, *brokers):
            self._begin_anew(server, [kavka_command()], "this build")

    def _begin_anew(self, server: Server, program: Sequence[str], name: str) -> None:
        self._say(f"{server.name} becomes {name}")
        server.terminate()
        self._await(f"{server.name} ends", lambda: not server.is_running)
        if server.returncode:
            self._failures.append(f"{server.name} ended with {server.returncode}: {server.log_tail(lines=6)}")
        self._cluster.set_program(server, program)
        server.log_file = server.directory / f"{server.name}, {name}.log"  # Of failures only this build's count.
        server.start()
        self._await(f"{server.name} serves", server.accepts)
        self._await("every replica is in sync", self._is_whole)
        self._serve()

    def _serve(self) -> None:
        """As it is now, for a while; a topic is made, too."""
        until = time.monotonic() + SERVED_MIXED_S
        create_topics(self._cluster, self._campaign, f"mixed-{next(self._numbers)}")
        self._await("time passes", lambda: time.monotonic() >= until)

    def _is_whole(self) -> bool:
        states = [
            self._cluster.state(topic, one) for topic, parts in self._partitions().items() for one in range(parts)
        ]
        return all(len(state.isr) == self._campaign.brokers and state.leader >= 0 for state in states)

    def _await(self, what: str, is_so: Callable[[], bool]) -> None:
        """Transformers are looked after meanwhile."""
        deadline = time.monotonic() + STEP_S
        while True:
            try:
                if is_so():
                    return
            except (KazooException, OSError):
                pass  # ZooKeeper begins anew.
            assert time.monotonic() < deadline, f"{what}: not in {STEP_S} s"
            self._nemesis.supervise_clients(time.monotonic())
            time.sleep(0.05)


def run(build: EarlierBuild, directory: Path, *, protocol: str, rate: int, verbose: bool = True) -> Outcome:
    """Raises NoEarlierBuild."""
    began_at = time.monotonic()

    def say(text: str) -> None:
        if verbose:
            print(f"{time.monotonic() - began_at:6.1f}  {text}", flush=True)

    campaign = Campaign(TRANSACTIONS, network=False, small_disks=False, faults=(), rate=rate, protocol=protocol)
    earlier = build.program()
    with ProcessCluster(directory, settings=SETTINGS, program=earlier) as cluster:
        cluster.start()
        say(f"three brokers of {build.name} ({build.commit[:12]}), group protocol {protocol}")
        return RollingRun(campaign, cluster, say, earlier).run()


def main() -> int:
    parser = argparse.ArgumentParser(
        description="A cluster under load goes from an earlier build to this one and back."
    )
    parser.add_argument("--build", choices=[build.name for build in EVERY], default=FIRST.name)
    parser.add_argument("--group-protocol", choices=["classic", "consumer"], help="one run instead of both")
    parser.add_argument("--rate", type=int, default=60, help="records a second of each of three producers (60)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave logs and data in a directory")
    arguments = parser.parse_args()
    build = next(build for build in EVERY if build.name == arguments.build)
    place = arguments.keep or Path(tempfile.mkdtemp(prefix="kavka-upgrade-"))
    failed = False
    try:
        for protocol in [arguments.group_protocol] if arguments.group_protocol else ["classic", "consumer"]:
            shutil.rmtree(place / protocol, ignore_errors=True)
            outcome = run(build, place / protocol, protocol=protocol, rate=arguments.rate)
            print("\n".join(outcome.lines))
            print(
                "\n".join(f"FAILED  {text}" for text in outcome.failures) or "nothing lost, nothing doubled", flush=True
            )
            failed = failed or bool(outcome.failures)
    except NoEarlierBuild as missing:
        print(f"upgrade: {missing}; a clone with its history has it")
        return 2
    finally:
        if not arguments.keep:
            shutil.rmtree(place, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
