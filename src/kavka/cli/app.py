"""The typer application: every command with its options, examples and help.

Decides names, options and help only; what a command does stands in the module that it imports when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kavka.cli import console_commands
from kavka.cli.help import ClickException, CommandLine, Group, wrong_number
from kavka.cli.options import Bootstrap, Json, TopicHabit
from kavka.cli.output import INTERRUPTED, WRONG_USAGE, Failure, buffer_output, report, usage
from kavka.cli.pipeline import pipeline_app
from kavka.cli.spark import spark_app
from kavka.cli.start import (
    DEFAULT_DATA,
    DEFAULT_HOST,
    DEFAULT_LOG_LEVELS,
    DEFAULT_PORT,
    LOG_LEVELS,
    MOST_BROKERS,
    Start,
    start,
)

START, LOOK, DATA = "Start brokers", "Look at a cluster", "Topics and records"
CHANGE, WHAT_IF, OTHER = "Groups, transactions, replicas", "What if", "Console and Spark"
"""Sections of the list of commands."""


class Kavka(Group):
    """The program itself."""

    sections = (START, LOOK, DATA, CHANGE, WHAT_IF, OTHER)


app = CommandLine(
    name="kavka",
    cls=Kavka,
    help="Kafka's classic core in Python: a broker that starts in a moment, and the tools for every day. "
    "The tools speak Kafka's protocol and work with Apache Kafka as well.\n\nExamples\n\nkavka up\n\n"
    "echo hello | kavka produce greetings\n\nkavka consume greetings -e\n\nkavka why greetings",
    add_completion=True,
)
topics_app = CommandLine(help="Create, list, describe, alter and delete topics.")
configs_app = CommandLine(help="Show and change the settings of topics and brokers.")
reassign_app = CommandLine(help="Move partitions to other brokers: plan, execute, status, cancel.")
groups_app = CommandLine(help="List and describe groups, reset what they committed, delete groups and offsets.")
transactions_app = CommandLine(help="List and describe transactions, find and end those that hang.")
features_app = CommandLine(help="Show and change the feature levels of the cluster.")
records_app = CommandLine(help="Delete records.")

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No remarks and no progress on standard error.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting of the brokers, as in server.properties."),
]
LogLevel = Annotated[str, typer.Option("--log-level", metavar="|".join(LOG_LEVELS), help="Least severe events to log.")]
UP_LEVEL, SERVER_LEVEL = DEFAULT_LOG_LEVELS["up"], DEFAULT_LOG_LEVELS["server"]
BootstrapHabit = Annotated[
    str | None,
    typer.Option("--bootstrap", "-b", "--bootstrap-server", envvar="KAVKA_BOOTSTRAP", show_envvar=False, hidden=True),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only ask whether it would be accepted; change nothing.")]


def run(words: Sequence[str]) -> int:
    """Runs one command line through typer and returns the exit status."""
    buffer_output()
    try:
        status = app(args=list(words), prog_name="kavka", standalone_mode=False)
    except Failure as failure:
        return report(failure)
    except ClickException as wrong:
        return report(_wrong_usage(wrong))
    except typer.Abort:
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _wrong_usage(wrong: Any) -> Failure:
    """A mistake on the command line. A group without a command is none: its help is what was asked for."""
    if type(wrong).__name__ == "NoArgsIsHelpError":
        print(wrong.format_message())
        return Failure("", status=WRONG_USAGE)
    ctx = getattr(wrong, "ctx", None)
    path = ctx.command_path if ctx is not None else "kavka"
    problem = wrong_number(wrong) or wrong.format_message()
    return Failure(problem, f"`{path} --help` shows options and examples", status=wrong.exit_code)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"kavka {version('kavka')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Holds the options of the program itself."""


# The broker


@app.command(rich_help_panel=START)
def up(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, metavar="PORT", help="Port; 0 for a free one.")
    ] = DEFAULT_PORT,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = DEFAULT_HOST,
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", metavar="HOST[:PORT]", help="The address that clients are told to connect to."),
    ] = None,
    data: Annotated[
        str, typer.Option("--data", "-d", metavar="DIRECTORY", help="Where all data is kept.")
    ] = DEFAULT_DATA,
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            "-n",
            min=1,
            max=MOST_BROKERS,
            metavar="N",
            show_default="as many as DIRECTORY has, 1 in a new one",
            help="Number of brokers, on ports from --port on.",
        ),
    ] = None,
    processes: Annotated[
        bool, typer.Option("--processes", help="Run each broker, and ZooKeeper, in its own process.")
    ] = False,
    zookeeper_port: Annotated[
        int | None,
        typer.Option(
            "--zookeeper-port",
            min=0,
            max=65535,
            metavar="PORT",
            help="Open the embedded ZooKeeper to others; 0 for a free port.",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=1,
            max=65535,
            metavar="PORT",
            help="Serve metrics for Prometheus here; with several brokers, from here on, each on its own port.",
        ),
    ] = None,
    console_port: Annotated[
        int | None,
        typer.Option(
            "--console-port",
            min=0,
            max=65535,
            metavar="PORT",
            show_default="8090, or a free one",
            help="The console's port.",
        ),
    ] = None,
    no_console: Annotated[bool, typer.Option("--no-console", help="Do not start the console.")] = False,
    settings: SetOption = None,
    log_level: LogLevel = UP_LEVEL,
    as_json: Json = False,
) -> None:
    """Start a broker, or a cluster of them, here, with the data in a directory; Ctrl-C stops it.

    [bold]Examples[/bold]

    kavka up

    kavka up --brokers 3

    kavka up --port 19092 --data /tmp/kafka --set num.partitions=6 --set log.retention.hours=1

    kavka up --host 0.0.0.0 --advertise kafka.example.com
    """
    _log_level(log_level)
    plan = Start(
        None,
        port,
        host,
        advertise,
        data,
        tuple(settings or ()),
        log_level,
        as_json,
        brokers or 0,
        processes,
        zookeeper_port,
        metrics_port,
        console_port,
        no_console,
    )
    raise typer.Exit(start(plan))


