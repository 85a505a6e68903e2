"""ExactlyOnceRun: a consume-transform-produce application under faults, and an audit of what it left (P7).

Idempotent producers write the inputs; transformers, processes of their own with a transactional id each, are one
consumer group and write the outputs in transactions; a read_committed consumer reads them all along. Brokers and
transformers are killed and stopped, the coordinators by preference. Then all is healed, the group has to come to the
end of the inputs, and the rest is questions to a quiet cluster:

    does the last stable offset of every partition, internal ones too, reach the high watermark in a transaction's time?
    does `kavka transactions find-hanging` find nothing?
    has every input one committed output, and is nothing aborted to be seen? (output_checker.py)
    are the group's offsets the ends, and the replicas' logs the same, byte for byte?
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from tests.chaos.campaign import Campaign, Outcome, Say, bugs_in_logs, create_topics, wait_until_whole
from tests.chaos.checker import check, count
from tests.chaos.nemesis import CLIENT_FAULTS, Nemesis, usable
from tests.chaos.output_checker import Outputs, check_outputs, count_flaws
from tests.chaos.outputs import Event, Output, decoded_output, read_journals
from tests.chaos.replica_logs import differences
from tests.chaos.transformer import FAILED
from tests.chaos.workload import CONSUMER, Workload, WorkloadFailed
from tests.kit.kavka_process import ProcessFailed
from tests.kit.process_cluster import ProcessCluster, Server, eventually, kavka_command

INPUT, OUTPUT, GROUP = "inputs", "outputs", "transformers"
OFFSETS, STATE = "__consumer_offsets", "__transaction_state"
INTERNAL_PARTITIONS = 5
TRANSACTION_TIMEOUT_MS, TIME_OUTS_LOOKED_FOR_MS = 10_000, 1_000
EXACTLY_ONCE_SETTINGS = {
    "offsets.topic.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(INTERNAL_PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(TIME_OUTS_LOOKED_FOR_MS),
    # As short as a classic member's, which says so itself.
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
}
DRAIN_S = 180.0
STABLE_S = TRANSACTION_TIMEOUT_MS / 1000 + 2 * TIME_OUTS_LOOKED_FOR_MS / 1000 + 10
"""A time-out, how long it may stay unseen, and the markers of a busy machine."""
CALL_S = 30.0
FLAWS_SHOWN = 20
PROJECT = Path(__file__).parents[2]


class ExactlyOnceRun:
    """One campaign on a cluster that has started."""

    def __init__(self, campaign: Campaign, cluster: ProcessCluster, say: Say) -> None:
        self._campaign, self._cluster, self._say = campaign, cluster, say
        self._failures: list[str] = []
        create_topics(cluster, campaign, INPUT, OUTPUT)
        self._inputs = Workload(
            cluster.bootstrap,
            INPUT,
            campaign.partitions,
            producers=campaign.producers,
            rate=campaign.rate,
            racks=(),
        )
        self._transformers = [self._transformer(index) for index in range(campaign.transformers)]
        self._outputs = Outputs({})
        self._reader = LiveReader(cluster.bootstrap, campaign.partitions, self._outputs)
        self._nemesis = Nemesis(
            cluster,
            random.Random(campaign.seed),
            tolerated=campaign.brokers - campaign.min_insync,
            faults=usable(cluster, campaign.faults, has_small_disks=campaign.small_disks, has_clients=True),
            mean_interval_s=campaign.interval_s,
            say=say,
            clients=self._transformers,
            sought=(
                self._leader(OFFSETS, partition_of(GROUP)),
                self._leader(STATE, partition_of(transactional_id(0))),
            ),
        )

    def _transformer(self, index: int) -> Server:
        directory = self._cluster.directory / "transformers"
        directory.mkdir(exist_ok=True)
        command = ["env", f"PYTHONPATH={PROJECT}", sys.executable, "-m", "tests.chaos.transformer"]
        command += ["--bootstrap", self._cluster.bootstrap, "--input", INPUT, "--output", OUTPUT, "--group", GROUP]
        command += ["--transactional-id", transactional_id(index), "--protocol", self._campaign.protocol]
        command += ["--transaction-timeout-ms", str(TRANSACTION_TIMEOUT_MS)]
        command += ["--journal", str(directory / f"journal-{index}")]
        return Server(f"transformer-{index}", command, host="", port=0, directory=directory)

    def _leader(self, topic: str, partition: int) -> Callable[[], int]:
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"

        def leader() -> int:
            try:
                data: bytes = self._cluster.zookeeper.get_async(path).get(timeout=1)[0]
                return int(data.split(b'"leader":')[1].split(b",")[0])
            except (KazooException, KazooTimeoutError, IndexError, ValueError, OSError):
                return -1

        return leader

    # -- the run

    def run(self) -> Outcome:
        self._inputs.start()
        self._reader.start()
        for transformer in self._transformers:
            transformer.start()
        began_at = time.monotonic()
        try:
            self.disturb()
        except (AssertionError, ProcessFailed, KafkaException) as failure:
            self._failures.append(f"while it was disturbed: {failure}")
        faulty_s = time.monotonic() - began_at
        self._say("the faults end")
        steps = (
            self._nemesis.heal,
            self._wait_until_whole,
            self._inputs.stop_producers,
            self._read_inputs,
            self._wait_for_the_group,
            self._end_transformers,
            self._wait_until_stable,
            self._read_offsets,
            self._find_hanging,
            self._read_outputs,
            self._stop_brokers,
        )
        for step in steps:
            try:
                step()
            except (AssertionError, ProcessFailed, WorkloadFailed, KafkaException) as failure:
                self._failures.append(f"{step.__name__.strip('_')}: {failure}")
        self._reader.stop()
        return self._outcome(faulty_s)

    def disturb(self) -> None:
        """Faults, for as long as the campaign says."""
        until = time.monotonic() + self._campaign.seconds
        while time.monotonic() < until:
            self._nemesis.step()
            time.sleep(0.02)

    def _partitions(self) -> dict[str, int]:
        own = self._campaign.partitions
        return {INPUT: own, OUTPUT: own, OFFSETS: INTERNAL_PARTITIONS, STATE: INTERNAL_PARTITIONS}

    def _wait_until_whole(self) -> None:
        began_at = time.monotonic()
        wait_until_whole(self._cluster, self._partitions())
        self._say(f"every replica is in sync, {time.monotonic() - began_at:.1f} s after the last fault")

    def _read_inputs(self) -> None:
        self._ends = self._inputs.final_read(timeout_s=60 + self._campaign.seconds)
        self._say(f"the inputs end at {self._ends}")

    def _wait_for_the_group(self) -> None:
        """Until the group has committed the ends; transformers are looked after meanwhile."""
        places = [TopicPartition(INPUT, partition) for partition in self._ends]
        consumer = audit_consumer(self._cluster.bootstrap, group=GROUP)

        def done() -> bool:
            self._nemesis.heal()
            try:
                found = {one.partition: one.offset for one in consumer.committed(places, CALL_S)}
            except KafkaException as failure:
                raise AssertionError(str(failure)) from failure
            behind = {index: f"{found[index]} of {end}" for index, end in self._ends.items() if found[index] != end}
            assert not behind, behind
            return True

        began_at = time.monotonic()
        timeout_s = DRAIN_S + self._campaign.seconds
        eventually("the group comes to the end of the inputs", done, timeout_s=timeout_s, every_s=0.2)
        consumer.close()
        self._say(f"the group came to the ends {time.monotonic() - began_at:.1f} s after the inputs did")

    def _end_transformers(self) -> None:
        for transformer in self._transformers:
            transformer.terminate()
        for transformer in self._transformers:
            status = transformer.stop(timeout_s=60)
            # It may have been started a moment ago, and not listen yet; or find only now that it is fenced.
            if status not in (0, -signal.SIGTERM, FAILED):
                self._failures.append(f"{transformer.name} ended with {status}: {transformer.log_tail(lines=6)}")

    def _wait_until_stable(self) -> None:
        """No open transaction anywhere."""
        consumers = [
            audit_consumer(self._cluster.bootstrap, isolation=isolation)
            for isolation in ("read_committed", "read_uncommitted")
        ]
        places = [TopicPartition(name, index) for name, number in self._partitions().items() for index in range(number)]
        self._high_watermarks: dict[tuple[str, int], int] = {}

        def stable() -> bool:
            held = {}
            for place in places:
                stable_at, end = (consumer.get_watermark_offsets(place, CALL_S)[1] for consumer in consumers)
                self._high_watermarks[place.topic, place.partition] = end
                if stable_at != end:
                    held[f"{place.topic}-{place.partition}"] = f"{stable_at} of {end}"
            assert not held, held
            return True

        began_at = time.monotonic()
        eventually("every last stable offset is the high watermark", stable, timeout_s=STABLE_S, every_s=0.2)
        for consumer in consumers:
            consumer.close()
        self._say(f"no transaction is open {time.monotonic() - began_at:.1f} s after the last writer has gone")

    def _read_offsets(self) -> None:
        """What the group has done, should it not have come to the ends."""
        consumer = audit_consumer(self._cluster.bootstrap, group=GROUP)
        places = [TopicPartition(INPUT, partition) for partition in range(self._campaign.partitions)]
        found = {one.partition: max(one.offset, 0) for one in consumer.committed(places, CALL_S)}
        consumer.close()
        self._outputs.committed = found

    def _find_hanging(self) -> None:
        command = [kavka_command(), "transactions", "find-hanging", "--max-timeout-ms", "0"]
        command += ["--bootstrap", self._cluster.bootstrap]
        found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if found.returncode != 0:
            self._failures.append(f"find-hanging ended with {found.returncode}: {found.stdout}{found.stderr}")

    def _read_outputs(self) -> None:
        consumer = audit_consumer(self._cluster.bootstrap, settings={"enable.partition.eof": True})
        final = self._outputs.final
        ended: set[int] = set()
        consumer.assign([TopicPartition(OUTPUT, index, OFFSET_BEGINNING) for index in range(self._campaign.partitions)])
        deadline = time.monotonic() + 60 + self._campaign.seconds
        while len(ended) < self._campaign.partitions:
            if time.monotonic() > deadline:
                raise WorkloadFailed(f"the outputs could not be read to their ends: only {sorted(ended)}")
            for message in consumer.consume(2000, 0.5):
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    ended.add(partition)
                elif error is None:
                    take(message, final, self._outputs.alien, "final read")
        consumer.close()
        self._reader.drain(timeout_s=60)
        self._say(f"read {sum(map(len, final.values())):,} outputs")

    def _stop_brokers(self) -> None:
        for server in self._cluster.brokers.values():
            status = server.stop(timeout_s=60)
            if self._campaign.kind == "kavka" and status != 0:
                self._failures.append(f"{server.name} stopped with {status}: {server.log_tail(lines=6)}")
        for (topic, partition), end in self._high_watermarks.items():
            directories = {one: self._cluster.log_dir(one, topic, partition) for one in self._cluster.brokers}
            self._failures += [f"replicas of {topic}-{partition}: {text}" for text in differences(directories, end)]
        self._say("the replicas' logs are compared")

    # -- what came of it

    def _outcome(self, faulty_s: float) -> Outcome:
        history, outputs = self._inputs.history, self._outputs
        outputs.told = read_journals(
            transformer.directory / f"journal-{index}" for index, transformer in enumerate(self._transformers)
        )
        transactions = Counter(outputs.told.values())
        is_read = len(history.final) == self._campaign.partitions and bool(outputs.final)
        of_inputs = check(history) if is_read else []
        of_outputs = check_outputs(history, outputs) if is_read else []
        for kind, number in (*count(of_inputs).items(), *count_flaws(of_outputs).items()):
            self._failures.append(f"{number} x {kind.value}")
        self._failures += [f"inputs: {one}" for one in of_inputs[:FLAWS_SHOWN]]
        self._failures += [str(one) for one in of_outputs[:FLAWS_SHOWN]]
        self._failures += [f"a producer could not go on: {text}" for text in self._inputs.fatal]
        self._failures += bugs_in_logs(self._cluster)
        lines = [str(self._campaign), *self._lines(transactions, faulty_s)]
        return Outcome(
            self._failures, lines, history.acknowledged, len(self._nemesis.done), transactions[Event.COMMITTED]
        )

    def _lines(self, transactions: Counter[Event], faulty_s: float) -> Iterator[str]:
        history, done, outputs = self._inputs.history, self._nemesis.done, self._outputs
        final, live = (sum(map(len, readings.values())) for readings in (outputs.final, outputs.live))
        yield f"inputs: {history.acknowledged:,} acknowledged; outputs: {final:,} committed; live reads: {live:,}"
        yield (
            f"transactions: {transactions[Event.COMMITTED]:,} committed, {transactions[Event.ABORTED]:,} aborted, "
            f"{transactions[Event.BEGUN]:,} cut off, outcome not told"
        )
        yield f"faults: {len(done)}, {len(done) / faulty_s * 60:.1f} a minute"
        on_clients = sum(one.fault in CLIENT_FAULTS for one in done)
        yield f"  {on_clients} of transformers, {len(done) - on_clients} of brokers and ZooKeeper"
        for fault, number in Counter(one.fault for one in done).most_common():
            yield f"  {number:4} x {fault.value}"
        yield (
            f"ended by themselves and were started again: {len(self._nemesis.client_exits)} transformers, "
            f"{len(self._nemesis.exits)} brokers"
        )
        if self._inputs.errors:
            told = ", ".join(f"{name} {number}" for name, number in self._inputs.errors.most_common())
            yield f"errors seen by producers, all retried: {told}"


class LiveReader:
    """Reads the committed outputs while the faults go on, from the beginning, and never seeks."""

    def __init__(self, bootstrap: str, partitions: int, outputs: Outputs) -> None:
        self._bootstrap, self._partitions, self._outputs = bootstrap, partitions, outputs
        self._reading = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        self._reading.set()
        self._thread.start()

    def stop(self) -> None:
        self._reading.clear()
        self._thread.join(30)

    def drain(self, *, timeout_s: float) -> None:
        """Until it was given the last record of the final read. Raises WorkloadFailed."""
        deadline = time.monotonic() + timeout_s
        for partition, final in self._outputs.final.items():
            while len(self._outputs.live.get(partition, ())) < len(final):
                if time.monotonic() > deadline:
                    raise WorkloadFailed(f"the live reader is stuck in partition {partition} before {final[-1][0]}")
                time.sleep(0.05)

    def _read(self) -> None:
        consumer = audit_consumer(self._bootstrap)
        consumer.assign([TopicPartition(OUTPUT, index, OFFSET_BEGINNING) for index in range(self._partitions)])
        while self._reading.is_set():
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    take(message, self._outputs.live, self._outputs.alien, "live read")
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self._outputs.alien.append(f"sent away from {message.partition()}@{message.offset()}")
        consumer.close()


def take(message: Message, into: dict[int, list[tuple[int, Output]]], alien: list[str], name: str) -> None:
    partition, offset, output = message.partition(), message.offset(), decoded_output(message.value())
    assert partition is not None
    assert offset is not None
    if output is None:
        alien.append(f"{name}, {partition}@{offset}: {message.value()!r}")
    else:
        into.setdefault(partition, []).append((offset, output))


def audit_consumer(
    bootstrap: str,
    *,
    group: str = "audit",
    isolation: str = "read_committed",
    settings: dict[str, object] | None = None,
) -> Consumer:
    own = {"bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation}
    return Consumer({**CONSUMER, **own, **(settings or {})})


def transactional_id(index: int) -> str:
    return f"transformer-{index}"


def partition_of(key: str) -> int:
    """Of an internal topic, as Kafka finds a coordinator: by Java's hash of the id."""
    code = 0
    for character in key:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    signed = code - 2**32 if code >= 2**31 else code
    return abs(signed) % INTERNAL_PARTITIONS
