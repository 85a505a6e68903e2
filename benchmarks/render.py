"""Renders docs/benchmarks.md from benchmarks/results/*.json. `python -m benchmarks.render`.

It must not measure and must not judge beyond the targets: what is in the files is all that it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import PROJECT, decoder_results, growth_results, spark_results
from benchmarks.other_brokers import PEERS as OTHER_BROKERS
from benchmarks.results import Comparison, Run, Spread, compare, read, spread

DOCUMENT = PROJECT / "docs" / "benchmarks.md"
RESULTS = PROJECT / "benchmarks" / "results"
BUSY_OTHERS_PERCENT = 20
# Of runs before 2026-11-28, which did not measure it. A pair with its clients has one or two a core by itself, three
# brokers of Apache Kafka have more.
BUSY_LOAD_PER_CORE = 2
SHAPES = {"one-broker": "One broker: kavka", "three-brokers": "Three brokers: kavka"}
PEERS = {
    "kraft": "Apache Kafka, KRaft mode",
    "zk": "Apache Kafka, ZooKeeper mode",
    **{name: name for name in OTHER_BROKERS},
}

ROW_NAMES = {
    "startup": "start-up",
    "idle": "idle broker",
    "produce_100b_acks_1": "produce 100 B, acks=1",
    "produce_100b_acks_all": "produce 100 B, acks=all",
    "produce_1k_acks_1": "produce 1 KiB, acks=1",
    "produce_1k_acks_all": "produce 1 KiB, acks=all",
    "produce_1k_acks_all_java": "produce 1 KiB, acks=all, Kafka's Java producer (16 KiB batches)",
    "consume_100b": "consume 100 B",
    "consume_1k": "consume 1 KiB",
    "after_load": "after produce and consume",
    "small_requests": "one record per request, 50 in flight",
    "latency_acks_1": "one record at a time, acks=1",
    "latency_end_to_end": "one record at a time, end to end",
    "partitions_1000": "topic of 1,000 partitions",
    "tls_produce_1k": "TLS: produce 1 KiB, acks=1",
    "tls_consume_1k": "TLS: consume 1 KiB",
    "tls_small_requests": "TLS: one record per request, 50 in flight",
    "tls_small_requests_in_clear": "one record per request, 50 in flight, in clear, of the broker that has TLS",
    "tls_handshakes": "TLS 1.3 handshakes, P-256, eight clients without pause",
    "share_consume_1k": "share group, 1 KiB: one Java member, each poll accepts what the one before brought",
    "share_accept_each": "share group, 1 KiB: eight Java members, each record accepted by itself",
    "share_latency": "share group, one record at a time: from send until it is stored as accepted",
    "share_first_record": "share group that is new: from subscribe to the first record",
    "share_member_killed": "share group: end of a member until another one has its records",
    "share_idle": "500 share groups of one member, which waits at one partition",
    "cluster_share_failover": "share group: kill -9 of the leader of a partition whose records a member holds",
    "cluster_startup": "start-up of three brokers",
    "cluster_idle": "three idle brokers",
    "cluster_in_one_process": "`kavka up --brokers 3`, all in one process, beside Apache Kafka's three",
    "cluster_produce_1k": "produce 1 KiB, replication factor 3, acks=all",
    "cluster_produce_1k_java": "the same with Kafka's Java producer (16 KiB batches)",
    "cluster_after_load": "after that load",
    "cluster_latency": "one record at a time, replication factor 3, acks=all",
    "cluster_failover": "kill -9 of a broker, replication factor 3",
    "cluster_failover_controller": "kill -9 of the controller's broker",
    "cluster_partitions_1000": "topic of 1,000 partitions, replication factor 3",
    "cluster_partitions_10000": "10,000 partitions, replication factor 3",
}
FIGURE_NAMES = {
    "first_answer_s": "launch to first Metadata answer, s",
    "broker_cpu_s": "broker CPU until then, s",
    "resident_mb": "resident memory, MB",
    "cpu_percent": "CPU, % of one core",
    "records_per_s": "records/s",
    "megabytes_per_s": "MB/s",
    "broker_cpu_s_per_million": "broker CPU, s per million (= us each)",
    "broker_user_s_per_million": "- of it user",
    "broker_system_s_per_million": "- of it system",
    "client_user_s_per_million": "client user CPU, s per million",
    "client_system_s_per_million": "client system CPU, s per million",
    "p50_us": "p50, us",
    "p90_us": "p90, us",
    "p99_us": "p99, us",
    "max_us": "slowest, us",
    "answered_s": "CreateTopics answered, s",
    "every_log_answers_s": "every log answers ListOffsets, s",
    "kb_per_partition": "memory per partition, KB",
    "broker_user_s": "broker user CPU, s",
    "broker_system_s": "broker system CPU, s",
    "all_answer_s": "launch until all answer, s",
    "brokers_cpu_s": "CPU of all until then, s",
    "brokers_cpu_s_per_million": "CPU of all brokers, s per million",
    "brokers_user_s_per_million": "- of it user",
    "brokers_system_s_per_million": "- of it system",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "all_acknowledge_s": "until every partition acknowledges, s",
    "median_partition_s": "- the median partition",
    "new_leaders_take_records_s": "until the new leaders take records (a client without back-offs), s",
    "led_by_it_s": "- the slowest that it led",
    "not_led_by_it_s": "- the slowest that it only followed",
    "full_isr_after_restart_s": "restart until it is in sync everywhere, s",
    "errors": "records given up by the client",
    "kb_per_replica": "memory per replica, KB",
    "median_ms": "median, ms",
    "max_ms": "slowest, ms",
    "kb_per_member": "memory of a group, its member, connection and share-partition, KB",
    "heartbeats_per_s": "heartbeats/s, one after another",
    "first_redelivery_s": "until another member has one of them (Java, default back-offs), s",
    "added_by_tls_us": "broker CPU that TLS adds to each, us",
    "handshakes_per_s": "handshakes/s",
    "broker_cpu_us_each": "broker CPU of each, us",
    "brokers_user_s": "user CPU of all brokers, s",
    "brokers_system_s": "system CPU of all brokers, s",
    "controller_failover_s": "kill -9 of the controller until all have a live leader, s",
}

OPENING = """# Benchmarks