@app.command(rich_help_panel=START)
def server(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file such as Kafka's server.properties.")],
    settings: SetOption = None,
    log_level: LogLevel = SERVER_LEVEL,
    as_json: Json = False,
) -> None:
    """Start a broker with the settings of a file, under Kafka's names and defaults.

    [bold]Example[/bold]

    kavka server /etc/kafka/server.properties --set log.dirs=/data/kafka
    """
    _log_level(log_level)
    raise typer.Exit(start(Start(file=file, settings=tuple(settings or ()), log_level=log_level, as_json=as_json)))


@app.command(rich_help_panel=START)
def zookeeper(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, metavar="PORT", help="Port; 0 for a free one.")
    ] = 2181,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")] = DEFAULT_HOST,
    data: Annotated[
        str, typer.Option("--data", "-d", metavar="DIRECTORY", help="Where its data is kept.")
    ] = "kavka-zookeeper",
    tick_ms: Annotated[
        int,
        typer.Option("--tick-time", min=1, metavar="MS", help="ZooKeeper's unit of time; sessions last 2 to 20 of it."),
    ] = 2000,
    words: Annotated[
        str,
        typer.Option(
            "--four-letter-words", metavar="WORD,...|*", help="The commands to answer, such as srvr and mntr."
        ),
    ] = "srvr",
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=0, metavar="N", help="Connections from one host; 0 for no limit.")
    ] = 60,
    log_level: LogLevel = SERVER_LEVEL,
    as_json: Json = False,
) -> None:
    """Start a ZooKeeper server here, for Kafka's brokers or any client of ZooKeeper's; Ctrl-C stops it.

    [bold]Example[/bold]

    kavka zookeeper --port 2181 --data /data/zookeeper --four-letter-words ruok,srvr,mntr
    """
    _log_level(log_level)
    from kavka.cli.zookeeper import serve

    status = serve(
        host=host,
        port=port,
        data=data,
        tick_ms=tick_ms,
        words=words,
        max_connections=max_connections,
        log_level=log_level,
        as_json=as_json,
    )
    raise typer.Exit(status)


# The cluster


