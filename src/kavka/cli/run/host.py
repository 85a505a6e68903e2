"""`kavka host`: several brokers on one machine out of one file, and what is asked of those that run.

Decides how many brokers there are, what is said when they serve, and what to do next when they cannot.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kavka.cli.help import CommandLine
from kavka.cli.log_level import LogLevel
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import FAILED, Failure, Table, note, show, show_json, usage
from kavka.cli.run.start import CONFIG_NEXT, DEFAULT_LOG_LEVELS, Start, next_step, warn_of_secrets
from kavka.errors import ConfigError, ConnectionFailed, KavkaError

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.config.host_layout import HostLayout
    from kavka.runtime.host import HostStarted

app = CommandLine()

RESTART_NEXT = "no other is touched; `kavka host FILE --status` and `kavka durability` show how it stands"

PLACES = ("log.dirs", "log.dir", "broker.id")
"""Settings that say which host is asked."""


@app.command("host")
def host(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file such as Kafka's server.properties.")],
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            "-n",
            min=1,
            max=256,
            metavar="N",
            show_default="as many as log.dirs has, or the machine's cores",
            help="Number of brokers.",
        ),
    ] = None,
    status: Annotated[
        bool, typer.Option("--status", help="Show the brokers of the running host; status 1 unless all serve.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the brokers of the running host, one after the other.")
    ] = False,
    accept_unavailable: Annotated[
        bool,
        typer.Option(
            "--accept-unavailable",
            help="With --restart: go on even if partitions become unavailable meanwhile.",
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting, as in the file; repeatable."),
    ] = None,
    log_level: LogLevel = DEFAULT_LOG_LEVELS["server"],
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Start a broker for each core of this machine.

    All have the settings of one file; ids, ports and directories follow from it. A broker that ends is started
    again. Ctrl-C stops them all. --restart waits until each broker is in sync again before the next.

    [bold]Examples[/bold]

    kavka host /etc/kafka/server.properties

    kavka host /etc/kafka/server.properties --restart
    """
    if status and restart:
        usage("--status and --restart do not go together", "give one of them")
    if accept_unavailable and not restart:
        usage("--accept-unavailable goes with --restart", "add --restart, or leave it out")
    if restart:
        _require_no_start(brokers, settings or ())
    plan = Start(file=file, settings=tuple(settings or ()), log_level=log_level, as_json=as_json)
    layout = _layout(plan, brokers)
    if status:
        _show_status(layout, as_json=as_json)
    elif restart:
        _restart(layout, bootstrap, accepts_unavailable=accept_unavailable, as_json=as_json)
    else:
        raise typer.Exit(_start(plan, layout))


def _require_no_start(brokers: int | None, settings: Sequence[str]) -> None:
    """Raises Failure for what a restart would pass over."""
    others = [each for each in settings if each.partition("=")[0].strip() not in PLACES]
    if others or brokers is not None:
        usage(
            "--brokers and --set apply only when a host starts",
            "stop the host and start it again with them, or write settings into its file before --restart",
        )


# -- which brokers


def _layout(plan: Start, count: int | None) -> HostLayout:
    """The brokers that the file stands for. Raises Failure."""
    from kavka.cli.run.start import NotSettings, WrongUsage

    try:
        return _read_layout(plan, count)
    except WrongUsage as problem:
        usage(str(problem), "see `kavka host --help`")
    except NotSettings as problem:
        raise Failure(str(problem), "name a file such as Kafka's server.properties") from problem
    except ConfigError as problem:
        raise Failure(str(problem), CONFIG_NEXT) from problem
    except OSError as problem:
        raise Failure(f"cannot read {plan.file}: {problem.strerror}", "name a file that you may read") from problem


def _read_layout(plan: Start, count: int | None) -> HostLayout:
    """Raises WrongUsage, ConfigError, OSError."""
    from kavka.cli.run.start import written_settings
    from kavka.config.broker import BrokerConfig
    from kavka.config.host_layout import lay_out

    written = written_settings(plan)
    shared = BrokerConfig.from_properties(written)
    first = shared.broker_id
    found = _brokers_in(shared.log_directories)
    if first >= 0:
        _require_same(found, first, count)
    had = max(found, default=first - 1) - first + 1
    return lay_out(written, count or had or _cores(), host_name=socket.gethostname())


def _require_same(found: Sequence[int], first: int, count: int | None) -> None:
    """Raises ConfigError where the directories hold brokers that the host would not start."""
    left_out = [each for each in found if each < first or (count is not None and each >= first + count)]
    if left_out:
        last = None if count is None else first + count - 1
        own = f"those from {first} on" if last is None else str(first) if last == first else f"{first} to {last}"
        raise ConfigError(
            f"log.dirs has directories of brokers that would not run ({', '.join(map(str, left_out))}), for this host "
            f"has {own}: their replicas would be missing; change broker.id or --brokers"
        )


def _brokers_in(directories: Sequence[str]) -> list[int]:
    """Ids of the brokers that have a directory there. Raises ConfigError where a broker's logs lie there themselves:
    its neighbours' directories would look like partitions."""
    found = set()
    for directory in directories:
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        if "meta.properties" in names:
            raise ConfigError(
                f"{directory} holds the logs of one broker: stop it and move all that is in {directory} to "
                f"{directory}/broker-ID, with the broker's id, or name other directories in log.dirs"
            )
        found |= {int(match[1]) for name in names if (match := re.fullmatch(r"broker-([0-9]+)", name))}
    return sorted(found)


