"""`kavka quorum-vs-isr`: in-sync replicas and a majority quorum on the same faults and delays.

Decides the form of the report. The model and its assumptions are `studies.quorum_vs_isr`'s.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from kavka.cli.output import Table, note, show, usage, write_file

if TYPE_CHECKING:
    from kavka.studies.quorum_vs_isr import Circumstances


def quorum_vs_isr(circumstances: Circumstances, *, plot: str | None, as_json: bool) -> None:
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
