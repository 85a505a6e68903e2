"""Outputs: what a transformer writes for an input, and the journal of its transactions.

A value names its input (value, partition, offset) and its transaction (writer, number, how many records, and whether it
is to be aborted), so that one read of the output topic tells duplicates, torn transactions and aborted records apart.
A writer is one life of a transformer process.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tests.chaos.history import Value


class Transaction(NamedTuple):
    """A transaction, unique in a run."""

    writer: int
    number: int

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.writer}"


class Output(NamedTuple):
    """One record of the output topic. `size`: of its transaction, in records."""

    source: Value
    partition: int
    offset: int
    transaction: Transaction
    size: int
    is_to_be_aborted: bool


def encoded_output(output: Output) -> bytes:
    source, partition, offset, transaction, size, is_to_be_aborted = output
    numbers = (*source, partition, offset, *transaction, size, is_to_be_aborted)
    body = b":".join(b"%d" % number for number in numbers)
    return body + b":%08x" % zlib.crc32(body)


def decoded_output(data: bytes | None) -> Output | None:
    """None for what no transformer writes."""
    body, _, checksum = (data or b"").rpartition(b":")
    if not body or checksum != b"%08x" % zlib.crc32(body):
        return None
    producer, number, partition, offset, writer, transaction, size, aborted = map(int, body.split(b":"))
    return Output(Value(producer, number), partition, offset, Transaction(writer, transaction), size, bool(aborted))


class Event(Enum):
    """What a transformer notes. A transaction that was begun and not heard of again has an open outcome: its writer
    was killed, or told that the producer is fenced."""

    BEGUN = "begun"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Journal:
    """One line for each event, written at once, so that kill -9 takes none away."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, event: Event, transaction: Transaction) -> None:
        os.write(self._file, f"{event.value} {transaction.writer} {transaction.number}\n".encode())


def read_journals(paths: Iterable[Path]) -> dict[Transaction, Event]:
    """The last event of every transaction."""
    found: dict[Transaction, Event] = {}
    for path in paths:
        for line in path.read_text().splitlines() if path.exists() else ():
            event, writer, number = line.split()
            found[Transaction(int(writer), int(number))] = Event(event)
    return found
