"""Transformer: one process that consumes, transforms and produces in transactions, to be killed at any moment.

`python -m chaos.transformer --help`. Several of them are a consumer group, of either protocol; each has a transactional
id of its own, with which it is started again. A transaction has the records of one draw, 10 to 100, and the group's
offsets; some are aborted on purpose. What a record of partition P becomes is written to partition P of the output.

Decides when the application begins a transaction anew, and when it gives up: an error that the client calls fatal, or
that did not pass in PATIENCE_S, ends the process with FAILED, and whoever started it starts it again.

I1  What was read is either in a committed transaction with its offsets, or it is read again: after an abort, and when
    the assignment changed under a draw, reading goes on from what the group committed. So it does where a draw goes
    back in a partition, which nobody asked for: librdkafka 2.16 was seen to give 38 to 44, then 0 to 43, in one call.
I2  An outcome is noted in the journal only when the client was told it.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.chaos.outputs import Event, Journal, Output, Transaction, encoded_output
from tests.chaos.workload import CLIENT, decoded

FEWEST, MOST = 10, 100
DRAW_S = 0.4
LONGEST_WORK_S = 0.5
"""What transforming takes, up to: time for a kill in the middle of a transaction."""
ABORTED_SHARE = 0.15
CALL_S = 30.0
PATIENCE_S = 120.0
FAILED = 3
SESSION_TIMEOUT_MS = 6000


class MustAbort(Exception):
    """The client says that this transaction has to be aborted."""


class Transformer:
    """`run` until `stop`. Raises KafkaException where the process cannot go on."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._input, self._output = arguments.input, arguments.output
        self._journal = Journal(arguments.journal)
        self._writer, self._transactions = time.time_ns(), 0
        self._random = random.Random(self._writer)
        self._stopping = self._reassigned = False
        self._producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": arguments.bootstrap,
                "transactional.id": arguments.transactional_id,
                "transaction.timeout.ms": arguments.transaction_timeout_ms,
                "linger.ms": 5,
                "retry.backoff.ms": 50,
            }
        )
        group: dict[str, Any] = {"group.protocol": arguments.protocol}
        if arguments.protocol == "classic":
            group |= {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 1000}
            group |= {"partition.assignment.strategy": "cooperative-sticky"}
        self._consumer = Consumer(
            {
                **CLIENT,
                **group,
                "bootstrap.servers": arguments.bootstrap,
                "group.id": arguments.group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "check.crcs": True,
                "fetch.wait.max.ms": 200,
            }
        )

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        self._until_done(lambda: self._producer.init_transactions(CALL_S))
        self._consumer.subscribe([self._input], on_assign=self._on_change, on_revoke=self._on_change)
        while not self._stopping:
            messages = self._draw()
            if not messages:
                continue
            try:
                self._transact(messages)
            except MustAbort:
                self._abort()
        self._consumer.close()

    # -- reading

    def _on_change(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self._reassigned = True

    def _draw(self) -> list[Message]:
        """What is there within a moment, or nothing where the assignment changed meanwhile: what was drawn before may
        be another member's by now, and what was given up may have come back at an earlier offset."""
        self._reassigned = False
        messages = self._consumer.consume(self._random.randint(FEWEST, MOST), DRAW_S)
        if self._reassigned:
            self._rewind()
            return []
        if goes_back(messages):
            print("read backwards within one draw: from what is committed, again", flush=True)
            self._rewind()
            return []
        return [message for message in messages if message.error() is None]

    def _rewind(self) -> None:
        """Every assigned partition to what the group committed there."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                assigned = self._consumer.assignment()
                for place in self._consumer.committed(assigned, CALL_S) if assigned else ():
                    if place.error is not None:
                        raise KafkaException(place.error)
                    if place.offset < 0:
                        place.offset = 0  # Inputs are never deleted; "the beginning" is asked for, which takes time.
                    self._consumer.seek(place)
                return
            except KafkaException:
                # Not being fetched yet or no more, or the offsets are pending: the next look knows better.
                if time.monotonic() > deadline or self._stopping:
                    raise
                self._consumer.poll(0.1)

    # -- transactions

    def _transact(self, messages: list[Message]) -> None:
        self._transactions += 1
        transaction = Transaction(self._writer, self._transactions)
        is_to_be_aborted = self._random.random() < ABORTED_SHARE
        self._journal.note(Event.BEGUN, transaction)
        self._producer.begin_transaction()
        ends: dict[int, int] = {}
        for message in messages:
            partition, offset, source = message.partition(), message.offset(), decoded(message.value())
            if partition is None or offset is None or source is None:
                raise ValueError(f"not an input: {partition}@{offset}: {message.value()!r}")
            ends[partition] = offset + 1
            output = Output(source, partition, offset, transaction, len(messages), is_to_be_aborted)
            self._producer.produce(self._output, encoded_output(output), partition=partition)
            self._producer.poll(0)
        self._producer.poll(self._random.uniform(0, LONGEST_WORK_S))
        offsets = [TopicPartition(self._input, partition, offset) for partition, offset in sorted(ends.items())]
        if is_to_be_aborted and self._random.random() < 0.5:  # all of it is in the log; else what happens to be
            self._producer.flush(CALL_S)
        if not is_to_be_aborted or self._random.random() < 0.5:
            members = self._consumer.consumer_group_metadata()
            self._until_done(lambda: self._producer.send_offsets_to_transaction(offsets, members, CALL_S))
        if is_to_be_aborted:
            raise MustAbort
        self._until_done(lambda: self._producer.commit_transaction(CALL_S))
        self._journal.note(Event.COMMITTED, transaction)

    def _abort(self) -> None:
        self._until_done(lambda: self._producer.abort_transaction(CALL_S))
        self._journal.note(Event.ABORTED, Transaction(self._writer, self._transactions))
        self._rewind()

    def _until_done(self, call: Callable[[], object]) -> None:
        """Calls again what may be called again. Raises MustAbort, KafkaException."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                call()
                return
            except KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    print(f"must abort: {error}", flush=True)
                    raise MustAbort from failure
                if not error.retriable() or time.monotonic() > deadline:
                    raise
                print(f"again: {error}", flush=True)


def goes_back(messages: Sequence[Message]) -> bool:
    """Whether an offset is at or below one before it in the same partition."""
    last: dict[int | None, int] = {}
    for message in messages:
        offset = message.offset()
        if message.error() is None and offset is not None:
            if offset <= last.get(message.partition(), -1):
                return True
            last[message.partition()] = offset
    return False


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos.transformer", description="Consumes, transforms, produces.")
    for name in ("bootstrap", "input", "output", "group", "transactional-id"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--protocol", choices=["classic", "consumer"], default="classic", help="of the group")
    parser.add_argument("--transaction-timeout-ms", type=int, default=10_000)
    parser.add_argument("--journal", type=Path, required=True)
    return parser.parse_args(arguments)


def main() -> int:
    transformer = Transformer(parse(sys.argv[1:]))
    signal.signal(signal.SIGTERM, lambda *_: transformer.stop())
    try:
        transformer.run()
    except (KafkaException, MustAbort) as failure:
        print(f"cannot go on: {failure!r}", flush=True)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
