"""Apache Kafka's own kafka-dump-log reads the files that kavka's logs write, and finds nothing wrong in them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kavka.log.decide.producer_state import AppendOrigin
from kavka.log.unified_log import UnifiedLog
from kavka.records.batch import TimestampType
from kavka.records.compression import Compression
from kavka.records.control import ControlType
from tests.apache_kafka import PeerMissing, Release
from tests.unit.log.log_support import NOW_MS, append, batch, marker, new_log, reopen

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

SETTINGS = {"segment_bytes": 6_000, "index_interval_bytes": 400}
COMPLAINTS = re.compile(
    r"mismatch|corrupt|not valid|isvalid: false|non-consecutive|out of order|exception|invalid|error", re.IGNORECASE
)
# Kafka 4's tool takes every first offset but 0 for a gap behind -1, in its own segments too.
FALSE_ALARM = re.compile(r"Non-consecutive offsets in \S+\n  -1 is followed by \d+\n")


class Dumper(NamedTuple):
    """kafka-dump-log of one version."""

    command: list[str]

    def __call__(self, *options: str, files: list[Path]) -> str:
        arguments = [*self.command, *options, "--files", ",".join(map(str, files))]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        said = FALSE_ALARM.sub("", done.stdout + done.stderr)
        complaints = [said[max(found.start() - 200, 0) : found.end() + 200] for found in COMPLAINTS.finditer(said)]
        assert complaints[:3] == []
        return done.stdout


@pytest.fixture(scope="module", params=["zk", "kraft"])
def dump(request: pytest.FixtureRequest) -> Dumper:
    try:
        release = Release.named(request.param)
        release.installed()
        return Dumper(release.tool_command("dump-log"))
    except PeerMissing as missing:
        pytest.skip(str(missing))


def by_suffix(directory: Path, suffix: str) -> list[Path]:
    return sorted(path for path in directory.rglob(f"*{suffix}") if path.suffix == suffix)


def write_log(directory: Path) -> Iterator[tuple[UnifiedLog, int]]:
    """Logs of every kind, each with the number of its records that are no markers."""
    plain = new_log(directory / "plain-0", **SETTINGS)
    codecs = list(Compression)
    for number in range(150):
        values = [b"%d-%d" % (number, one) * (1 + number % 7) for one in range(1 + number % 9)]
        # Timestamps that go back as well as forth.
        timestamp = NOW_MS + 1_000 * (number if number % 3 else 2 * number)
        append(
            plain,
            batch(values, timestamp=timestamp, compression=codecs[number % 5], key=b"k"),
            leader_epoch=number // 50,
        )
    yield plain, plain.log_end_offset

    stamped = new_log(directory / "stamped-0", **SETTINGS, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    for number in range(60):
        stamped.append_as_leader(batch([b"x" * 90] * 3, timestamp=5), 0, NOW_MS + 7 * number)
    yield stamped, 180

    producers = new_log(directory / "producers-0", **SETTINGS)
    for number in range(90):
        append(producers, batch(4, producer_id=number % 3, sequence=4 * (number // 3), timestamp=NOW_MS + number))
    yield producers, 360

    transactions = new_log(directory / "transactions-0", **SETTINGS)
    for number in range(60):
        append(transactions, batch(2, producer_id=5, sequence=2 * number, transactional=True))
        ending = ControlType.ABORT if number % 2 else ControlType.COMMIT
        data = marker(ending, producer_id=5, coordinator_epoch=2)
        transactions.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    append(transactions, batch(2, producer_id=5, sequence=120, transactional=True))
    yield transactions, 122

    follower = new_log(directory / "follower-0", **SETTINGS)
    sent = b"".join(batch(3, base_offset=base, leader_epoch=4, timestamp=NOW_MS + base) for base in range(0, 600, 3))
    follower.append_as_follower(sent, NOW_MS)
    yield follower, 600

    recovered = new_log(directory / "recovered-0", **SETTINGS)
    append(recovered, *(batch(3, timestamp=NOW_MS + number) for number in range(200)))
    last = Path(recovered.segments[-1].path(".log"))
    os.truncate(last, last.stat().st_size - 5)
    again = reopen(recovered)
    yield again, again.log_end_offset

    truncated = new_log(directory / "truncated-0", **SETTINGS)
    append(truncated, *(batch(3, timestamp=NOW_MS - number) for number in range(200)))
    truncated.truncate_to(240, NOW_MS)
    append(truncated, *(batch(3, timestamp=NOW_MS + number) for number in range(50)))
    yield truncated, 390


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """The closed logs' directory, and how many records are in them."""
    root, records = tmp_path_factory.mktemp("logs"), 0
    for log, count in write_log(root):
        assert len(log.segments) > 1
        log.close(NOW_MS)
        records += count
    for path in root.rglob("*.deleted"):
        path.unlink()
    return root, records


def test_every_record_of_every_segment_is_read(dump: Dumper, directory: tuple[Path, int]) -> None:
    root, records = directory
    output = dump("--deep-iteration", "--print-data-log", files=by_suffix(root, ".log"))
    found = [line for line in output.splitlines() if line.startswith("| offset:") and "endTxnMarker" not in line]
    assert len(found) == records
    assert sum("endTxnMarker" in line for line in output.splitlines()) == 60


def test_the_indexes_pass_kafkas_sanity_check(dump: Dumper, directory: tuple[Path, int]) -> None:
    files = by_suffix(directory[0], ".index")
    output = dump("--index-sanity-check", files=files)
    assert output.count("passed sanity check") == len(files)


def test_the_indexes_agree_with_the_records(dump: Dumper, directory: tuple[Path, int]) -> None:
    for suffix in (".index", ".timeindex"):
        dump("--verify-index-only", files=by_suffix(directory[0], suffix))
    output = dump(files=by_suffix(directory[0], ".index"))
    assert output.count("offset: ") >= 50


def test_the_transaction_indexes_hold_each_aborted_transaction(dump: Dumper, directory: tuple[Path, int]) -> None:
    output = dump(files=by_suffix(directory[0], ".txnindex"))
    assert output.count("producerId: 5") == 30


def test_the_snapshots_hold_what_each_producer_wrote_last(dump: Dumper, directory: tuple[Path, int]) -> None:
    output = dump(files=by_suffix(directory[0], ".snapshot"))
    last = [line for line in output.splitlines() if "lastSequence: 119" in line]
    assert len(last) == 3
    (open_transaction,) = (line for line in output.splitlines() if "lastSequence: 121" in line)
    assert "currentTxnFirstOffset: Optional[180]" in open_transaction or "OptionalLong[180]" in open_transaction
