"""OutputChecker: was every input transformed exactly once?

A pure function of the final read of the inputs, of what read_committed readers saw of the outputs, and of what the
transformers were told about their transactions. It knows nothing of the faults (P3, P4, P7; R7, R18 for the outputs).

    MISSING         an input has no output
    DUPLICATE       it has two
    ABORTED         a reader saw a record of a transaction that was aborted, on purpose or as its writer was told
    TORN            a part of a transaction is there and a part is not
    UNDONE          a transaction that its writer was told is committed is not there
    REORDERED       two outputs of a partition stand in another order than their inputs
    MISPLACED       an output names an input that is not what stands there, or stands in another partition
    VANISHED        a reader saw at an offset what the final read does not have there
    SKIPPED         a reader was not given a record between two others, or was sent backwards
    ALIEN           something was read that no transformer wrote, or that is damaged
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tests.chaos.history import History, Value
from tests.chaos.outputs import Event, Output, Transaction


class Flaw(Enum):
    MISSING = "missing output"
    DUPLICATE = "duplicate output"
    ABORTED = "aborted record read"
    TORN = "torn transaction"
    UNDONE = "committed transaction undone"
    REORDERED = "outputs reordered"
    MISPLACED = "misplaced output"
    VANISHED = "output read and vanished"
    SKIPPED = "output skipped"
    ALIEN = "alien output"


class Found(NamedTuple):
    """One broken promise, in words with the offsets and values concerned."""

    flaw: Flaw
    where: str

    def __str__(self) -> str:
        return f"{self.flaw.value}: {self.where}"


Reading = Sequence[tuple[int, Output]]
"""Offsets and records of one partition, as they were read."""


@dataclass
class Outputs:
    """`final` is what a fresh read_committed consumer reads when all is quiet, by partition; `live` what one read while
    the faults went on; `told` the last that a writer was told of each transaction; `committed` the group's offsets by
    partition where it did not come to the ends: what stands behind them is not missing but still to be done."""

    final: dict[int, list[tuple[int, Output]]]
    live: dict[int, list[tuple[int, Output]]] = field(default_factory=dict)
    told: Mapping[Transaction, Event] = field(default_factory=dict)
    alien: list[str] = field(default_factory=list)
    committed: Mapping[int, int] = field(default_factory=dict)


def check_outputs(inputs: History, outputs: Outputs) -> list[Found]:
    """inputs: with its final read."""
    found = [Found(Flaw.ALIEN, where) for where in outputs.alien]
    found += _check_inputs(inputs, outputs)
    found += _check_transactions(outputs)
    for partition, reading in outputs.final.items():
        found += _check_order(partition, reading)
    for partition, reading in outputs.live.items():
        found += _check_live(partition, reading, outputs.final.get(partition, []))
    return found


def count_flaws(found: Sequence[Found]) -> dict[Flaw, int]:
    return dict(Counter(one.flaw for one in found))


def _check_inputs(inputs: History, outputs: Outputs) -> Iterator[Found]:
    """One output for each record of the input topic, and none for anything else."""
    wanted = {(partition, offset): code for partition in inputs.final for offset, code in inputs.final_of(partition)}
    places: dict[tuple[int, int], list[str]] = {}
    for partition, reading in outputs.final.items():
        for offset, output in reading:
            where, source = f"{partition}@{offset}", (output.partition, output.offset)
            if wanted.get(source) != output.source.code or output.partition != partition:
                named = f"{output.source} at {output.partition}@{output.offset}"
                yield Found(Flaw.MISPLACED, f"{where} says that it was made of {named}")
            places.setdefault(source, []).append(f"{where} of {output.transaction}")
    for source, code in wanted.items():
        made = places.get(source, [])
        where = f"input {Value.of_code(code)} at {source[0]}@{source[1]}"
        if not made:
            if source[1] < outputs.committed.get(source[0], source[1] + 1):
                yield Found(Flaw.MISSING, where)
        elif len(made) > 1:
            yield Found(Flaw.DUPLICATE, f"{where}: {', '.join(made)}")


def _check_transactions(outputs: Outputs) -> Iterator[Found]:
    """All or nothing, and what the writer was told."""
    seen: Counter[Transaction] = Counter()
    sizes: dict[Transaction, int] = {}
    for reading in outputs.final.values():
        for _offset, output in reading:
            seen[output.transaction] += 1
            sizes[output.transaction] = output.size
    for name, readings in (("final read", outputs.final), ("live read", outputs.live)):
        for partition, reading in readings.items():
            for offset, output in reading:
                told = outputs.told.get(output.transaction)
                if output.is_to_be_aborted or told is Event.ABORTED:
                    yield Found(Flaw.ABORTED, f"{partition}@{offset}, {name}: {output.transaction}")
    for transaction, number in seen.items():
        if number != sizes[transaction]:
            yield Found(Flaw.TORN, f"{transaction}: {number} of {sizes[transaction]} records")
    for transaction, event in outputs.told.items():
        if event is Event.COMMITTED and not seen[transaction]:
            yield Found(Flaw.UNDONE, str(transaction))


def _check_order(partition: int, reading: Reading) -> Iterator[Found]:
    last, last_at = -1, -1
    for offset, output in reading:
        if offset <= last_at:
            yield Found(Flaw.SKIPPED, f"{partition}@{offset} after {last_at}, final read")
        if output.offset < last:
            yield Found(Flaw.REORDERED, f"{partition}@{offset}: of input {output.offset} after that of {last}")
        last, last_at = output.offset, offset


def _check_live(partition: int, reading: Reading, final: Reading) -> Iterator[Found]:
    """A reader that never seeks sees the beginning of the final read."""
    log = dict(final)
    ordered = sorted(log)
    index_of = {offset: index for index, offset in enumerate(ordered)}
    expected = 0
    for offset, output in reading:
        where = f"{partition}@{offset}, live read"
        if log.get(offset) != output:
            yield Found(Flaw.VANISHED, f"{where}: {output.source}, and {log.get(offset)} in the final read")
            continue
        if index_of[offset] != expected:
            yield Found(Flaw.SKIPPED, f"{where}: {ordered[expected]} was due" if expected < len(ordered) else where)
        expected = index_of[offset] + 1