This page compares kavka with Apache Kafka: one broker of each, and three of each. They were measured in turn (A B A
B) on one machine, with the same load generator, a C program on librdkafka ([load.c](../benchmarks/load/load.c)). In
each round, each candidate gets a new process on a fresh directory with its default settings, and is warmed up by the
same load.

* **Page cache.** Right before each row that writes, as many bytes are written and deleted, so that both candidates
  get memory for their page cache that was used before. A virtual machine gives free pages back to its host, and then
  the first use of memory costs several times as much as the copy into it. This causes most of the spread of the rows
  that write.
* **CPU seconds** are those of the broker process, user and system apart. The client's are those of the measured time.
* **TLS** (`python -m benchmarks.run tls`): a listener beside the plain one, with a P-256 certificate. Clients show
  none. The client's own encryption takes from the same cores: the clients of the handshakes (`openssl s_time`) take
  more than kavka does. Handshakes are divided by the clock's time. Until 2026-11-29 they were divided by the time that
  the clients were told to run, and those run up to a second longer: the rates were too high, for both brands.
* **Share groups** (`python -m benchmarks.run share`): the load is Apache Kafka's own consumer
  ([ShareLoad.java](../benchmarks/load/ShareLoad.java)), with its default settings, and one partition.
* **A ratio** is kavka / Apache Kafka of the same round. Its median is the figure that counts, and the one that has a
  target.

`python -m benchmarks.run --before COMMIT` measures this checkout beside kavka at another commit, in turn in one run.
Use it to show that a change costs nothing. The result is printed, and not kept here.

`python -m benchmarks.instructions` does so on a busy machine: it counts the instructions that a broker takes for a
small produce request (184,700 on 2026-11-27; 0.9 % more with `kavka.request.trace.sample=1000`, for which one request
in 1,000 keeps its stages).

`--peer kfake` and `--peer tansu` compare kavka with brokers of other projects, which do less. They are built with Go
and Rust. `--peer floor` compares it with a program in C that does the least that can be done: how much of the machine
a row leaves unused.

