"""`kavka up --brokers N`, in one process and in several: what it says, how it stops, what a directory remembers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.kit.command_line import PROGRAM, run_alone
from tests.kit.kavka_process import answers_metadata
from tests.kit.ports import free_port
from tests.kit.topic_everywhere import wait_everywhere

READY_S = 60
Started = subprocess.Popen[str]


@contextmanager
def cluster(
    data: Path, *words: str, port: int | None = None, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[Started, dict[str, Any]]]:
    """`kavka up` with these words and --json, and what it said when it was ready."""
    command = [PROGRAM, "up", "--port", str(port or free_port(following=[1, 2])), "--data", str(data), "--json", *words]
    with (data.parent / "stderr").open("a") as errors:
        environment = {**os.environ, **(variables or {})}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, (data.parent / "stderr").read_text()
        yield process, json.loads(first)
    finally:
        process.kill()
        process.wait(READY_S)


def ended(process: Started, number: signal.Signals = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(READY_S)


def ports(said: dict[str, Any]) -> list[int]:
    return [int(broker["address"].rpartition(":")[2]) for broker in said["brokers"]]


def known(port: int) -> set[int]:
    """Ids of the brokers that the one on this port tells clients of."""
    words = ("brokers", "--json", "-b", f"127.0.0.1:{port}")
    return {broker["id"] for broker in json.loads(run_alone(*words).stdout)}


def eventually(what: str, probe: Callable[[], object], timeout_s: float = READY_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not probe():
        assert time.monotonic() < deadline, f"{what}: not in {timeout_s} s"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that nobody reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("words", [("--brokers", "3"), ("--brokers", "3", "--processes")], ids=["one", "several"])
def test_three_brokers_replicate_stop_in_order_and_come_back(tmp_path: Path, words: tuple[str, ...]) -> None:
    data = tmp_path / "data"
    with cluster(data, *words) as (process, said):
        assert [broker["broker_id"] for broker in said["brokers"]] == [1, 2, 3]
        assert said["bootstrap"] == ",".join(broker["address"] for broker in said["brokers"])
        for port in ports(said):
            assert known(port) == {1, 2, 3}
        bootstrap = said["brokers"][2]["address"]
        assert run_alone("topics", "create", "t", "-r", "3", "-b", bootstrap).returncode == 0
        assert run_alone("produce", "t", "-b", bootstrap, given=b"hello\n").returncode == 0
        assert ended(process) == 0
    for broker_id in (1, 2, 3):
        logs = data / f"broker-{broker_id}" / "logs"
        assert (logs / ".kafka_cleanshutdown").exists()
        assert (logs / "t-0" / "00000000000000000000.log").stat().st_size > 0
    with cluster(data, *words[2:]) as (_, said):
        assert len(said["brokers"]) == 3
        assert run_alone("consume", "t", "-e", "-b", said["bootstrap"]).stdout == b"hello\n"


def test_it_says_where_the_brokers_are_and_how_to_go_on(tmp_path: Path) -> None:
    port = free_port(following=[1, 2])
    words = ["up", "--brokers", "3", "--port", str(port), "--data", str(tmp_path / "data")]
    process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        addresses = [f"127.0.0.1:{port + number}" for number in range(3)]
        first = process.stdout.readline()
        assert first == f"kavka is ready: 3 brokers on {', '.join(addresses)}, data in {tmp_path}/data\n"
        assert ended(process, signal.SIGINT) == 0
        rest = process.stdout.read()
        assert f"bootstrap.servers={','.join(addresses)}" in rest
        topic = next(line.split()[1:] for line in rest.splitlines() if line.startswith("  Topic"))
        assert topic == ["kavka", "topics", "create", "-b", addresses[0], "greetings"], "replicas are as by default"
    finally:
        process.kill()
        process.wait(READY_S)


def test_a_single_broker_grows_into_a_cluster_with_its_topics(tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = [PROGRAM, "up", "--port", str(free_port()), "--data", str(data), "--json"]
    alone = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert alone.stdout is not None
        address = json.loads(alone.stdout.readline())["listeners"]["PLAINTEXT"]
        assert run_alone("produce", "t", "-b", address, given=b"from before\n").returncode == 0
        assert ended(alone) == 0
    finally:
        alone.kill()
        alone.wait(READY_S)
    assert not (data / "broker-1").exists()
    with cluster(data, "--brokers", "3") as (_, said):
        assert run_alone("consume", "t", "-e", "-b", said["brokers"][2]["address"]).stdout == b"from before\n"
        assert said["brokers"][0]["log_directory"] == str(data / "logs")


def test_fewer_brokers_than_the_directory_has_are_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with cluster(data, "--brokers", "3") as (process, _):
        assert ended(process) == 0
    result = run_alone("up", "--brokers", "2", "--data", str(data))
    assert result.returncode == 1
    assert b"has 3 brokers, and --brokers is 2" in result.stderr
    assert b"Next: leave --brokers out" in result.stderr


@pytest.mark.parametrize("words", [(), ("--processes",)], ids=["one", "several"])
def test_a_port_that_is_taken_is_said_before_anything_is_touched(tmp_path: Path, words: tuple[str, ...]) -> None:
    port = free_port(following=[1, 2])
    with socket.create_server(("127.0.0.1", port + 1)):
        result = run_alone("up", "--brokers", "3", "--port", str(port), "--data", str(tmp_path / "data"), *words)
    assert result.returncode == 1
    assert f"{port + 1} for broker 2: port {port + 1} is taken".encode() in result.stderr
    assert b"choose another port with --port" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_second_cluster_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with cluster(data, "--brokers", "3") as (_, said):
        result = run_alone("up", "--brokers", "3", "--data", str(data), "--port", str(free_port(following=[1, 2])))
        assert result.returncode == 1
        assert b"stop that broker" in result.stderr
        assert b"Traceback" not in result.stderr
        assert known(ports(said)[0]) == {1, 2, 3}


def test_others_see_its_zookeeper_where_the_port_is_opened(tmp_path: Path) -> None:
    with cluster(tmp_path / "data", "--brokers", "3", "--zookeeper-port", "0") as (_, said):
        client = KazooClient(said["zookeeper"])
        client.start(timeout=READY_S)
        try:
            assert sorted(client.get_children("/brokers/ids")) == ["1", "2", "3"]
        finally:
            client.stop()
            client.close()


@pytest.mark.parametrize("words", [(), ("--processes",)], ids=["one", "several"])
def test_lines_of_several_brokers_say_whose_they_are(tmp_path: Path, words: tuple[str, ...]) -> None:
    with cluster(tmp_path / "data", "--brokers", "3", "--log-level", "info", *words) as (process, _):
        assert ended(process) == 0
    lines = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines() if line.startswith("{")]
    assert lines
    assert {line.get("on_broker") for line in lines} <= {1, 2, 3}


@pytest.mark.parametrize("words", [(), ("--brokers", "3"), ("--brokers", "3", "--processes")])
def test_nothing_is_logged_where_all_is_well(tmp_path: Path, words: tuple[str, ...]) -> None:
    with cluster(tmp_path / "data", *words) as (process, said):
        bootstrap = said["bootstrap"] if words else said["listeners"]["PLAINTEXT"]
        assert run_alone("produce", "t", "-b", bootstrap, given=b"x\n").returncode == 0
        assert ended(process) == 0
    assert (tmp_path / "stderr").read_text() == ""


SLOW_ZOOKEEPER = """
import sys, time
if "zookeeper" in sys.orig_argv:
    time.sleep(3)
