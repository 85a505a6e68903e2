"""`kavka spark`: is this machine ready for Spark?

Decides the form of the report; what is examined is `kavka_spark.doctor`'s. Works where pyspark is missing, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.output import FAILED, Failure, Table, show, show_json
from kavka.installation import install_command

if TYPE_CHECKING:
    from kavka_spark.doctor import Finding

app = CommandLine(name="spark", help="Check whether this machine is ready for Spark.")


@app.command("doctor")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    try_it: Annotated[
        bool, typer.Option("--try", help="Start a session too, and run a worker (some 10 seconds).")
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
