"""`kavka pipeline`: pipelines on Spark, begun, checked, run, watched and told of.

Decides names, options and help; what a run shows is `pipeline_report`'s, what it does `kavka_spark.pipelines`'.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from kavka.cli.help import CommandLine
from kavka.cli.output import FAILED, INTERRUPTED, Failure, json_text, show_json, usage
from kavka.cli.pipelines.spark import need_spark

if TYPE_CHECKING:
    from kavka_spark.pipelines.order import Mode, Order
    from kavka_spark.pipelines.spec import PipelineSpec, SpecError

app = CommandLine(
    name="pipeline",
    help="Run pipelines on Spark, in Python and SQL.\n\n"
    "A pipeline's folder defines tables, materialized views and sinks.",
)

SpecPath = Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline.yml, or the folder that holds one.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,...",
        envvar="KAVKA_BOOTSTRAP",
        help="Brokers, instead of those in the file.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Overrides the file's configuration."),
]
Tables = Annotated[list[str] | None, typer.Option(metavar="TABLE", help="Only these tables.")]
FullRefresh = Annotated[
    list[str] | None, typer.Option("--full-refresh", metavar="TABLE", help="Empty these tables and fill them again.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, an event to a line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on standard error.")]


@app.command("init")
def init(
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="The folder to create.")] = "pipeline",
    example: Annotated[
        str | None, typer.Option("--example", "-e", metavar="NAME", help="One of the shipped pipelines; see --list.")
    ] = None,
    list_them: Annotated[bool, typer.Option("--list", help="Only list the shipped pipelines.")] = False,
    as_json: Json = False,
) -> None:
    """Create a pipeline in a new folder: a small one to start from, or a shipped one.

    [bold]Examples[/bold]

    kavka pipeline init orders

    kavka pipeline init --list

    kavka pipeline init churn --example isr-churn
    """
    from kavka_spark.pipelines.shipped import EMPTY, ExampleError, describe_examples, lay

    if list_them:
        _list_examples(describe_examples(), as_json=as_json)
        return
    try:
        files = lay(example or EMPTY, Path(directory))
    except ExampleError as problem:
        usage(str(problem), problem.next_step)
    if as_json:
        show_json({"directory": directory, "files": [str(file) for file in files]})
        return
    for file in files:
        print(file)
    print(f"\nNext: kavka pipeline check {directory}, then kavka pipeline run {directory}")


@app.command("check")
def check(
    pipeline: SpecPath = ".",
    bootstrap: Bootstrap = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Check whether a pipeline would run: its file, definitions, brokers, topics, names and columns. Runs nothing.

    [bold]Example[/bold]

    kavka pipeline check churn
    """
    _tell(_order(pipeline, "check", bootstrap, settings), as_json=as_json, quiet=quiet)


@app.command("run")
def run(
    pipeline: SpecPath = ".",
    continuous: Annotated[
        bool, typer.Option("--continuous", "-c", help="Keep one session running, for low latency.")
    ] = False,
    for_time: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="With --continuous: stop after 30s, 10m, 2h.")
    ] = None,
    refresh: Tables = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: Annotated[
        bool,
        typer.Option("--full-refresh-all", help="Empty all tables and fill them again; sinks keep what they have."),
    ] = False,
    bootstrap: Bootstrap = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Process what is new since the last run, and stop; with --continuous, keep running.

    [bold]Examples[/bold]

    kavka pipeline run churn

    kavka pipeline run churn --continuous

    kavka pipeline run churn --full-refresh changes
    """
    if not continuous and for_time is not None:
        usage("--for needs --continuous")
    if continuous and (refresh or full_refresh or full_refresh_all):
        usage("--refresh and --full-refresh do not go with --continuous", "run once without --continuous")
    from dataclasses import replace

    order = replace(
        _order(pipeline, "continuous" if continuous else "run", bootstrap, settings),
        for_s=_duration("--for", for_time),
        refresh=tuple(refresh or ()),
        full_refresh=tuple(full_refresh or ()),
        full_refresh_all=full_refresh_all,
    )
    _tell(order, as_json=as_json, quiet=quiet)


@app.command("watch")
def watch(
    pipeline: SpecPath = ".",
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="DURATION", show_default="as in the file", help="Pause between two runs."),
    ] = None,
    bootstrap: Bootstrap = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a pipeline again and again in one session, until Ctrl-C.

    [bold]Example[/bold]

    kavka pipeline watch churn --every 30s
    """
    order = _order(pipeline, "run", bootstrap, settings)
    pause_s = _duration("--every", every)
    if pause_s is None:
        pause_s = _spec(order).own.every_s
    from dataclasses import replace

    _tell(replace(order, every_s=pause_s), as_json=as_json, quiet=quiet)