@app.command(rich_help_panel=LOOK)
def why(
    subject: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SUBJECT",
            help="TOPIC-PARTITION, TOPIC, broker N, group G or controller; everything by default.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="How things stood then, and why: 10:42, or ISO 8601.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DURATION", show_default="24h", help="How far to look back: 90s, 10m, 2h, 7d."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", "-d", metavar="DIRECTORY", help="Read log directories instead of asking the cluster."),
    ] = None,
    brief: Annotated[bool, typer.Option("--brief", help="One line per decision, without reasons.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Explain why a leader moved, an ISR shrank, a broker was fenced: what the brokers decided, on which evidence.

    [bold]Examples[/bold]

    kavka why orders-3

    kavka why orders-3 --at 10:42

    kavka why broker 2 --since 2h

    kavka why controller --data kavka-data
    """
    from kavka.cli.why import why as tell

    tell(bootstrap, subject or [], at=at, since=since, data=data or [], brief=brief, as_json=as_json)


@app.command(rich_help_panel=LOOK)
def brokers(as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Show the brokers: what each leads and stores, what is out of sync, and which one is the controller.

    [bold]Examples[/bold]

    kavka brokers

    kavka brokers --json
    """
    from kavka.cli.durability import brokers as show_brokers

    show_brokers(bootstrap, as_json=as_json)


@app.command(rich_help_panel=LOOK)
def durability(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="Topics; all by default.")] = None,
    broker: Annotated[
        int | None,
        typer.Option(
            "--broker", min=0, metavar="ID", help="Only this broker; exit status 1 unless it is safe to restart."
        ),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show what would be lost or blocked if a broker died now, and which may be restarted.

    [bold]Examples[/bold]

    kavka durability

    kavka durability --broker 2 && systemctl restart kavka@2
    """
    from kavka.cli.durability import durability as show_durability

    show_durability(bootstrap, topics or [], broker=broker, as_json=as_json)


app.command(rich_help_panel=LOOK)(console_commands.health)
app.command(rich_help_panel=LOOK)(console_commands.top)


# What if


@app.command("simulate", rich_help_panel=WHAT_IF)
def simulate(
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, metavar="N", show_default="drawn, and printed", help="The same seed gives the same run."
        ),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option("--scenario", metavar="NAME", help="A named scenario, or enough of its name; see --list."),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers", "-n", min=1, max=9, metavar="N", show_default="drawn from the seed", help="Number of brokers."
        ),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            "--hours", min=0.001, max=1000, metavar="H", show_default="ten minutes", help="Virtual hours of faults."
        ),
    ] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults",
            metavar="KIND,...",
            show_default="drawn from the seed",
            help="Only these kinds, each equally often: kill, pause, cut, ..., or none; an unknown one lists all.",
        ),
    ] = None,
    replay: Annotated[
        str | None,
        typer.Option("--replay", metavar="FILE", help="Play a run that --shrink wrote, or somebody by hand."),
    ] = None,
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="FILE", help="Write what happened, one event per line.")
    ] = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="FILE", help="Write a page to step through the run in a browser.")
    ] = None,
    shrink: Annotated[
        str | None,
        typer.Option(
            "--shrink",
            metavar="FILE",
            help="If a rule is broken, find a smaller run that breaks it, and write that for --replay.",
        ),
    ] = None,
    names: Annotated[bool, typer.Option("--list", help="Only print the names of the scenarios.")] = False,
    as_json: Json = False,
) -> None:
    """Run a whole cluster with clients and faults in virtual time, and check Kafka's promises after every step.

    The code is that of brokers, controller and clients; network, disks, clocks and ZooKeeper's fate are simulated. The
    exit status is 1 if a rule was broken.

    [bold]Examples[/bold]

    kavka simulate

    kavka simulate --seed 7 --faults kill,pause,cut --page run.html

    kavka simulate --scenario S13 --trace s13.txt

    kavka simulate --seed 7 --hours 1 --json

    kavka simulate --seed 7 --shrink small.txt
    """
    from kavka.cli.simulate import list_scenarios
    from kavka.cli.simulate import simulate as run_simulation

    if names:
        list_scenarios(as_json=as_json)
        return
    status = run_simulation(
        seed=seed,
        scenario=scenario,
        brokers=brokers,
        hours=hours,
        faults=faults,
        replay=replay,
        trace=trace,
        page=page,
        shrink=shrink,
        as_json=as_json,
    )
    raise typer.Exit(status)


@app.command("replay", rich_help_panel=WHAT_IF)
def replay(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIRECTORY", help="Brokers' log directories, or those above them.")
    ],
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partition", "-p", metavar="NAME", show_default="all", help="Only TOPIC-PARTITION, or TOPIC."),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option(
            "--around", metavar="TIME", help="Only a minute before and after: 10:42, 10:42:07, or with a date."
        ),
    ] = None,
    trace: Annotated[
        str | None, typer.Option("--trace", metavar="FILE", help="Write what happened, one event per line.")
    ] = None,
    page: Annotated[
        str | None, typer.Option("--page", metavar="FILE", help="Write a page to step through it in a browser.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Replay the decisions of a cluster's brokers from what they recorded, and step through them.

    No broker needs to run. The same code decides again about leaders, in-sync replicas and high watermarks. Where it
    decides differently (another version of kavka, or a bug), the difference is reported, and the exit status is 1.

    [bold]Examples[/bold]

    kavka replay kavka-data

    kavka replay kavka-data --partition orders-0 --around 10:42 --page incident.html

    kavka replay /srv/broker-1/logs /srv/broker-2/logs --trace incident.txt
    """
    from kavka.cli.replay import replay as replay_recordings

    status = replay_recordings(
        directories,
        partitions=partitions or [],
        around=around,
        trace=trace,
        page=page,
        as_json=as_json,
    )
    raise typer.Exit(status)


@app.command("lag-policy", rich_help_panel=WHAT_IF)
def lag_policy(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Kafka's server.log, `kavka why --json`, a broker's directory, a trace; drawn workloads by default.",
        ),
    ] = None,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            "-p",
            metavar="POLICY",
            show_default="the usual ones",
            help="time:MS, messages:COUNT or messages:COUNT:MS; may be repeated.",
        ),
    ] = None,
    workloads: Annotated[
        list[str] | None,
        typer.Option("--workload", "-w", metavar="NAME", show_default="all", help="Only these workloads."),
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=1, max=60, metavar="N", help="Virtual minutes of each workload.")
    ] = 10,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same figures.")] = 1,
    plot: Annotated[str | None, typer.Option("--plot", metavar="FILE", help="Write a page with charts.")] = None,
    write_trace: Annotated[
        str | None,
        typer.Option("--write-trace", metavar="FILE", help="Only write what the leader saw of one workload."),
    ] = None,
    fetches: Annotated[
        bool,
        typer.Option("--fetches", help="With brokers' directories: check at each recorded fetch."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare ISR policies by time and by number of messages: false alarms, what goes unnoticed, why.

    The workloads run on a broker's own decision code in virtual time. With files, the policies are asked about what a
    cluster recorded.

    [bold]Examples[/bold]

    kavka lag-policy --plot report.html

    kavka lag-policy -w bursts -p time:30000 -p messages:4000 -p messages:20000

    kavka lag-policy /var/log/kafka/server.log*

    kavka lag-policy kavka-data

    kavka lag-policy kavka-data --fetches
    """
    from kavka.cli.lag_policy import lag_policy as compare

    compare(
        files or [],
        policies=policies or [],
        names=workloads or [],
        minutes=minutes,
        seed=seed,
        plot=plot,
        write_trace=write_trace,
        fetches=fetches,
        as_json=as_json,
    )


@app.command("quorum-vs-isr", rich_help_panel=WHAT_IF)
def quorum_vs_isr(
    failures: Annotated[
        int, typer.Option("--failures", "-f", min=1, max=5, metavar="N", help="Failures to survive.")
    ] = 1,
    hours: Annotated[float, typer.Option("--hours", min=0.1, max=1000, metavar="H", help="Virtual hours.")] = 24,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same figures.")] = 1,
    write_every_ms: Annotated[
        int, typer.Option("--write-every", metavar="MS", min=1, help="Time between two writes.")
    ] = 1_000,
    crash_every: Annotated[
        float,
        typer.Option("--crash-every", metavar="MINUTES", min=1, help="Mean time between two crashes of a broker."),
    ] = 120,
    repair: Annotated[
        float, typer.Option("--repair", metavar="MINUTES", min=0.01, help="Mean time until a broker is back.")
    ] = 5,
    disk_loss: Annotated[
        float, typer.Option("--disk-loss", min=0, max=1, metavar="SHARE", help="Share of crashes that lose the log.")
    ] = 0.02,
    detect_ms: Annotated[
        int, typer.Option("--detect", metavar="MS", min=1, help="Time until a crash is noticed.")
    ] = 6_000,
    plot: Annotated[str | None, typer.Option("--plot", metavar="FILE", help="Write a page with charts.")] = None,
    as_json: Json = False,
) -> None:
    """Compare in-sync replicas (f+1) with a majority quorum (2f+1) on the same faults: copies, latency, availability,
    loss.

    [bold]Examples[/bold]

    kavka quorum-vs-isr --plot report.html

    kavka quorum-vs-isr -f 2 --crash-every 30 --disk-loss 0.1
    """
    from kavka.cli.quorum_vs_isr import quorum_vs_isr as compare
    from kavka.studies.quorum_vs_isr import Circumstances

    compare(
        Circumstances(failures, hours, seed, write_every_ms, crash_every, repair, disk_loss, detect_ms),
        plot=plot,
        as_json=as_json,
    )


# Topics


@topics_app.callback(invoke_without_command=True)
def topics(
    context: typer.Context,
    wants_list: Annotated[bool, typer.Option("--list", hidden=True)] = False,
    bootstrap: BootstrapHabit = None,
) -> None:
    """Create, list, describe, alter and delete topics."""
    if wants_list:
        topics_list(bootstrap=bootstrap)
    elif context.invoked_subcommand is None:
        usage("topics: which command?", "`kavka topics --help` shows commands")


@topics_app.command("create")
def topics_create(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME*", help="Topics to create.")] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, metavar="N", show_default="the broker's num.partitions", help="Partitions."
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            "-r",
            "--replication-factor",
            min=1,
            metavar="N",
            show_default="the broker's default.replication.factor",
            help="Replicas of each partition.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", "--config", metavar="NAME=VALUE", help="A setting of the topic.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is not an error.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Create topics.

    [bold]Example[/bold]

    kavka topics create orders payments -p 6 --set retention.ms=86400000 --set cleanup.policy=compact
    """
    from kavka.cli.topics import create

    create(
        bootstrap,
        _named(names, topic, "create"),
        partitions=partitions or -1,
        replicas=replicas or -1,
        configs=_assignments(settings),
        if_not_exists=if_not_exists,
        dry_run=dry_run,
        as_json=as_json,
    )


@topics_app.command("list")
def topics_list(
    internal: Annotated[bool, typer.Option("--internal", "-a", help="Include internal topics.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List topics with their partitions and replicas.

    [bold]Examples[/bold]

    kavka topics list

    kavka topics list --internal --json
    """
    from kavka.cli.topics import list_topics

    list_topics(bootstrap, internal=internal, as_json=as_json)


@topics_app.command("describe")
def topics_describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Topics; all by default.")] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Show partitions with leaders, replicas and offsets, and the settings that a topic overrides.

    [bold]Examples[/bold]

    kavka topics describe

    kavka topics describe orders --json
    """
    from kavka.cli.topics import describe

    describe(bootstrap, [*(names or []), *(topic or [])], as_json=as_json)


@topics_app.command("alter")
def topics_alter(
    name: Annotated[str | None, typer.Argument(metavar="NAME*", help="The topic.")] = None,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, metavar="N", help="Raise the number of partitions to N.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", "--config", metavar="NAME=VALUE", help="A setting of the topic.")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Remove a setting: the broker's value applies.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Add partitions to a topic, or change its settings.

    [bold]Example[/bold]

    kavka topics alter orders -p 12 --set retention.ms=3600000 --unset cleanup.policy
    """
    from kavka.cli.topics import alter

    named = _named([name] if name is not None else [], topic, "alter")
    if len(named) > 1:
        usage(f"alter one topic at a time, not {', '.join(named)}")
    alter(
        bootstrap,
        named[0],
        partitions=partitions,
        settings=_assignments(settings),
        unset=unset or [],
        as_json=as_json,
    )


@topics_app.command("delete")
def topics_delete(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME*", help="Topics to delete with all their records.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="A missing topic is not an error.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
    topic: TopicHabit = None,
) -> None:
    """Delete topics with all their records.

    [bold]Examples[/bold]

    kavka topics delete orders

    kavka topics delete orders payments --if-exists --yes
    """
    from kavka.cli.topics import delete

    delete(bootstrap, _named(names, topic, "delete"), yes=yes, if_exists=if_exists, as_json=as_json)


# Records


@app.command(rich_help_panel=DATA)
def produce(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC*", help="The topic.")] = None,
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE", help="Input; standard input by default.")] = None,
    delimiter: Annotated[str, typer.Option("-D", "--delimiter", metavar="TEXT", help="What ends a record.")] = "\\n",
    key_delimiter: Annotated[
        str | None, typer.Option("-K", "--key-delimiter", metavar="TEXT", help="What ends the key in a record.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("-k", "--key", metavar="TEXT", help="The key of records that have none.")
    ] = None,
    headers: Annotated[
        list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="A header of every record.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("-p", "--partition", min=0, metavar="N", show_default="by key, or in turn", help="The partition."),
    ] = None,
    codec: Annotated[
        str, typer.Option("-z", "--compression", metavar="CODEC", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    acks: Annotated[
        str,
        typer.Option(
            "-a", "--acks", metavar="all|1|0", help="Who must have a record: all in sync, the leader, nobody."
        ),
    ] = "all",
    empty_is_null: Annotated[bool, typer.Option("-Z", "--null", help="Empty keys and values are null.")] = False,
    json_lines: Annotated[
        bool, typer.Option("-J", "--json-lines", help="Each line is a record in JSON, as consume --json writes it.")
    ] = False,
    whole_files: Annotated[bool, typer.Option("--whole-files", help="Each file is one record.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    bootstrap: Bootstrap = None,
    habit: TopicHabit = None,
) -> None:
    r"""Send records from standard input or files, one for each line.

    [bold]Examples[/bold]

    echo hello | kavka produce greetings

    kavka produce orders orders.csv -K , -H source=csv -z zstd

    kavka consume orders -e --json | kavka produce copy -J
    """
    from kavka.cli.line_format import MalformedLine, parse_headers, unescape
    from kavka.cli.produce import Input, compression_named
    from kavka.cli.produce import produce as send
    from kavka.client.settings import ProducerSettings
    from kavka.records.compression import Compression

    if habit:  # Then the first argument is a file.
        files = [*([topic] if topic is not None else []), *(files or [])]
        topic = habit[0]
    if topic is None:
        usage("which topic?", "for example kavka produce orders")
    if acks not in ("all", "-1", "0", "1"):
        usage(f"-a {acks}: unknown number of acknowledgements", "choose all, 1 or 0")
    try:
        form = Input(
            unescape(delimiter),
            None if key_delimiter is None else unescape(key_delimiter),
            None if key is None else key.encode(),
            parse_headers(headers or []),
            empty_is_null,
            json_lines,
            whole_files,
        )
    except MalformedLine as problem:
        usage(str(problem))
    if not form.delimiter or form.key_delimiter == b"":
        usage("the delimiter must not be empty", "for example -D '\\n'")
    settings = ProducerSettings(
        acks=-1 if acks == "all" else int(acks), compression=Compression(compression_named(codec))
    )
    send(bootstrap, topic, files or [], form, settings, partition=partition, quiet=quiet, as_json=as_json)


@app.command(rich_help_panel=DATA)
def consume(
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC*", help="Topics to read.")] = None,
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", min=0, metavar="N", help="Only this partition.")
    ] = None,
    places: Annotated[
        list[str] | None,
        typer.Option(
            "-o",
            "--offset",
            metavar="PLACE",
            show_default="beginning",
            help="Where to start: beginning, end, stored, N, -N (the last N), s@TIME; and to end: e@TIME.",
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-c", "--count", "--max-messages", min=1, metavar="N", help="Stop after N records.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("-e", "--exit", help="Stop at the end instead of waiting for more.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--format",
            metavar="TEXT",
            help="%s value %k key %h headers %t topic %p partition %o offset %T time %S %K lengths",
        ),
    ] = None,
    key_delimiter: Annotated[
        str | None, typer.Option("-K", "--key-delimiter", metavar="TEXT", help="Print the key, then this.")
    ] = None,
    delimiter: Annotated[str, typer.Option("-D", "--delimiter", metavar="TEXT", help="What ends a record.")] = "\\n",
    null: Annotated[str, typer.Option("-Z", "--null", metavar="TEXT", help="What to print for null.")] = "",
    group: Annotated[
        str | None, typer.Option("-g", "--group", "--group-id", metavar="GROUP", help="Read as a member of this group.")
    ] = None,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Skip records of open and aborted transactions.")
    ] = False,
    unbuffered: Annotated[bool, typer.Option("-u", "--unbuffered", help="Write without buffering.")] = False,
    as_json: Annotated[bool, typer.Option("-J", "--json", help="One line of JSON for each record.")] = False,
    quiet: Quiet = False,
    bootstrap: Bootstrap = None,
    habit: TopicHabit = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", hidden=True)] = False,
) -> None:
    r"""Print records from the beginning, and then new ones as they come.

    [bold]Examples[/bold]

    kavka consume orders -e

    kavka consume orders -o -5 -e -f '%p/%o %T %k=%s [%h]\n'

    kavka consume orders -o s@2026-01-31T12:00 -o e@2026-01-31T13:00 --json
    """
    from kavka.cli.consume import Reading, parse_where
    from kavka.cli.consume import consume as read
    from kavka.cli.line_format import MalformedLine, Writer, compile_format, plain, unescape
    from kavka.cli.line_format import as_json as json_line

    try:
        if as_json:
            write: Writer = json_line
        elif form is not None:
            write = compile_format(form, null=null.encode())
        else:
            keys = None if key_delimiter is None else unescape(key_delimiter)
            write = plain(keys, unescape(delimiter), null=null.encode())
    except MalformedLine as problem:
        usage(str(problem))
    named = (*(topics or []), *(habit or []))
    if not named:
        usage("which topic?", "for example kavka consume orders -e")
    where = parse_where([*(places or []), *(["beginning"] if from_beginning else [])])
    reading = Reading(named, partition, where, group, count, until_end, read_committed, quiet)
    read(bootstrap, reading, write, unbuffered=unbuffered)


@app.command("dump-log", rich_help_panel=DATA)
def dump_log(
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Files of logs, or a partition's directory.")],
    records: Annotated[bool, typer.Option("--records", "-r", help="Include the records of each batch.")] = False,
    verify_only: Annotated[bool, typer.Option("--verify", help="Only report whether the files are intact.")] = False,
    as_json: Json = False,
) -> None:
    """Show the content of log files, kavka's or Kafka's, without a broker; exit status 1 for damage.

    Understood are .log, .index, .timeindex, .txnindex, .snapshot and the checkpoints.

    [bold]Example[/bold]

    kavka dump-log kavka-data/logs/orders-0 --records
    """
    from kavka.cli.dump_log import dump_log as dump

    dump(paths, records=records, verify_only=verify_only, as_json=as_json)


# Replicas and leaders

PlanFile = Annotated[str | None, typer.Argument(metavar="FILE", help="A plan; everything that moves by default.")]
OfTopic = Annotated[str | None, typer.Option("--topic", "-t", metavar="NAME", help="The partitions of this topic.")]
OnePartition = Annotated[
    int | None, typer.Option("--partition", "-p", min=0, metavar="N", help="Only this partition of the topic.")
]


@reassign_app.command("plan")
def reassign_plan(
    topics: Annotated[
        list[str] | None, typer.Option("--topic", "-t", metavar="NAME", show_default="all", help="Only these topics.")
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", metavar="ID,ID,...", show_default="all live brokers", help="Where replicas may be."),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas", "-r", min=1, metavar="N", show_default="as many as now", help="Replicas of each partition."
        ),
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", "-a", help="Include internal topics.")] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the plan here, unless it cannot be made."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: it always does.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Say where replicas should be, as JSON, and what that would copy; nothing is moved.

    Replicas are spread evenly over the brokers, and over racks where every broker has one, with as little copied as
    that takes. Without --topic all topics are planned together. The JSON is that of kafka-reassign-partitions.

    [bold]Examples[/bold]

    kavka reassign plan --brokers 1,2,3,4 --output move.json

    kavka reassign plan --topic orders --replicas 3 | kavka reassign execute -
    """
    from kavka.cli.reassign import plan

    plan(bootstrap, topics or [], brokers=_broker_ids(brokers), replicas=replicas, internal=internal, output=output)


@reassign_app.command("execute")
def reassign_execute(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A plan, as plan writes it; - for standard input.")],
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES", min=1, help="Copy at most this many bytes per second and broker."),
    ] = None,
    additional: Annotated[
        bool,
        typer.Option(
            "--additional", help="Go on while other partitions move; the plan replaces moves of its own ones."
        ),
    ] = False,
    keep_factor: Annotated[
        bool, typer.Option("--keep-factor", help="Refuse to change the number of replicas (Kafka 4.1).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Allow fewer replicas than min.insync.replicas.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Begin the moves of a plan. What undoes them is printed first.

    Partitions can be written and read all along: replicas are added, catch up, and only then others are removed. The
    controller goes on with it after failures, its own included.

    [bold]Examples[/bold]

    kavka reassign execute move.json --throttle 50000000 > undo.json

    kavka reassign plan --brokers 1,2,3 | kavka reassign execute -
    """
    from kavka.cli.reassign import execute

    execute(
        bootstrap,
        file,
        throttle=throttle,
        additional=additional,
        keep_factor=keep_factor,
        force=force,
        dry_run=dry_run,
        as_json=as_json,
    )


@reassign_app.command("status")
def reassign_status(
    file: PlanFile = None,
    clear: Annotated[bool, typer.Option("--clear", help="Lift the throttles once nothing moves.")] = False,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Return when all moves are done.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer than this.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show how far moves are.

    [bold]Examples[/bold]

    kavka reassign status

    kavka reassign status move.json --wait --clear
    """
    from kavka.cli.reassign import status

    status(bootstrap, file, clear=clear, wait=wait, timeout_s=timeout, as_json=as_json)


@reassign_app.command("cancel")
def reassign_cancel(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A plan: cancel the moves of its partitions.")
    ] = None,
    topic: OfTopic = None,
    partition: OnePartition = None,
    everything: Annotated[bool, typer.Option("--all", help="Cancel all moves.")] = False,
    keep_throttle: Annotated[bool, typer.Option("--keep-throttle", help="Keep the throttles.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Cancel moves: the replicas stay where they were, and what was copied is deleted.

    [bold]Example[/bold]

    kavka reassign cancel --topic orders --partition 3
    """
    from kavka.cli.reassign import cancel

    cancel(
        bootstrap,
        file,
        topic=topic,
        partition=partition,
        everything=everything,
        keep_throttle=keep_throttle,
        as_json=as_json,
    )


@app.command(rich_help_panel=CHANGE)
def elect(
    preferred: Annotated[
        bool,
        typer.Option("--preferred/--unclean", help="Elect the first replica; or any live one where nobody can lead."),
    ] = True,
    topic: OfTopic = None,
    partition: OnePartition = None,
    everything: Annotated[bool, typer.Option("--all", help="Wherever an election is needed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before an unclean election.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Have preferred replicas lead again; or, with --unclean, any live replica where nobody can lead.

    An unclean election loses the records that the new leader does not have, and asks first.

    [bold]Examples[/bold]

    kavka elect --all

    kavka elect --unclean --topic orders --partition 3
    """
    from kavka.cli.elect import elect as hold

    hold(
        bootstrap,
        unclean=not preferred,
        topic=topic,
        partition=partition,
        everything=everything,
        yes=yes,
        as_json=as_json,
    )


def _broker_ids(text: str | None) -> list[int]:
    """Broker ids, each once; all live brokers where there are none."""
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not all(word.isdecimal() for word in words) or (text is not None and not words):
        usage(f"--brokers {text}: broker ids are numbers", "for example --brokers 1,2,3")
    return sorted({int(word) for word in words})


# Settings

Topic = Annotated[str | None, typer.Option("--topic", "-t", metavar="NAME", help="Settings of this topic.")]
BrokerOption = Annotated[str | None, typer.Option("--broker", metavar="ID", help="Settings of this broker.")]
AllBrokers = Annotated[bool, typer.Option("--all-brokers", help="Run-time defaults of all brokers.")]
BrokerLogger = Annotated[
    str | None, typer.Option("--broker-logger", metavar="ID", help="Levels of this broker's loggers.")
]


@configs_app.command("describe")
def configs_describe(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Settings to explain.")] = None,
    topic: Topic = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokers = False,
    logger: BrokerLogger = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include settings at their default.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show settings: their values, where these come from, and what they mean.

    [bold]Examples[/bold]

    kavka configs describe --topic orders

    kavka configs describe --broker 1 log.retention.ms log.segment.bytes
    """
    from kavka.cli.configs import describe

    describe(
        bootstrap,
        topic=topic,
        broker=broker,
        all_brokers=all_brokers,
        logger=logger,
        names=names or [],
        everything=everything,
        as_json=as_json,
    )


@configs_app.command("set")
def configs_set(
    assignments: Annotated[
        list[str], typer.Argument(metavar="NAME=VALUE", help="name=value; a list also name+=value and name-=value.")
    ],
    topic: Topic = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokers = False,
    logger: BrokerLogger = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Change settings at run time, all or none.

    [bold]Examples[/bold]

    kavka configs set --topic orders retention.ms=3600000 cleanup.policy+=compact

    kavka configs set --all-brokers log.cleaner.threads=2

    kavka configs set --broker-logger 1 kavka.controller=DEBUG
    """
    from kavka.cli.configs import change

    change(
        bootstrap,
        topic=topic,
        broker=broker,
        all_brokers=all_brokers,
        logger=logger,
        assignments=assignments,
        unset=[],
        dry_run=dry_run,
        as_json=as_json,
    )


@configs_app.command("unset")
def configs_unset(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Settings to remove.")],
    topic: Topic = None,
    broker: BrokerOption = None,
    all_brokers: AllBrokers = False,
    logger: BrokerLogger = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove settings that were set at run time.

    [bold]Example[/bold]

    kavka configs unset --topic orders retention.ms
    """
    from kavka.cli.configs import change

    change(
        bootstrap,
        topic=topic,
        broker=broker,
        all_brokers=all_brokers,
        logger=logger,
        assignments=[],
        unset=names,
        dry_run=dry_run,
        as_json=as_json,
    )


app.add_typer(topics_app, name="topics", rich_help_panel=DATA)
app.add_typer(configs_app, name="configs", rich_help_panel=DATA)
app.add_typer(groups_app, name="groups", rich_help_panel=CHANGE)
app.add_typer(transactions_app, name="transactions", rich_help_panel=CHANGE)
app.add_typer(reassign_app, name="reassign", rich_help_panel=CHANGE)
app.add_typer(features_app, name="features", rich_help_panel=CHANGE)
app.add_typer(records_app, name="records", rich_help_panel=DATA)
app.add_typer(console_commands.console_app, name="console", rich_help_panel=OTHER)
app.add_typer(spark_app, name="spark", rich_help_panel=OTHER)
app.add_typer(pipeline_app, name="pipeline", rich_help_panel=OTHER)

# Features, records, log directories

Levels = Annotated[list[str], typer.Argument(metavar="FEATURE=LEVEL", help="Features with the levels wanted.")]


@features_app.command("describe")
def features_describe(as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Show the features that the cluster knows, the levels in force, and those that the brokers support.

    [bold]Example[/bold]

    kavka features describe
    """
    from kavka.cli.features import describe

    describe(bootstrap, as_json=as_json)


@features_app.command("upgrade")
def features_upgrade(
    levels: Levels, dry_run: DryRun = False, as_json: Json = False, bootstrap: Bootstrap = None
) -> None:
    """Raise features to higher levels.

    [bold]Example[/bold]

    kavka features upgrade transaction.version=2
    """
    from kavka.cli.features import update

    update(bootstrap, levels, is_upgrade=True, is_unsafe=False, dry_run=dry_run, as_json=as_json)


@features_app.command("downgrade")
def features_downgrade(
    levels: Levels,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Even if data of the higher level is lost.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Lower features to other levels; 0 switches one off.

    [bold]Example[/bold]

    kavka features downgrade group.version=0
    """
    from kavka.cli.features import update

    update(bootstrap, levels, is_upgrade=False, is_unsafe=unsafe, dry_run=dry_run, as_json=as_json)


@records_app.command("delete")
def records_delete(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", "-p", min=0, metavar="N", help="Only this partition; may be repeated."),
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", min=0, metavar="OFFSET", help="Records before this offset.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All records that are there now.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete the oldest records of a topic.

    [bold]Examples[/bold]

    kavka records delete orders --all

    kavka records delete orders --partition 3 --before 1200 --yes
    """
    from kavka.cli.records import delete

    delete(bootstrap, topic, partitions=partition or [], before=before, everything=everything, yes=yes, as_json=as_json)


@app.command("log-dirs", rich_help_panel=LOOK)
def log_dirs(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Show each replica of these topics.")
    ] = None,
    broker: Annotated[int | None, typer.Option("--broker", min=0, metavar="ID", help="Only this broker.")] = None,
    move: Annotated[
        list[str] | None,
        typer.Option("--move", metavar="PARTITION", help="A replica to move, such as orders-3, on --broker."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="DIRECTORY", help="The log directory to move it to.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show the brokers' log directories and their content, or move replicas between them.

    [bold]Examples[/bold]

    kavka log-dirs

    kavka log-dirs orders --broker 1

    kavka log-dirs --move orders-3 --broker 1 --to /data/kafka-2
    """
    from kavka.cli import log_dirs as commands

    if move:
        commands.move(bootstrap, move, broker=broker, directory=to, as_json=as_json)
    else:
        commands.describe(bootstrap, topics or [], broker=broker, as_json=as_json)


# Groups


GroupIds = Annotated[list[str], typer.Argument(metavar="GROUP", help="Ids of groups.")]
GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="Id of a group.")]
GroupTopics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", metavar="NAME[:PARTITION,...]", help="A topic, or some of its partitions."),
]


@transactions_app.command("list")
def transactions_list(
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only ids in this state: Ongoing, Empty, ...")
    ] = None,
    longer_than_ms: Annotated[
        int | None,
        typer.Option("--running-longer-than-ms", metavar="MS", help="Only transactions open for longer than this."),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="REGEX", help="Only ids that match as a whole.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List transactional ids with their coordinator, producer id and state.

    [bold]Examples[/bold]

    kavka transactions list

    kavka transactions list --state Ongoing --running-longer-than-ms 60000
    """
    from kavka.cli.transactions import list_transactions

    list_transactions(bootstrap, states=state or [], longer_than_ms=longer_than_ms, pattern=pattern, as_json=as_json)


@transactions_app.command("describe")
def transactions_describe(
    transactional_ids: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL-ID", help="Transactional ids.")],
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show transactional ids: state, producer, time-out, partitions.

    [bold]Examples[/bold]

    kavka transactions describe orders-to-bills
    """
    from kavka.cli.transactions import describe

    describe(bootstrap, transactional_ids, as_json=as_json)


@transactions_app.command("describe-producers")
def transactions_describe_producers(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, metavar="N", help="Only this partition.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show the producers of a topic's partitions, and where their open transactions begin.

    [bold]Examples[/bold]

    kavka transactions describe-producers orders --partition 0
    """
    from kavka.cli.transactions import describe_producers

    describe_producers(bootstrap, topic, partition, as_json=as_json)


@transactions_app.command("find-hanging")
def transactions_find_hanging(
    topic: Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Only this topic.")] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", min=0, metavar="N", help="Only this partition of it.")
    ] = None,
    max_timeout_ms: Annotated[
        int, typer.Option("--max-timeout-ms", min=0, metavar="MS", help="The cluster's transaction.max.timeout.ms.")
    ] = 900_000,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Find open transactions that no coordinator will end.

    [bold]Examples[/bold]

    kavka transactions find-hanging

    kavka transactions find-hanging --topic orders
    """
    from kavka.cli.transactions import find_hanging

    find_hanging(bootstrap, topic, partition, max_timeout_ms=max_timeout_ms, as_json=as_json)


@transactions_app.command("abort")
def transactions_abort(
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic.")],
    partition: Annotated[int, typer.Option("--partition", min=0, metavar="N", help="The partition.")],
    start_offset: Annotated[
        int, typer.Option("--start-offset", min=0, metavar="OFFSET", help="Where the transaction begins.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Abort the transaction that begins at an offset of a partition, whatever its coordinator says.

    [bold]Examples[/bold]

    kavka transactions abort --topic orders --partition 0 --start-offset 1042
    """
    from kavka.cli.transactions import abort

    abort(bootstrap, topic, partition, start_offset, yes=yes, as_json=as_json)


@transactions_app.command("force-terminate")
def transactions_force_terminate(
    transactional_id: Annotated[str, typer.Argument(metavar="TRANSACTIONAL-ID", help="The transactional id.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Fence the producer of a transactional id, and abort its open transaction.

    [bold]Examples[/bold]

    kavka transactions force-terminate orders-to-bills
    """
    from kavka.cli.transactions import force_terminate

    force_terminate(bootstrap, transactional_id, yes=yes, as_json=as_json)


@groups_app.callback(invoke_without_command=True)
def groups(
    context: typer.Context,
    wants_list: Annotated[bool, typer.Option("--list", hidden=True)] = False,
    bootstrap: BootstrapHabit = None,
) -> None:
    """List and describe groups, reset what they committed, delete groups and offsets."""
    if wants_list:
        groups_list(bootstrap=bootstrap)
    elif context.invoked_subcommand is None:
        usage("groups: which command?", "`kavka groups --help` shows commands")


@groups_app.command("list")
def groups_list(
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only groups in this state: Empty, Stable, ...")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--type", metavar="classic|consumer", help="Only groups of this protocol.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List groups with their type, protocol and state.

    [bold]Examples[/bold]

    kavka groups list

    kavka groups list --state Empty --type consumer --json
    """
    from kavka.cli.groups import list_groups

    list_groups(bootstrap, states=state or [], kinds=kind or [], as_json=as_json)


@groups_app.command("describe")
def groups_describe(
    groups: GroupIds,
    members: Annotated[
        bool, typer.Option("--members", help="Show members and their partitions instead of offsets.")
    ] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show a group's partitions: what is committed, how far it lags, who reads them.

    [bold]Examples[/bold]

    kavka groups describe readers

    kavka groups describe readers --members
    """
    from kavka.cli.groups import describe

    describe(bootstrap, groups, members=members, as_json=as_json)


@groups_app.command("reset-offsets")
def groups_reset_offsets(
    group: GroupId,
    topic: GroupTopics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics that the group has committed offsets for.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To what is committed (with --export).")] = False,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, metavar="OFFSET", help="To this offset.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="N records on, or back: -100.")
    ] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="TIME", help="To the first record from 2026-11-21T10:42 on.")
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option("--by-duration", metavar="DURATION", help="To the first record since 2h, 7d or P1DT2H."),
    ] = None,
    from_file: Annotated[
        str | None, typer.Option("--from-file", metavar="FILE", help="Lines of topic,partition,offset.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Set the offsets instead of only showing them.")] = False,
    export: Annotated[bool, typer.Option("--export", help="Print lines for --from-file.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show where a group's offsets would be set to; set them with --execute.

    [bold]Examples[/bold]

    kavka groups reset-offsets readers --topic orders --to-earliest

    kavka groups reset-offsets readers --topic orders:0,3 --shift-by -100 --execute

    kavka groups reset-offsets readers --all-topics --by-duration 2h --execute
    """
    from kavka.cli.groups import Reset, reset_offsets

    reset = Reset(to_earliest, to_latest, to_current, to_offset, shift_by, to_datetime, by_duration, from_file)
    reset_offsets(
        bootstrap, group, topic or [], reset, all_topics=all_topics, execute=execute, export=export, as_json=as_json
    )


@groups_app.command("delete")
def groups_delete(groups: GroupIds, as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Delete groups without members, with all that they committed.

    [bold]Example[/bold]

    kavka groups delete readers
    """
    from kavka.cli.groups import delete

    delete(bootstrap, groups, as_json=as_json)


@groups_app.command("delete-offsets")
def groups_delete_offsets(
    group: GroupId,
    topic: Annotated[
        list[str], typer.Option("--topic", "-t", metavar="NAME[:PARTITION,...]", help="A topic, or partitions of it.")
    ],
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Delete the offsets that a group committed for topics that none of its members reads.

    [bold]Example[/bold]

    kavka groups delete-offsets readers --topic orders:2
    """
    from kavka.cli.groups import delete_offsets

    delete_offsets(bootstrap, group, topic, as_json=as_json)


def _named(names: Sequence[str] | None, habit: Sequence[str] | None, what: str) -> list[str]:
    """Topics, as arguments or as Kafka's tools take them."""
    named = [*(names or []), *(habit or [])]
    if not named:
        usage("which topic?", f"for example kavka topics {what} orders")
    return named


def _assignments(texts: Sequence[str] | None) -> dict[str, str]:
    from kavka.config.properties import parse_assignments
    from kavka.errors import ConfigError

    try:
        return parse_assignments(texts or [])
    except ConfigError as problem:
        usage(f"--set: {problem}", "for example --set retention.ms=3600000")


def _log_level(level: str) -> None:
    if level not in LOG_LEVELS:
        usage(f"--log-level: unknown level {level!r}", f"choose {', '.join(LOG_LEVELS[:-1])} or {LOG_LEVELS[-1]}")
