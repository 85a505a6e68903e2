"""A broker of a cluster that is started again by hand: from another directory, and on other log directories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command_line import PROGRAM, run_alone
from tests.kit.kavka_process import answers_metadata
from tests.kit.ports import free_port
from tests.kit.process_cluster import eventually

READY_S = 60
# A broker that was killed may come back when its session is over.
SHORT_SESSIONS = ("--set", "zookeeper.session.timeout.ms=3000")


@contextmanager
def running(*words: str, cwd: Path, log: str) -> Iterator[dict[str, Any]]:
    """A `kavka up` or `kavka server` in a directory, and what it printed when it was ready."""
    with (cwd / log).open("a") as errors:
        process = subprocess.Popen(
            [PROGRAM, *words, "--json"], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=cwd
        )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, (cwd / log).read_text()
        yield json.loads(first)
        process.terminate()
        process.wait(READY_S)
    finally:
        process.kill()
        process.wait(READY_S)


@contextmanager
def cluster_without_broker_3(home: Path) -> Iterator[int]:
    """Three processes whose data directory was named relative to `home`; broker 3, killed. Yields the first port."""
    port = free_port(following=[1, 2])
    words = ("up", "--brokers", "3", "--processes", "--data", "rp", "--port", str(port), *SHORT_SESSIONS)
    with running(*words, cwd=home, log="cluster.log") as ready:
        first = ready["brokers"][0]["address"]
        assert run_alone("topics", "create", "orders", "-r", "3", "-b", first).returncode == 0
        assert run_alone("produce", "orders", "-b", first, given=b"one\ntwo\n").returncode == 0
        os.kill(ready["brokers"][2]["pid"], signal.SIGKILL)
        eventually("broker 3 is gone", lambda: not answers_metadata(port + 2))
        yield port


def in_sync(port: int) -> list[int]:
    answer = run_alone("topics", "describe", "orders", "--json", "-b", f"127.0.0.1:{port}")
    return sorted(json.loads(answer.stdout)[0]["partitions"][0]["in_sync_replicas"])


def test_a_broker_started_from_another_directory_finds_its_logs(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with cluster_without_broker_3(tmp_path) as port:
        file = tmp_path / "rp" / "broker-3" / "server.properties"
        assert f"log.dirs={tmp_path}/rp/broker-3/logs\n" in file.read_text()
        with running("server", os.path.relpath(file, elsewhere), cwd=elsewhere, log="three.log") as ready:
            assert ready["log_directories"] == [f"{tmp_path}/rp/broker-3/logs"]
            eventually("broker 3 is in sync again", lambda: in_sync(port) == [1, 2, 3])
        assert [path.name for path in elsewhere.iterdir()] == ["three.log"]


@pytest.mark.setting("kavka.abandoned.log.dirs", "log.dirs")
@pytest.mark.parametrize("former", ["there", "gone"])
def test_a_broker_that_would_begin_empty_elsewhere_refuses_unless_it_is_told_to(tmp_path: Path, former: str) -> None:
    with cluster_without_broker_3(tmp_path) as port:
        file = tmp_path / "rp" / "broker-3" / "server.properties"
        logs, empty = tmp_path / "rp" / "broker-3" / "logs", tmp_path / "empty"
        if former == "gone":
            logs.rename(tmp_path / "forgotten")
        refused = run_alone("server", str(file), "--set", f"log.dirs={empty}")
        said = refused.stderr.decode()
        assert refused.returncode == 1, said
        assert f"broker 3 has its logs in {logs}" in said
        assert f"--set kavka.abandoned.log.dirs={logs}" in said
        assert "Traceback" not in said
        assert not empty.exists()
        words = ("server", str(file), "--set", f"log.dirs={empty}", "--set", f"kavka.abandoned.log.dirs={logs}")
        with running(*words, cwd=tmp_path, log="three.log"):
            eventually("broker 3 copied the records", lambda: in_sync(port) == [1, 2, 3])
        assert (empty / "orders-0" / "00000000000000000000.log").stat().st_size > 0
        # That was taken note of: the next start needs not be told.
        with running("server", str(file), "--set", f"log.dirs={empty}", cwd=tmp_path, log="three.log"):
            eventually("broker 3 is in sync again", lambda: in_sync(port) == [1, 2, 3])


def test_logs_that_were_moved_with_their_directory_are_taken_as_they_are(tmp_path: Path) -> None:
    with cluster_without_broker_3(tmp_path) as port:
        file, moved = tmp_path / "rp" / "broker-3" / "server.properties", tmp_path / "moved"
        (tmp_path / "rp" / "broker-3" / "logs").rename(moved)
        with running("server", str(file), "--set", f"log.dirs={moved}", cwd=tmp_path, log="three.log"):
            eventually("broker 3 is in sync again", lambda: in_sync(port) == [1, 2, 3])


def test_a_replica_moves_to_an_absolute_path_where_log_dirs_is_relative(tmp_path: Path) -> None:
    port = free_port()
    at = ("-b", f"127.0.0.1:{port}")
    words = ("up", "--port", str(port), "--set", "log.dirs=one,two")
    with running(*words, cwd=tmp_path, log="log") as ready:
        assert ready["log_directories"] == [f"{tmp_path}/one", f"{tmp_path}/two"]
        assert run_alone("produce", "orders", *at, given=b"one\n").returncode == 0
        (home,) = (name for name in ("one", "two") if (tmp_path / name / "orders-0").exists())
        target = tmp_path / ("two" if home == "one" else "one")
        moved = run_alone("log-dirs", "--move", "orders-0", "--broker", "1", "--to", str(target), *at)
        assert moved.returncode == 0, moved.stderr
        eventually("the log is there", lambda: (target / "orders-0" / "00000000000000000000.log").exists())
