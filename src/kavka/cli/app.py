"""The program `kavka`: a table of its commands, and how one command line is run.

Decides which module owns a command. A module is imported when its command is called or asked for help, and not before:
the table is all that `kavka --help` needs. The module's `app` is either the group of that name or holds the command.
A summary is the first sentence of the command's own help (tests/unit/cli/test_commands_table.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple, cast

import typer

from kavka.cli.help import ClickException, CommandLine, Group, failure_of
from kavka.cli.output import INTERRUPTED, WRONG_USAGE, Failure, buffer_output, end_output, output_failure, report


class Entry(NamedTuple):
    """A command: its name, the module of kavka.cli that owns it, and what it is for."""

    name: str
    module: str
    section: str
    summary: str


RUN, LOOK, CHANGE, UNDERSTAND, PIPELINES = "Run", "Look", "Change", "Understand", "Pipelines"

TABLE: Final = (
    Entry("up", "run.up", RUN, "Start a broker, or several, on this machine."),
    Entry("server", "run.up", RUN, "Start a broker with the settings of a file."),
    Entry("host", "run.host", RUN, "Start a broker for each core of this machine."),
    Entry("container", "run.container", RUN, "Start a broker from a container's environment."),
    Entry("zookeeper", "run.zookeeper", RUN, "Start a ZooKeeper server."),
    Entry("console", "run.console", RUN, "Serve the console: web pages about clusters."),
    Entry("schema-registry", "run.schema_registry", RUN, "Serve a schema registry beside any Kafka."),
    Entry("health", "cluster.health", LOOK, "Check a cluster: score, what failed, what to do."),
    Entry("top", "cluster.top", LOOK, "Watch brokers, busy topics and groups that lag."),
    Entry("brokers", "cluster.brokers", LOOK, "Show brokers, with what each leads and stores."),
    Entry("durability", "cluster.durability", LOOK, "Show what a broker's death would lose or block now."),
    Entry("security", "security.security", LOOK, "Find what a cluster leaves open."),
    Entry("consume", "topics.consume", LOOK, "Print records of topics."),
    Entry("dump-log", "topics.dump_log", LOOK, "Show the content of log files, without a broker."),
    Entry("produce", "topics.produce", CHANGE, "Send records from standard input or files."),
    Entry("topics", "topics.topics", CHANGE, "Create, list, describe, alter and delete topics."),
    Entry("configs", "cluster.configs", CHANGE, "Show and set configs of topics, brokers, groups."),
    Entry("acls", "security.acls", CHANGE, "List, add and remove access control lists."),
    Entry("quotas", "security.quotas", CHANGE, "Limit what clients use: bytes, time, connections."),
    Entry("users", "security.users", CHANGE, "List, add and remove users and their passwords."),
    Entry("tokens", "security.tokens", CHANGE, "Create, list, renew and end delegation tokens."),
    Entry("groups", "groups.groups", CHANGE, "List, describe, reset and delete any kind of group."),
    Entry("transactions", "groups.transactions", CHANGE, "List transactions, and end those that hang."),
    Entry("records", "topics.records", CHANGE, "Delete the oldest records of topics."),
    Entry("reassign", "cluster.reassign", CHANGE, "Move partitions to other brokers."),
    Entry("log-dirs", "cluster.log_dirs", CHANGE, "Show log directories; move replicas between them."),
    Entry("elect", "cluster.elect", CHANGE, "Elect leaders: the preferred ones, or any live one."),
    Entry("features", "cluster.features", CHANGE, "Show and change the cluster's feature levels."),
    Entry("why", "understand.why", UNDERSTAND, "Explain why leaders moved, ISRs shrank, and so on."),
    Entry("trace", "understand.trace", UNDERSTAND, "Follow one record from its writer to its readers."),
    Entry("replay", "understand.replay", UNDERSTAND, "Replay what brokers recorded, decision by decision."),
    Entry("simulate", "understand.simulate", UNDERSTAND, "Run a cluster under faults in virtual time."),
    Entry("lag-policy", "understand.lag_policy", UNDERSTAND, "Compare rules for when a follower leaves the ISR."),
    Entry("quorum-vs-isr", "understand.quorum_vs_isr", UNDERSTAND, "Compare in-sync replicas with a majority quorum."),
    Entry("pipeline", "pipelines.pipeline", PIPELINES, "Run pipelines on Spark, in Python and SQL."),
    Entry("spark", "pipelines.spark", PIPELINES, "Check Spark on this machine, and killed queries."),
)


class Commands(Mapping[str, Any]):
    """The table as typer asks for it: a name gives the command, and imports its module."""

    def __getitem__(self, name: str) -> Any:
        entry = next((each for each in TABLE if each.name == name), None)
        if entry is None:
            raise KeyError(name)
        group = typer.main.get_group(import_module(f"kavka.cli.{entry.module}").app)
        return group if group.name == name else group.commands[name]

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in TABLE)

    def __len__(self) -> int:
        return len(TABLE)


class Kavka(Group):
    """The program itself, whose help comes from the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(Any, Commands())

    def summaries(self, ctx: Any) -> Iterator[tuple[str, str, str]]:
        return ((each.section, each.name, each.summary) for each in TABLE)


app = CommandLine(
    name="kavka",
    cls=Kavka,
    help="Kafka's classic core in Python: brokers, and tools that fit Apache Kafka too."
    "\n\nExamples\n\nkavka up & echo hi | kavka produce hello; kavka consume hello -e",
    add_completion=True,
)


def run(words: Sequence[str]) -> int:
    """Runs one command line through typer and returns the exit status."""
    buffer_output()
    try:
        status = _run(words)
        end_output()
        return status
    except OSError as problem:
        return _end_without_output(problem)
    except SystemExit as ended:
        # So typer ends a command whose reader has gone.
        if not isinstance(ended.__context__, OSError):
            raise
        return _end_without_output(ended.__context__)


def _end_without_output(problem: OSError) -> int:
    """The exit status. Raises what is no problem of the output."""
    failure = output_failure(problem)
    if failure is None:
        raise problem
    return report(failure)


def _run(words: Sequence[str]) -> int:
    """Raises OSError where the output cannot be written."""
    try:
        status = app(args=list(words), prog_name="kavka", standalone_mode=False)
    except Failure as failure:
        if failure.status == WRONG_USAGE and not failure.next_step:
            failure.next_step = f"`{_called(words)} --help` shows options and examples"
        return report(failure)
    except ClickException as wrong:
        return report(failure_of(wrong, _called(words)))
    except typer.Abort:
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _called(words: Sequence[str]) -> str:
    """The command of a command line: `kavka topics create`."""
    called: str = "kavka"
    commands: Mapping[str, Any] = Commands()
    for word in words:
        if word not in commands:
            break
        called += f" {word}"
        commands = getattr(commands[word], "commands", {})
    return called


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