@app.command("backfill")
def backfill(
    pipeline: Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline.yml, or the folder that holds one.")],
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="A flow that reads a topic.")],
    since: Annotated[
        str, typer.Option("--from", metavar="TIME|OFFSETS", help="earliest, a time, or offsets by partition as JSON.")
    ] = "earliest",
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|OFFSETS", show_default="where the flow began", help="Before this time, or these offsets."
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    settings: Settings = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Read what a topic held before its flow began, and what is new, into the same table or topic.

    Ranges that the flow has read already are refused: their rows would be there twice. If a backfill is killed, the
    next run continues it.

    [bold]Examples[/bold]

    kavka pipeline backfill orders orders --from 2026-11-01 --to 2026-11-02

    kavka pipeline backfill orders orders --from '{"orders": {"0": 0}}'
    """
    from dataclasses import replace

    order = _order(pipeline, "run", bootstrap, settings)
    sides = (_backfill_side("--from", since), "" if to is None else _backfill_side("--to", to))
    _check_backfill(*sides)
    _tell(replace(order, backfill=(flow, *sides)), as_json=as_json, quiet=quiet)


@app.command("status")
def status(
    pipeline: SpecPath = ".",
    as_json: Json = False,
) -> None:
    """Show the last runs of a pipeline, and what its flows did in the last one. Starts no Spark, and needs no broker.

    [bold]Example[/bold]

    kavka pipeline status churn
    """
    from kavka.cli.pipelines.pipeline_report import show_status

    show_status(_spec(_order(pipeline, "run", None, None, needs_spark=False)), as_json=as_json)


def _order(
    pipeline: str, mode: Mode, bootstrap: str | None, settings: list[str] | None, *, needs_spark: bool = True
) -> Order:
    if needs_spark:
        need_spark()
    from kavka_spark.pipelines.order import Order

    return Order(pipeline, "", mode, bootstrap, tuple(settings or ()))


def _spec(order: Order) -> PipelineSpec:
    from kavka_spark.pipelines.spec import SpecError

    try:
        return order.spec()
    except SpecError as problem:
        _refuse(problem)


def _tell(order: Order, *, as_json: bool, quiet: bool) -> None:
    """Runs it, shows what happens, and exits with 1 where it failed."""
    from dataclasses import replace

    from kavka.cli.pipelines.pipeline_report import Teller
    from kavka_spark.pipelines.exports import Exports
    from kavka_spark.pipelines.runner import Runner
    from kavka_spark.pipelines.spec import SpecError

    spec = _spec(order)
    _check_before_spark(spec, as_json=as_json)
    teller = Teller(spec, order, as_json=as_json, quiet=quiet)
    interrupts = 0
    try:
        with (
            Exports(spec, teller.complain) as exports,
            Runner(spec, replace(order, spec_file=str(spec.path))) as runner,
        ):
            if exports.address and not quiet:
                teller.complain(f"Metrics for Prometheus: http://{exports.address}/metrics")
            events = runner.events()
            while True:
                try:
                    event = next(events)
                    exports.take(event)
                    teller.take(event)
                except StopIteration:
                    break
                except KeyboardInterrupt:
                    interrupts += 1
                    if interrupts > 1:
                        raise
                    runner.ask_to_stop()
                    events = runner.events()
    except KeyboardInterrupt:
        raise Failure("", status=INTERRUPTED) from None
    except SpecError as problem:
        _refuse(problem)
    finally:
        teller.end()
    if teller.problem is not None:
        raise Failure(*teller.problem, status=FAILED)
    if interrupts and order.mode == "run" and order.every_s is None:
        raise Failure("", status=INTERRUPTED)


def _check_before_spark(spec: PipelineSpec, *, as_json: bool) -> None:
    """Says in a second what Spark would take many to find."""
    from kavka_spark.pipelines.precheck import parse_problem
    from kavka_spark.pipelines.spec import SpecError

    try:
        problem = parse_problem(spec)
    except SpecError as refused:
        _refuse(refused)
    if problem is None:
        return
    if as_json:
        print(json_text({"event": "problem", **problem.as_json()}))
    raise Failure(problem.sentence, problem.next_step, status=FAILED)


def _refuse(problem: SpecError) -> NoReturn:
    usage(str(problem), problem.next_step)


def _duration(option: str, text: str | None) -> float | None:
    if text is None:
        return None
    from kavka_spark.pipelines.spec import parse_seconds

    seconds = parse_seconds(text)
    if seconds is None:
        usage(f"{option} {text}: not a duration", "write for example 500ms, 30s, 10m or 2h")
    return seconds


def _backfill_side(option: str, text: str) -> str:
    """As the source takes it: `earliest`, ms since 1970, or JSON."""
    from kavka.cli.times import parse_time

    if text.strip() == "earliest" and option == "--from":
        return "earliest"
    return text if text.lstrip().startswith("{") else str(parse_time(text))


def _check_backfill(since: str, to: str) -> None:
    """Says in a second what the source would refuse once Spark has started."""
    from kavka.errors import ConfigError
    from kavka_spark.source_options import backfill_of

    try:
        backfill_of({"kavka.backfill.from": since} | ({"kavka.backfill.to": to} if to else {}))
    except ConfigError as problem:
        usage(str(problem))


def _list_examples(examples: dict[str, str], *, as_json: bool) -> None:
    from kavka.cli.output import Table, show

    if as_json:
        show_json(examples)
        return
    table = Table(["example", "what it does"])
    for name, what in examples.items():
        table.add(name, what)
    show(table)
