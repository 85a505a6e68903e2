"""`kavka spark`: is this machine ready for Spark, and how does a query go on that was killed?

Decides the form of the reports; what is examined is `kavka_spark.doctor`'s, and what checkpoint and markers mean
`kavka_spark.recovery`'s. Works where pyspark is missing, and says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import FAILED, Failure, Table, show, show_json, usage
from kavka.cli.session import with_cluster
from kavka.installation import install_command

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka_spark.doctor import Finding
    from kavka_spark.recovery import Checkpoint, Progress

app = CommandLine(name="spark", help="Check Spark on this machine, and killed queries.")


@app.command("doctor")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    try_it: Annotated[
        bool, typer.Option("--try", help="Start a session too, and run a worker (about 10 seconds).")
    ] = False,
) -> None:
    """Check the versions of Spark, Java, kavka's formats, and Python on driver and workers.

    It names what does not fit, and how to fix it; the exit status is then 1.

    [bold]Examples[/bold]

    kavka spark doctor

    kavka spark doctor --try --json
    """
    from kavka_spark.doctor import Finding, Verdict, examine, is_well

    findings = examine()
    if try_it and is_well(findings):
        from kavka_spark.trial import try_session

        findings.append(try_session())
    elif try_it:
        findings.append(Finding("session", Verdict.DOUBTFUL, "not tried", "mend the above, and try again"))
    if as_json:
        show_json({"well": is_well(findings), "findings": [finding.as_json() for finding in findings]})
    else:
        _show(findings)
    if not is_well(findings):
        raise typer.Exit(FAILED)


@app.command("recover")
def recover(
    checkpoint: Annotated[
        Path | None, typer.Argument(metavar="CHECKPOINT", help="The checkpoint of a query, a directory.")
    ] = None,
    job: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Instead: exactlyOnceId of a batch job.")
    ] = None,
    topic: Annotated[
        str, typer.Option("--topic", metavar="TOPIC", help="Where batches are marked: exactlyOnceTopic.")
    ] = "__kavka_spark_batches",
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show what an exactly-once query has committed, and how to start it again.

    Use it after a query was killed in the middle of a batch. It changes nothing.

    [bold]Examples[/bold]

    kavka spark recover checkpoints/invoices

    kavka spark recover --id load-2026-11-21
    """
    if (checkpoint is None) == (job is None):
        usage("expected a checkpoint, or --id")
    need_spark()
    from kavka_spark.recovery import Checkpoint, NoCheckpoint, advise, read_checkpoint

    try:
        known = Checkpoint(str(job)) if checkpoint is None else read_checkpoint(checkpoint)
    except NoCheckpoint as problem:
        usage(str(problem), problem.next_step)
    progress = with_cluster(bootstrap, lambda cluster: _progress(cluster, topic, known))
    advice = advise(known, progress)
    if as_json:
        layout = progress.layout
        show_json(
            known._asdict()
            | {"unfinished": [str(path) for path in known.unfinished]}
            | {"layout": None if layout is None else layout._asdict()}
            | {"tasks": {str(task): marker.batch for task, marker in sorted(progress.markers.items())}}
            | advice._asdict()
        )
        return
    _show_progress(progress)
    print(f"query {known.query}: {advice.found}")
    print(f"  Next: {advice.next_step}")


def _show_progress(progress: Progress) -> None:
    """The last batch of each task, if any task has committed one."""
    table = Table(["task", "last batch", "rows", "bytes"], ["task", "last batch", "rows", "bytes"])
    for task, marker in sorted(progress.markers.items()):
        table.add(task, marker.batch, marker.digest.rows, marker.digest.size_bytes)
    if progress.markers:
        show(table)
        print()


async def _progress(cluster: Cluster, name: str, known: Checkpoint) -> Progress:
    from kavka.errors import ErrorCode, RequestError
    from kavka_spark.marker_topic import MarkerTopic
    from kavka_spark.recovery import Progress

    try:
        await cluster.topic(name)
    except RequestError as missing:
        if missing.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        if known.unfinished:
            return Progress(None, {})  # A query that has planned nothing made no topic either.
        raise Failure(
            f"there is no topic {name!r}: no query has marked batches there", "name it with --topic"
        ) from missing
    markers = MarkerTopic(cluster, name)
    return Progress((await markers.look(known.query)).layout, await markers.markers_of(known.query))


def need_spark() -> None:
    """Raises Failure where the extra is not installed."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise Failure("PySpark is not installed", install_command("spark"))


def _show(findings: list[Finding]) -> None:
    from kavka_spark.doctor import Verdict

    table = Table(["part", "", "found"])
    for finding in findings:
        table.add(finding.part, finding.verdict.value, finding.found)
    show(table)
    to_mend = [finding for finding in findings if finding.verdict is not Verdict.WELL]
    print()
    for finding in to_mend:
        print(f"{finding.part}: {finding.mend}")
    wrong = sum(finding.verdict is Verdict.WRONG for finding in to_mend)
    if not to_mend:
        print("All is well.")
    elif not wrong:
        print("Nothing is wrong; the above may be in the way.")