More is measured of kavka alone. `make bench-growth` has a section below. `python -m benchmarks.host` prints what a
second broker brings on this machine ([many-cores.md](many-cores.md)).

`make bench-partitions` has five brokers, a ZooKeeper server and the clients on the same two cores, so that each waits
for the others' processor time. On 2026-11-28, on a quiet machine, and what stood here a day before:

| what | figure | found | before | goal |
| --- | --- | --- | --- | --- |
| 25,000 topics, two replicas | a second, first tenth and last | 533 to 722 and 465 to 581 | 631 and 499 | even |
| one broker stopped in order, which leads 5,100 of them | s | 1.8 to 2.8 (seven runs) | 4.0 and 4.2 | <= 3 |
|  | a writer with acks=all waited at most, s | 0.5 to 2.0; no error | 0.75 and 1.2 | no error |
|  | started again, until it serves, s | 4.1 to 5.2 | 6.3 | <= 7 |
| 100,000 partitions; the controller killed | until another broker is the controller, s | 0.05 | 0.05 | |
|  | until every partition without a leader is known, s | 4.1 to 4.9 | 5.8 | <= 5 |
|  | started again, until it leads its 20,000, s | 5.3 to 5.8 (four runs), and 11.3 | 6.8 | <= 7 |
|  | `kavka brokers` before that, s | | 0.90 to 1.23 | <= 2 |
| 200,000 partitions, one replica | memory of a broker, MB; of a replica, bytes | | 371; 6,026 | |
|  | descriptors of a broker | | 29 | |
|  | Metadata of all, s | | 1.7 | |
|  | `kavka health`, s | | 9.0 | |
|  | all five killed and started, until all lead, s | | 56 | |

In between, full garbage collections have moved out of such bursts into quiet moments: the controller, which makes many
objects that stay, looked through all of its objects while the others waited, for 0.9 s of the 2.4 s of processor time
that a controlled shutdown took it. The broker that stops writes what its empty logs are closed with while the
controller works, and its process ends without taking ten thousand partitions' objects apart, which took about a second.

Before that day's last change the writer waited 10 to 14 s more often than not. All brokers were idle meanwhile, and
`kavka why` of the partition named the cause: a broker that leaves follows the new leader until it stops, and catches
up. It may not join the ISR, but the leader had the high watermark wait for it, as for any replica that is about to
join, until it lagged. A replica that was refused is not waited for any more. What is left is the time until the others
know that the broker is gone. What made one return take 11.3 s is not known.

What is behind rows that fall short (2026-11-27, Python 3.11, Intel Xeon; where no time is named as of a quiet machine,
instructions and CPU seconds of a busy one):

* **TLS, one record per request** reaches its goal, but two runs disagree. That of 27 November had 14,524 a second of
  kavka's and 17,557 of Apache Kafka's, 0.83; the one below has 22,435 and 7,216, 3.5. Apache Kafka took 133 us of
  broker CPU for each here, and 55 there; kavka 44 and 69. Why is not known, so take neither ratio for exact.
* **One record per request, in clear.** Side by side on a busy machine a request takes 36 us of user CPU (26 in the
  row); the commit of 21 November that this row had before takes 30, or 184,000 instructions against 169,000. What came
  since: every record of a batch is looked at, as Kafka does (6 us), and who writes is noted, for `kavka console`
  (1 us). What else was trimmed in between is in both figures.
* **Start-up, one record at a time.** The processor of these rows runs Apache Kafka's start in 2.2 s, where that of
  21 November took 6.1 s; kavka's took 0.30 s then, and takes 0.27 s now.
* **One record at a time, p99.** Garbage collection is not it: 6,000 records written one at a time to a new broker
  cause no collection, and no turn of the event loop of 100 ms. On a quiet machine (2026-11-28, 10,000 records: p50 150
  us, p99 319 us) most of the slowest hundredth takes 320 to 400 us, and comes about once in 13 ms, evenly: it is no
  pause that one could shorten. Where those 200 us go is not known.
