"""`kavka quorum-vs-isr`: in-sync replicas and a majority quorum on the same faults and delays.

Decides the form of the report. The model and its assumptions are `studies.quorum_vs_isr`'s.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Json, PlotFile, StudySeed
from kavka.cli.output import Table, note, show, usage, write_file

if TYPE_CHECKING:
    from kavka.studies.quorum_vs_isr import Circumstances

app = CommandLine()


@app.command("quorum-vs-isr")
def quorum_vs_isr(
    failures: Annotated[
        int, typer.Option("--failures", "-f", min=1, max=5, metavar="N", help="Failures to survive.")
    ] = 1,
    hours: Annotated[float, typer.Option("--hours", min=0.1, max=1000, metavar="H", help="Virtual hours.")] = 24,
    seed: StudySeed = 1,
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
    plot: PlotFile = None,
    as_json: Json = False,
) -> None:
    """Compare in-sync replicas with a majority quorum.

    The same faults hit f+1 in-sync replicas and a quorum of 2f+1: copies, latency, availability and loss.

    [bold]Examples[/bold]

    kavka quorum-vs-isr --plot report.html

    kavka quorum-vs-isr -f 2 --crash-every 30 --disk-loss 0.1
    """
    from kavka.studies.quorum_vs_isr import Circumstances

    compare(
        Circumstances(failures, hours, seed, write_every_ms, crash_every, repair, disk_loss, detect_ms),
        plot=plot,
        as_json=as_json,
    )


def compare(circumstances: Circumstances, *, plot: str | None, as_json: bool) -> None:
    """Prints the comparison."""
    from kavka.studies.quorum_report import HEADINGS, conclusions, describe, report_page, row_of
    from kavka.studies.quorum_vs_isr import MAX_WRITES, draw, run_scheme, schemes

    if circumstances.hours * 3_600_000 / circumstances.write_every_ms > MAX_WRITES:
        usage(f"more than {MAX_WRITES:,} writes", "take fewer --hours, or a longer --write-every")
    drawn = draw(circumstances)
    outcomes = [run_scheme(scheme, drawn) for scheme in schemes(circumstances.failures)]
    sentences = conclusions(outcomes, circumstances.failures)
    if plot is not None:
        write_file(plot, [report_page(outcomes, drawn)])
        note(f"{plot} written")
    if as_json:
        schemes_json = [outcome.as_json() for outcome in outcomes]
        print(json.dumps({**asdict(circumstances), "schemes": schemes_json, "conclusions": sentences}))
        return
    table = Table(HEADINGS, HEADINGS[1:], title=describe(circumstances))
    for outcome in outcomes:
        table.add(*row_of(outcome))
    show(table)
    print()
    for sentence in sentences:
        print(f"{sentence[0].upper()}{sentence[1:]}.")
