"""What traces of requests cost: `python -m benchmarks.request_traces [--rounds N] [--quick]`.

One broker, requests of one record with acks=1, 50 in flight: the row on which a cost for each request shows most. The
broker runs without any traces, with the default (slow requests only), and with one request in 1,000 sampled, in turn,
each time with a fresh process and directory. The processor time of the broker for a request counts: it is steadier than
the rate. Of each way the median is shown, and its distance from the first one.

    off       kavka.slow.request.ms=-1
    default   kavka.slow.request.ms=1000, no sample
    sampled   the same, kavka.request.trace.sample=1000
    all       every request is sampled: what one trace costs
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic
from tests.kit.kavka_process import cpu_seconds
from tests.kit.process_cluster import ProcessCluster

from benchmarks import load_generator
from benchmarks.rows import SMALL_REQUESTS

REQUESTS: Final = 200_000
WAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "off": {"kavka.slow.request.ms": "-1"},
    "default": {},
    "sampled": {"kavka.request.trace.sample": "1000"},
    "all": {"kavka.request.trace.sample": "1"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tenth of the requests")
    arguments = parser.parse_args()
    load_generator.build()
    requests = REQUESTS // 10 if arguments.quick else REQUESTS
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    names = list(WAYS)
    for number in range(arguments.rounds):
        for way in names[number % len(names) :] + names[: number % len(names)]:
            with tempfile.TemporaryDirectory(prefix="kavka-traces-") as place:
                us, rate = measure(Path(place), WAYS[way], requests)
            found[way].append(us)
            print(
                json.dumps({"round": number + 1, "traces": way, "cpu_us_per_request": us, "requests_per_s": rate}),
                flush=True,
            )
    base = statistics.median(found["off"])
    for way, values in found.items():
        middle = statistics.median(values)
        print(f"{way:<10} {middle:7.2f} us CPU a request  ({(middle / base - 1) * 100:+.1f} %)  {sorted(values)}")


def measure(directory: Path, settings: Mapping[str, str], requests: int) -> tuple[float, float]:
    """Microseconds of the broker's processor time for each request, and requests a second."""
    with ProcessCluster(directory, brokers=1, defaults={}, settings=dict(settings)) as cluster:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("small", 1, 1)])["small"].result()
        load = {**SMALL_REQUESTS, "acks": "1"}
        load_generator.run("produce", cluster.bootstrap, "small", requests // 4, settings=load)
        (server,) = cluster.brokers.values()
        before = sum(cpu_seconds(server.pid))
        run = load_generator.run("produce", cluster.bootstrap, "small", requests, settings=load)
        return (sum(cpu_seconds(server.pid)) - before) / requests * 1e6, run.records / run.seconds


if __name__ == "__main__":
    main()
