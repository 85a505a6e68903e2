"""The report of `kavka quorum-vs-isr`: rows, sentences and a page.

Decides which figures are shown, and which sentences they allow. Must not know how they came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.studies import plots
from kavka.studies.quorum_vs_isr import Circumstances, Drawn, SchemeOutcome

HEADINGS: Final = ("scheme", "replicas", "available", "commit p50", "commit p99", "commit max", "acknowledged", "lost")
SHARES: Final = tuple(number / 500 for number in range(400, 496))
"""Below it the curves are one, above it they leave the drawing; the table has the greatest."""


def row_of(outcome: SchemeOutcome) -> list[str]:
    lost = f"{outcome.lost:,}" + (f" ({outcome.losses} times)" if outcome.losses > 1 else "")
    return [
        outcome.scheme.name,
        str(outcome.scheme.replicas),
        f"{outcome.availability:.3%}",
        f"{outcome.latency_ms(0.5):,.1f} ms",
        f"{outcome.latency_ms(0.99):,.1f} ms",
        f"{outcome.latency_ms(1.0):,.0f} ms",
        f"{outcome.acknowledged:,}",
        lost,
    ]


def conclusions(outcomes: Sequence[SchemeOutcome], failures: int) -> list[str]:
    """What the figures say about the article's claims, for or against them."""
    few, unclean, many, quorum = outcomes
    sentences = [
        f"to survive {failures} failure{'s' if failures > 1 else ''} the ISR keeps {few.scheme.replicas} copies, the "
        f"quorum {quorum.scheme.replicas}",
        f"half of the writes were committed within {few.latency_ms(0.5):.1f} ms by the {few.scheme.name}, "
        f"{many.latency_ms(0.5):.1f} ms by the {many.scheme.name}, which wait for their slowest replica, and "
        f"{quorum.latency_ms(0.5):.1f} ms by the {quorum.scheme.name}, which waits for its "
        f"{_nth(quorum.scheme.quorum)} fastest; 99 % within {few.latency_ms(0.99):.0f}, "
        f"{many.latency_ms(0.99):.0f} and {quorum.latency_ms(0.99):.0f} ms",
        f"writes were acknowledged {few.availability:.3%} of the time by the {few.scheme.name}, "
        f"{many.availability:.3%} by the {many.scheme.name}, {quorum.availability:.3%} by the {quorum.scheme.name}",
    ]
    sentences += [
        f"the {outcome.scheme.name} lost {outcome.lost:,} acknowledged records: {_why(outcome)}"
        for outcome in (few, many, quorum)
        if outcome.lost
    ]
    if unclean.lost > few.lost:
        sentences.append(
            f"unclean elections bought {unclean.availability - few.availability:.3%} more availability with "
            f"{unclean.lost - few.lost:,} more acknowledged records"
        )
    if not any(outcome.lost for outcome in outcomes):
        sentences.append("nobody lost an acknowledged record under these faults")
    return sentences


def _nth(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _why(outcome: SchemeOutcome) -> str:
    if outcome.scheme.quorum:
        return "those of a majority that lived had lost their disks, or had not been there"
    if outcome.scheme.min_insync_replicas == 1:
        return "the last one in sync came back with an empty disk (min.insync.replicas=1 lets it acknowledge alone)"
    return (
        "the ISR had shrunk, and the last one in it came back with an empty disk; the others, who had the records, may "
        "not lead (KIP-966 is about that)"
    )


def report_page(outcomes: Sequence[SchemeOutcome], drawn: Drawn) -> str:
    circumstances = drawn.circumstances
    names = [outcome.scheme.name for outcome in outcomes]
    unavailable = [plots.Curve(outcome.scheme.name, _summed_gaps(outcome, circumstances.hours)) for outcome in outcomes]
    curves = [
        plots.Curve(outcome.scheme.name, [(100 * share, outcome.latency_ms(share)) for share in SHARES])
        for outcome in outcomes
    ]
    parts = [
        plots.listing(conclusions(outcomes, circumstances.failures)),
        plots.table(HEADINGS, [row_of(outcome) for outcome in outcomes]),
        plots.paragraph(describe(circumstances), soft=True),
        plots.lines(
            "Commit latency that so many of the writes did not exceed, up to 99 %",
            curves,
            x_unit="%",
            y_unit="ms",
        ),
        plots.bars(
            "Commit latency in ms",
            names,
            [
                ("p50", [outcome.latency_ms(0.5) for outcome in outcomes]),
                ("p99", [outcome.latency_ms(0.99) for outcome in outcomes]),
            ],
            unit=" ms",
        ),
        plots.bars("Copies of each record", names, [("copies", [float(each.scheme.replicas) for each in outcomes])]),
        plots.bars("Acknowledged records that were lost", names, [("lost", [float(each.lost) for each in outcomes])]),
        plots.lines(
            "Seconds without writes, summed; below, when each scheme took none, and who was dead",
            unavailable,
            x_unit="h",
            y_unit="s",
            bands=_bands(outcomes, drawn),
        ),
    ]
    return plots.page("In-sync replicas and majority quorum, on the same faults", parts)


def _bands(outcomes: Sequence[SchemeOutcome], drawn: Drawn) -> list[plots.Band]:
    """When each scheme took no writes, and which brokers were dead, in hours."""
    gaps = [
        plots.Band(gap.from_ms / 3_600_000, gap.until_ms / 3_600_000, outcome.scheme.name, 4)
        for outcome in outcomes
        for gap in outcome.gaps
    ]
    deaths = [
        plots.Band(outage.from_ms / 3_600_000, outage.until_ms / 3_600_000, f"broker {broker} dead", 5)
        for broker, fate in enumerate(drawn.fates)
        for outage in fate.outages
    ]
    return [*gaps, *deaths]


def _summed_gaps(outcome: SchemeOutcome, hours: float) -> list[tuple[float, float]]:
    points, total = [(0.0, 0.0)], 0.0
    for gap in outcome.gaps:
        points.append((gap.from_ms / 3_600_000, total))
        total += (gap.until_ms - gap.from_ms) / 1000
        points.append((gap.until_ms / 3_600_000, total))
    return [*points, (hours, total)]


def describe(circumstances: Circumstances) -> str:
    return (
        f"Seed {circumstances.seed}, {circumstances.hours:g} virtual hours. Each broker crashes every "
        f"{circumstances.crash_every_minutes:g} minutes on average, is back after {circumstances.repair_minutes:g}, "
        f"and has lost its disk then in {circumstances.disk_loss:.0%} of the cases; a death is noticed after "
        f"{circumstances.detect_ms / 1000:g} s."
    )