"""
"""What Python runs before a program, where it is called sitecustomize."""


def test_nobody_is_told_to_wait_for_a_zookeeper_that_starts_beside_its_brokers(tmp_path: Path) -> None:
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "sitecustomize.py").write_text(SLOW_ZOOKEEPER)
    path = os.pathsep.join([str(tmp_path / "slow"), *filter(None, [os.environ.get("PYTHONPATH")])])
    with cluster(tmp_path / "data", "--brokers", "2", "--processes", variables={"PYTHONPATH": path}) as (process, said):
        assert said["seconds"] > 3
        assert ended(process) == 0
    assert (tmp_path / "stderr").read_text() == ""


def test_a_process_that_dies_is_told_of_and_the_others_go_on(tmp_path: Path) -> None:
    with cluster(tmp_path / "data", "--brokers", "3", "--processes") as (process, said):
        pids = {broker["broker_id"]: broker["pid"] for broker in said["brokers"]}
        assert len({*pids.values(), said["zookeeper_pid"], process.pid}) == 5
        first, _, third = (broker["address"] for broker in said["brokers"])
        assert run_alone("topics", "create", "t", "-r", "3", "-b", first).returncode == 0
        os.kill(pids[3], signal.SIGKILL)
        eventually("broker 3 is gone", lambda: not answers_metadata(ports(said)[2]))
        eventually("it is told", lambda: "process ended" in (tmp_path / "stderr").read_text())
        told = next(line for line in (tmp_path / "stderr").read_text().splitlines() if "process ended" in line)
        assert json.loads(told)["name"] == "broker 3"
        assert json.loads(told)["how"] == "by signal SIGKILL"
        file = tmp_path / "data" / "broker-3" / "server.properties"
        assert f"`kavka server {file}` starts it again" in json.loads(told)["next_step"]
        rows = json.loads(run_alone("brokers", "--json", "-b", first).stdout)
        states = {row["id"]: row["state"] for row in rows}
        assert (states[1], states[2]) == ("alive", "alive")
        # It is registered until its session ends, but nobody is told that it lives.
        assert states.get(3, "not answering") == "not answering"
        assert run_alone("produce", "t", "-b", first, given=b"still here\n").returncode == 0
        assert run_alone("consume", "t", "-e", "-b", f"{third},{first}").stdout == b"still here\n"
        assert ended(process) == 0
        for pid in (*pids.values(), said["zookeeper_pid"]):
            assert is_gone(pid)


def test_the_processes_die_with_their_parent(tmp_path: Path) -> None:
    with cluster(tmp_path / "data", "--brokers", "3", "--processes") as (process, said):
        process.kill()
        for pid in (*(broker["pid"] for broker in said["brokers"]), said["zookeeper_pid"]):
            eventually(f"process {pid} is gone", lambda pid=pid: is_gone(pid))


def test_when_all_processes_died_the_parent_ends_with_a_failure(tmp_path: Path) -> None:
    with cluster(tmp_path / "data", "--brokers", "2", "--processes") as (process, said):
        for pid in (*(broker["pid"] for broker in said["brokers"]), said["zookeeper_pid"]):
            os.kill(pid, signal.SIGKILL)
        assert process.wait(READY_S) == 1


def test_a_process_that_cannot_start_is_named_and_none_is_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "broker-2").mkdir(parents=True)
    (data / "broker-2" / "logs").write_text("in the way")
    words = ("up", "--brokers", "2", "--processes", "--port", str(free_port(following=[1])), "--data", str(data))
    result = run_alone(*words)
    assert result.returncode == 1
    assert b"broker 2" in result.stderr
    assert b"in the way" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("words", [(), ("--processes",)], ids=["one", "several"])
def test_topics_have_three_replicas_of_which_two_must_be_in_sync(tmp_path: Path, words: tuple[str, ...]) -> None:
    with cluster(tmp_path / "data", "--brokers", "3", *words) as (_, said):
        at = ("-b", said["bootstrap"])
        assert run_alone("topics", "create", "asked", "-p", "2", *at).returncode == 0
        assert run_alone("produce", "automatic", *at, given=b"x\n").returncode == 0
        assert run_alone("consume", "automatic", "-g", "readers", "-c", "1", *at).stdout == b"x\n"

        def replicas() -> dict[str, int]:
            listed = json.loads(run_alone("topics", "list", "--internal", "--json", *at).stdout)
            return {topic["topic"]: topic["replicas"] for topic in listed}

        names = ("asked", "automatic", "__consumer_offsets", "__kavka_decisions")
        for topic in names:
            wait_everywhere(said["bootstrap"], topic)
        assert replicas() == dict.fromkeys(names, 3)
        for topic, needed in (("asked", 2), ("automatic", 2), ("__consumer_offsets", 2), ("__kavka_decisions", 1)):
            settings = run_alone("configs", "describe", "--topic", topic, "min.insync.replicas", "--json", *at)
            assert json.loads(settings.stdout)[0]["value"] == str(needed), topic
