"""Instructions that a broker takes for a small produce request: `python -m benchmarks.instructions [--before COMMIT]
[--set NAME=VALUE]`.

The broker runs under callgrind (Debian's `valgrind`), which counts instructions, so that a busy machine does not change
the figure: it is the same within about 1 %. A request holds one record of 100 bytes, acks=1; fifty are on their way at
a time. Two runs of different length are compared, so that what does not belong to a request falls out. --set gives the
broker a setting, such as kavka.request.trace.sample=1000, and compares it with a broker without; --before compares with
kavka at another commit.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.kit.broker_client import BrokerClient, framed
from tests.kit.command_server import PROGRAM
from tests.kit.kavka_process import answers_metadata
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually

from benchmarks import PROJECT
from benchmarks.commits import laid_out
from kavka.protocol.api import ApiKey, RequestHeader, encode_request_header
from kavka.protocol.codec import encode
from kavka.protocol.messages import ProduceRequest
from kavka.protocol.messages.produce_request import PartitionProduceData, TopicProduceData
from kavka.records.builder import BatchBuilder

SHORT: Final = 2_000
LONG: Final = 17_000
WARM_UP: Final = 500
AT_ONCE: Final = 50
VERSION: Final = 10
START_S: Final = 120.0
SETTLE_S: Final = 0.5
"""callgrind counts from, and until, its next look at what it was told."""


def main(argv: Sequence[str] | None = None) -> int:
    summary = (__doc__ or "").split("\n\n", 1)[1]
    parser = argparse.ArgumentParser(prog="benchmarks.instructions", description=summary)
    parser.add_argument("--before", metavar="COMMIT", help="kavka at another commit beside this checkout")
    parser.add_argument("--set", metavar="NAME=VALUE", help="a broker with this setting beside one without")
    arguments = parser.parse_args(argv)
    if shutil.which("valgrind") is None:
        print("needs valgrind, to count instructions: `apt-get install valgrind`", file=sys.stderr)
        return 2
    here = per_request(PROJECT / "src")
    print(f"this checkout: {here:,.0f} instructions a request", flush=True)
    if arguments.set:
        found = per_request(PROJECT / "src", "--set", arguments.set)
        print(f"with {arguments.set}: {found:,.0f}, {found / here - 1:+.2%}", flush=True)
    if arguments.before:
        before = per_request(laid_out(arguments.before).source)
        print(f"{arguments.before}: {before:,.0f}; this checkout is {here / before - 1:+.2%} of it", flush=True)
    return 0


def per_request(source: Path, *options: str) -> float:
    """Instructions for each request more."""
    return (_counted(source, LONG, options) - _counted(source, SHORT, options)) / (LONG - SHORT)


def _counted(source: Path, requests: int, options: Sequence[str]) -> int:
    """Instructions of a new broker while it answers so many requests."""
    with tempfile.TemporaryDirectory(prefix="kavka-instructions-") as directory:
        port, counts = free_port(), Path(directory) / "counts"
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={counts}"]
        broker = [sys.executable, str(PROGRAM), "up", "--port", str(port), "--data", f"{directory}/data", *options]
        environment = {**os.environ, "PYTHONPATH": str(source), "KAVKA_NO_CONSOLE": "1"}
        output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*valgrind, *broker], env=environment, **output)
        try:
            eventually(
                f"kavka at {source} starts under valgrind, or ends",
                lambda: answers_metadata(port) or process.poll() is not None,
                timeout_s=START_S,
            )
            if process.poll() is not None:
                raise SystemExit(f"kavka at {source} does not start under valgrind")
            with BrokerClient(port) as client:
                client.create_topic("small")
                _produce(client, WARM_UP)
                _control(process.pid, "--instr=on")
                _produce(client, requests)
                _control(process.pid, "--instr=off")
                _control(process.pid, "--dump")
        finally:
            process.terminate()
            process.wait()
        found = [int(total) for path in Path(directory).glob("counts*") for total in _totals(path)]
    return max(found)


def _totals(path: Path) -> list[str]:
    return re.findall(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE)


def _control(pid: int, command: str) -> None:
    subprocess.run(["callgrind_control", command, str(pid)], check=True, capture_output=True)
    time.sleep(SETTLE_S)


def _produce(client: BrokerClient, requests: int) -> None:
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, b"x" * 100)
    partition = PartitionProduceData(index=0, records=memoryview(builder.build()))
    topic = TopicProduceData(name="small", partition_data=[partition])
    body = encode(ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=[topic]), VERSION)
    ids = itertools.count()
    for _ in range(requests // AT_ONCE):
        headers = [RequestHeader(ApiKey.PRODUCE, VERSION, next(ids), "benchmark") for _ in range(AT_ONCE)]
        client.send_bytes(b"".join(framed(encode_request_header(header) + body) for header in headers))
        for _ in range(AT_ONCE):
            client.receive_frame()


if __name__ == "__main__":
    raise SystemExit(main())