* **One record at a time, replication factor 3, p50.** Each record takes three requests that wait for each other: the
  client's, and a fetch of either follower, which is answered with the record and comes back to say that it is written.
  All three brokers together take 0.9 and 1.0 ms of processor time for that in the two tables, on the two cores that
  they share with the client (Apache Kafka: 2.6 and 2.7 ms). Profiled in one process (cProfile, 4,000 records), no
  function takes more than 6 %: it is the path of a small request, three times, and the sockets' system calls are 10 %.
* **Three brokers idle and started.** A broker process has 47 MB, of which Python with asyncio is 20 MB; three of them
  have that three times. `kavka up --brokers 3` has all in one process, and is the row below with 44 MB. Start-up of
  three took Apache Kafka 8.5 s on the processor of 21 November, and takes it 5.0 s on this one.
* **kill -9 of a broker.** The new leaders take records after 0.09 s. The rest of the second is librdkafka's back-off.
* **Memory of a replica.** Half of the ratio is Apache Kafka's: it has 27 KB for a replica of 1,000 in KRaft mode, 49 in
  ZooKeeper mode; kavka has 7.9 in both, and 5.8 where there are 10,000.
* **Share groups.** A record sent, given out, accepted and stored takes four small requests: Produce, ShareFetch,
  ShareAcknowledge, and the write to the log of the states, which the broker asks of itself. Profiled (cProfile, 4,000
  records) no function has more than 4 % but the sockets' `send`. The broker takes 0.9 ms of processor time for all of
  it, Apache Kafka 2.9 ms on two cores. The limits of a group were made anew with every heartbeat, for a fifth of its
  time; they are remembered now. Those of the row are sent by a client in Python, whose own time is in both figures.
  What a group adds to a JVM's resident memory depends on whether its heap had to grow: 8 to 111 KB in six rounds, and
  13.8 to 14.6 of kavka's.
* **Produce 100 B.** kavka has 1.01 times the records a second of the floor (below): librdkafka on the other core is
  what is measured, and no broker can have twice what Apache Kafka has here. The rows that were here before are
  of an older processor with other work on it, where Apache Kafka had 0.8 million a second; it has 2.6 on this one.
  Half of kavka's processor time is what the floor takes, too, most of it the kernel's.
* **Topic of 1,000 partitions.** The disk is asked for one thing: a directory for each partition (`strace -c`: 1,000
  `mkdir`, 15 us each; two further calls for each are gone since the row was measured). The rest is the controller's,
  ZooKeeper's and the leader's work: 110 us of user CPU for each partition in the row. On a busy machine it was 240
  before garbage was collected less often, and 140 after.

`python -m benchmarks.render` writes this page from [benchmarks/results](../benchmarks/results). `make bench` measures
and writes it. `make bench-cluster` does so for three brokers: `kavka server` three times on one `kavka zookeeper`,
compared with three brokers of Apache Kafka with a heap of 1 GB each. In those sections:

* Memory and CPU are those of the three broker processes together.
* Times after a kill -9 are those of a client with librdkafka's default back-offs. It writes to six partitions with a
  replica on every broker.
* CPU figures are divided by the number of produced records, each of which is written three times.
"""


def row_name(row: str) -> str:
    return ROW_NAMES.get(row, row)


def figure_name(figure: str) -> str:
    return FIGURE_NAMES.get(figure, figure)


def number(value: float) -> str:
    """Three figures or so, with thousands marked."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 1:
        return f"{value:.2f}"
    return f"{value:.3g}"


def spread_text(spread: Spread | None) -> str:
    """minimum / median / maximum, or the one value where they agree."""
    if spread is None:
        return ""
    texts = [number(value) for value in spread]
    return texts[0] if len(set(texts)) == 1 else " / ".join(texts)


def render(results: Path = RESULTS, document: Path = DOCUMENT) -> None:
    """Write the document from whatever results there are."""
    parts = [OPENING]
    for shape, subject in SHAPES.items():
        for peer, title in PEERS.items():
            runs = read(results / f"{shape}-{peer}.json")
            if runs:
                parts.append("\n".join(_section(peer, f"{subject} and {title}", runs)))
    growth = "\n".join(growth_results.section(results / growth_results.RESULTS.name))
    if growth:
        parts.append(growth)
    spark = spark_results.read(results / "spark.json")
    if spark:
        parts.append("\n".join(spark_results.section(spark)))
    decoding = "\n".join(decoder_results.section(results / "spark-decoder.json"))
    if decoding:
        parts.append(decoding)
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text("\n".join(parts))


