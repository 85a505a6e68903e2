"""History: what clients did to one topic and what they saw, kept in a few bytes per record.

A value is unique in a run: producer and number, counted from 0 in the order in which that producer sent. It decides
nothing; `checker.py` does.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

NEVER = -1.0
"""In place of a time: it has not happened."""
UNKNOWN_OFFSET = -1
"""Acknowledged without an offset: the broker recognised a repeated batch and no longer knew where it stands."""

PRODUCER_SHIFT = 40


class Value(NamedTuple):
    """What one record carries."""

    producer: int
    number: int

    def __str__(self) -> str:
        return f"{self.producer}:{self.number}"

    @property
    def code(self) -> int:
        return self.producer << PRODUCER_SHIFT | self.number

    @classmethod
    def of_code(cls, code: int) -> Value:
        return cls(code >> PRODUCER_SHIFT, code & ((1 << PRODUCER_SHIFT) - 1))


class Producer:
    """Sends of one producer; the index is the value's number."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.partitions = array("i")
        self.sent_at = array("d")
        self.acknowledged_at = array("d")
        self.offsets = array("q")

    def __len__(self) -> int:
        return len(self.partitions)

    def send(self, partition: int, *, at: float) -> Value:
        """Notes a send before it is made; its outcome is open until `acknowledge`."""
        self.partitions.append(partition)
        self.sent_at.append(at)
        self.acknowledged_at.append(NEVER)
        self.offsets.append(UNKNOWN_OFFSET)
        return Value(self.number, len(self.partitions) - 1)

    def acknowledge(self, number: int, offset: int, *, at: float) -> None:
        """The cluster said that the record is committed. offset: UNKNOWN_OFFSET where it did not say where."""
        self.offsets[number] = offset
        self.acknowledged_at[number] = at

    def is_acknowledged(self, number: int) -> bool:
        return self.acknowledged_at[number] != NEVER


class Reads:
    """What one consumer was given of one partition, in that order, without a seek of its own."""

    def __init__(self) -> None:
        self.offsets = array("q")
        self.codes = array("q")
        self.times = array("d")
        """Of those whose time was told."""

    def read(self, offset: int, value: Value, *, at: float | None = None) -> None:
        self.offsets.append(offset)
        self.codes.append(value.code)
        if at is not None:
            self.times.append(at)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.offsets, self.codes, strict=True)

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass
class History:
    """Of one topic. `final` is what a fresh consumer reads from each partition when all is healed and quiet."""

    partitions: int
    producers: list[Producer] = field(default_factory=list)
    reads: dict[tuple[str, int], Reads] = field(default_factory=dict)
    """By consumer and partition."""
    final: dict[int, Reads] = field(default_factory=dict)
    alien: list[str] = field(default_factory=list)
    """What was read and is no value of this run, in words."""

    def producer(self) -> Producer:
        """A new one."""
        self.producers.append(Producer(len(self.producers)))
        return self.producers[-1]

    def reads_of(self, consumer: str, partition: int) -> Reads:
        return self.reads.setdefault((consumer, partition), Reads())

    def final_of(self, partition: int) -> Reads:
        return self.final.setdefault(partition, Reads())

    @property
    def sent(self) -> int:
        return sum(len(producer) for producer in self.producers)

    @property
    def acknowledged(self) -> int:
        return sum(1 for producer in self.producers for at in producer.acknowledged_at if at != NEVER)

    @property
    def read(self) -> int:
        return sum(len(reads) for reads in self.reads.values())
