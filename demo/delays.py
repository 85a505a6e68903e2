"""Delays: what the pipeline of the demo has to find, computed straight from the flights.

It decides what the right answer is; it reads no broker and knows no Spark. Per carrier and hour: how many flights, how
many departed, minutes of delay.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from demo.flights import Flight, flights_file

HOUR_MS = 3_600_000


class Delay(NamedTuple):
    """One row of the result. `hour_ms` since 1970. None where no flight has a number."""

    hour_ms: int
    carrier: str
    name: str
    flights: int
    departed: int
    departure_delay_minutes: int | None
    worst_departure_delay: int | None
    arrival_delay_minutes: int | None


def airlines_file() -> Path:
    return flights_file().parent / "airlines.csv"


def read_airlines(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8") as file:
        return {line["carrier"]: line["name"] for line in csv.DictReader(file)}


def delays_of(flights: Sequence[Flight], airlines: Mapping[str, str]) -> list[Delay]:
    """The rows in order."""
    hours: dict[tuple[int, str], list[dict[str, str]]] = defaultdict(list)
    for flight in flights:
        fields = json.loads(flight.value)
        hours[flight.timestamp_ms // HOUR_MS * HOUR_MS, fields["carrier"]].append(fields)
    return sorted(
        _delay(hour_ms, carrier, airlines[carrier], of_hour)
        for (hour_ms, carrier), of_hour in hours.items()
        if carrier in airlines
    )


def _delay(hour_ms: int, carrier: str, name: str, flights: Iterable[Mapping[str, str]]) -> Delay:
    of_hour = list(flights)
    departures = [int(float(each["dep_delay"])) for each in of_hour if each["dep_delay"] not in ("", "NA")]
    arrivals = [int(float(each["arr_delay"])) for each in of_hour if each["arr_delay"] not in ("", "NA")]
    return Delay(
        hour_ms,
        carrier,
        name,
        len(of_hour),
        len(departures),
        sum(departures) if departures else None,
        max(departures, default=None),
        sum(arrivals) if arrivals else None,
    )


def delay_of_row(row: Mapping[str, Any]) -> Delay:
    """A row as Parquet has it, or a record's JSON, which leaves out what is null and has times as text."""
    hour = row["hour"]
    moment = datetime.fromisoformat(hour) if isinstance(hour, str) else hour
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Delay(
        round(moment.timestamp() * 1000),
        row["carrier"],
        row["name"],
        row["flights"],
        row["departed"],
        row.get("departure_delay_minutes"),
        row.get("worst_departure_delay"),
        row.get("arrival_delay_minutes"),
    )


def difference(found: Sequence[Delay], expected: Sequence[Delay]) -> str:
    """What is not the same, as a sentence; empty where every row is there, once and right."""
    rows = sorted(found, key=_order)
    wanted = sorted(expected, key=_order)
    if rows == wanted:
        return ""
    doubled = len(rows) - len(set(rows))
    missing, strange = set(wanted) - set(rows), set(rows) - set(wanted)
    example = min(missing or strange, key=_order, default=None)
    return (
        f"{len(rows):,} rows instead of {len(wanted):,}: {len(missing):,} are missing, {len(strange):,} are others, "
        f"{doubled:,} are there again; such as {example}"
    )


def _order(delay: Delay) -> tuple[int, str]:
    return delay.hour_ms, delay.carrier