def _cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))


# -- starting


def _start(plan: Start, layout: HostLayout) -> int:
    from kavka.cli.run.start import say
    from kavka.cli.run.zookeeper_wait import said_while_waiting
    from kavka.runtime.host import HostPlan, run
    from kavka.runtime.log_output import configure

    configure(plan.log_level, as_json=plan.as_json)
    warn_of_secrets(plan)
    count = len(layout.brokers)
    command = (sys.executable, "-m", "kavka.cli.main", "server", "--log-level", plan.log_level, "--json")

    def tell(started: HostStarted) -> None:
        _tell(layout, started, as_json=plan.as_json)

    try:
        with ExitStack() as waiting:
            waiting.enter_context(said_while_waiting(layout.brokers[0].config.zookeeper_connect or ""))

            def on_started(started: HostStarted) -> None:
                waiting.close()
                say(lambda: tell(started))

            return run(HostPlan(layout, command, lambda: _reread(plan, count)), on_started=on_started)
    except KavkaError as problem:
        raise Failure(str(problem), next_step(problem, plan)) from problem
    except KeyboardInterrupt:
        return 128 + 2


def _reread(plan: Start, count: int) -> HostLayout:
    """The file as it is now. Raises ConfigError."""
    from kavka.cli.run.start import WrongUsage

    try:
        return _read_layout(plan, count)
    except (WrongUsage, OSError) as problem:
        raise ConfigError(f"{plan.file}: {problem}") from problem


def _tell(layout: HostLayout, started: HostStarted, *, as_json: bool) -> None:
    addresses = [broker.address for broker in layout.brokers]
    if as_json:
        brokers = [
            {
                "broker_id": broker.broker_id,
                "address": broker.address,
                "log_directories": list(broker.config.log_directories),
                "pid": started.pids[broker.broker_id],
            }
            for broker in layout.brokers
        ]
        facts: dict[str, object] = {"event": "ready", "bootstrap": ",".join(addresses), "brokers": brokers}
        print(json.dumps({**facts, "rack": layout.rack, "seconds": round(started.seconds, 3)}), flush=True)
        return
    first, last = layout.broker_ids[0], layout.broker_ids[-1]
    whose = f"broker {first}" if first == last else f"brokers {first} to {last}"
    on = addresses[0] if len(addresses) == 1 else f"{addresses[0]} to {addresses[-1].rpartition(':')[2]}"
    print(f"kavka is ready: {whose} on {on}, rack {layout.rack}", flush=True)


# -- those that run


def _ask(layout: HostLayout, question: dict[str, object]) -> dict[str, Any]:
    """What the running host answers. Raises Failure."""
    from kavka.runtime.host_control import ask, control_directory

    try:
        return ask(control_directory(layout), question)
    except ConnectionFailed as problem:
        raise Failure(str(problem), "start it: `kavka host FILE`; it answers once all its brokers serve") from problem


def _show_status(layout: HostLayout, *, as_json: bool) -> None:
    brokers = _ask(layout, {"do": "status"})["brokers"]
    if as_json:
        show_json({"brokers": brokers})
    else:
        table = Table(["broker", "state", "for", "address", "process", "restarts", "last end"], ["broker", "restarts"])
        for each in brokers:
            since = "" if each["serving_s"] is None else f"{each['serving_s']:,.0f} s"
            table.add(
                each["broker"],
                each["state"],
                since,
                each["address"],
                each["pid"],
                each["restarts"],
                each["last_end"],
            )
        show(table)
    if any(each["state"] != "serving" for each in brokers):
        raise Failure("", status=FAILED)


def _restart(layout: HostLayout, bootstrap: str | None, *, accepts_unavailable: bool, as_json: bool) -> None:
    from kavka.cli.session import with_cluster
    from kavka.client.rolling_restart import RestartStopped, RollingRestart, TooFewReplicas
    from kavka.runtime.host_control import HostRuns, control_directory, only_one_restart

    running = _ask(layout, {"do": "status"})["brokers"]

    async def restart(broker: int) -> None:
        answer = await asyncio.to_thread(_ask, layout, {"do": "restart", "broker": broker})
        if "problem" in answer:
            raise KavkaError(answer["problem"])

    async def work(cluster: Cluster) -> list[int] | RestartStopped:
        try:
            ids = [each["broker"] for each in running]
            return await RollingRestart(cluster, restart, note).run(ids, accepts_unavailable=accepts_unavailable)
        except RestartStopped as stopped:
            return stopped

    # Where they are now: the file may name other ports by now.
    addresses = bootstrap or ",".join(each["address"] for each in running)
    try:
        with only_one_restart(control_directory(layout)):
            found = with_cluster(addresses, work)
    except HostRuns as other:
        raise Failure(str(other), other.next_step) from other
    if isinstance(found, TooFewReplicas):
        raise Failure(str(found), "give them more replicas, or add --accept-unavailable") from found
    if isinstance(found, RestartStopped):
        done = f"restarted are {', '.join(map(str, found.restarted))}; " if found.restarted else ""
        raise Failure(str(found), f"{done}{RESTART_NEXT}") from found
    if as_json:
        show_json({"restarted": found})
    else:
        print(f"Restarted, one after the other: {', '.join(map(str, found))}. All are in sync.")