def _section(peer: str, title: str, runs: list[Run]) -> Iterator[str]:
    comparisons = [one for run in runs for one in compare(run["measurements"], "kavka", peer)]
    judged = [one for one in comparisons if one.verdict]
    reached = [one for one in judged if one.verdict == "reached"]
    yield f"## {title}\n"
    yield f"Targets reached: {len(reached)} of {len(judged)}." if judged else OTHER_BROKERS[peer].about
    for one in judged:
        if one.verdict == "short" and one.ratio is not None:
            ratio = number(one.ratio.median)
            yield f"\nShort: {row_name(one.row)}, {figure_name(one.figure)}: {ratio} instead of {one.target}."
    yield ""
    yield from _table(comparisons, peer if peer in OTHER_BROKERS else "Apache Kafka")
    yield ""
    yield from _alone(runs, peer)
    for run in runs:
        yield from _circumstances(run)


def _table(comparisons: list[Comparison], peer: str) -> Iterator[str]:
    yield f"| what | figure | kavka min / median / max | {peer} min / median / max | ratio | target | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    last = ""
    for one in comparisons:
        cells = [
            row_name(one.row) if one.row != last else "",
            figure_name(one.figure),
            spread_text(one.subject),
            spread_text(one.peer),
            spread_text(one.ratio),
            str(one.target) if one.target else "",
            f"**{one.verdict}**" if one.verdict else "",
        ]
        last = one.row
        yield "| " + " | ".join(cells) + " |"


def _alone(runs: list[Run], peer: str) -> Iterator[str]:
    """What kavka was measured at and the peer did not complete: its process failed or timed out."""
    for run in runs:
        theirs = {one["row"] for one in run["measurements"] if one["candidate"] == peer}
        figures: dict[str, dict[str, list[float]]] = {}
        for one in run["measurements"]:
            if one["row"] not in theirs:
                for name, value in one["figures"].items():
                    figures.setdefault(one["row"], {}).setdefault(name, []).append(value)
        for row, values in figures.items():
            texts = (f"{figure_name(name)} {spread_text(spread(found))}" for name, found in values.items())
            yield f"Only kavka completed: {row_name(row)}: {'; '.join(texts)}.\n"


def _circumstances(run: Run) -> Iterator[str]:
    rows = dict.fromkeys(row_name(one["row"]) for one in run["measurements"])
    loads = sorted(one["load_average"] for one in run["measurements"])
    rounds = len({one["round"] for one in run["measurements"]})
    yield f"Measured {run['started']} in {rounds} {'round' if rounds == 1 else 'rounds'}: {'; '.join(rows)}.\n"
    yield f"* Command: `{' '.join(run['command'])}`"
    machine = ", ".join(f"{key} {value}" for key, value in run["machine"].items())
    others = run.get("others_cpu_percent")
    text = f"load average {loads[0]:.2f} to {loads[-1]:.2f}"
    warning = ""
    if others is not None:
        text = f"{text}; other processes took {others:.0f} % of a core"
        if others > BUSY_OTHERS_PERCENT:
            warning = "* The machine was busy with other work: ratios near a target, and all latencies, may be wrong."
    elif loads[-1] > BUSY_LOAD_PER_CORE * int(run["machine"]["cores"]):
        warning = (
            "* Such a load may be the run's own, or that of other work: then latencies and close ratios may be wrong."
        )
    yield f"* Machine: {machine}; {text}"
    if warning:
        yield warning
    yield f"* Versions: {'; '.join(run['versions'].values())}"
    operations = ", ".join(f"{key} {value:,}" for key, value in run["operations"].items())
    yield f"* Operations: {operations}\n"


if __name__ == "__main__":
    render()
    print(f"wrote {DOCUMENT}")
