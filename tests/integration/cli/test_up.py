"""`kavka up` and `kavka server` as processes: what they say, how they stop, what keeps them from starting."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.command_line import PROGRAM, run_alone
from tests.kit.ports import free_port

READY_S = 60
Started = subprocess.Popen[str]


@contextmanager
def running(*words: str) -> Iterator[tuple[Started, str]]:
    """A broker that was started with these words, and the first line that it said."""
    environment = {**os.environ, "NO_COLOR": "1"}
    process = subprocess.Popen(
        [PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, process.stderr.read() if process.stderr else ""
        yield process, first
    finally:
        process.kill()
        process.wait(READY_S)


def ended(process: Started, number: signal.Signals) -> int:
    process.send_signal(number)
    return process.wait(READY_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_says_when_it_is_ready_and_a_signal_ends_it(
    tmp_path: Path, unused_port: int, number: signal.Signals
) -> None:
    data = tmp_path / "data"
    with running("up", "--port", str(unused_port), "--data", str(data)) as (process, first):
        address = f"127.0.0.1:{unused_port}"
        assert first == f"kavka is ready on {address}, data in {data}/logs\n"
        assert run_alone("produce", "greetings", "-b", address, given=b"hello\n").returncode == 0
        assert ended(process, number) == 0
        assert process.stdout is not None
        assert f"kavka produce -b {address} greetings" in process.stdout.read()
    assert (data / "logs" / ".kafka_cleanshutdown").exists()
    with running("up", "--port", str(unused_port), "--data", str(data)):
        assert run_alone("consume", "greetings", "-e", "-b", address).stdout == b"hello\n"


@pytest.mark.parametrize("words", [(), ("--brokers", "2")], ids=["one", "several"])
def test_the_end_of_standard_input_stops_it_in_order(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Whoever started it may have been killed: the kernel closes the pipe all the same."""
    data = tmp_path / "data"
    command = [PROGRAM, "up", "--port", "0", "--data", data, "--json", "--stop-with-stdin", *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdin.write("what stands here is not looked at\n")
        process.stdin.flush()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.stdin.close()
        assert process.wait(READY_S) == 0
    assert len(list(data.rglob(".kafka_cleanshutdown"))) == max(1, len(words))


def test_a_free_port_and_json(tmp_path: Path) -> None:
    with running("up", "--port", "0", "--data", str(tmp_path / "data"), "--json") as (_, first):
        said = json.loads(first)
        assert said["event"] == "ready"
        assert said["broker_id"] == 1
        address = said["listeners"]["PLAINTEXT"]
        assert not address.endswith(":0")
        assert json.loads(run_alone("topics", "list", "--json", "-b", address).stdout) == []


@pytest.mark.setting("broker.id", "listeners", "log.dirs", "num.partitions")
def test_a_broker_from_a_file_as_kafkas_own(tmp_path: Path, unused_port: int) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"# a broker\nbroker.id=7\nlisteners=PLAINTEXT://127.0.0.1:{unused_port}\n"
        f"log.dirs={tmp_path}/a,\\\n  {tmp_path}/b\nnum.partitions=3\nnum.io.threads=8\n"
        "not.a.setting=1\nlog.cleaner.thread=2\nssl.client.auth=required\n"
    )
    secret = "ssl.key.password=known-to-nobody"
    with running("server", str(file), "--set", "log.retention.hours=1", "--set", secret) as (process, first):
        assert first == f"kavka is ready on 127.0.0.1:{unused_port}, data in {tmp_path}/a, {tmp_path}/b\n"
        bootstrap = f"127.0.0.1:{unused_port}"
        assert run_alone("produce", "t", "-b", bootstrap, given=b"x\n").returncode == 0
        (topic,) = json.loads(run_alone("topics", "describe", "t", "--json", "-b", bootstrap).stdout)
        assert len(topic["partitions"]) == 3
        entries = json.loads(run_alone("configs", "describe", "--broker", "7", "--json", "-b", bootstrap).stdout)
        values = {entry["name"]: entry["value"] for entry in entries}
        assert (values["log.retention.hours"], values["num.partitions"]) == ("1", "3")
        assert ended(process, signal.SIGTERM) == 0
        assert process.stderr is not None
        said = process.stderr.read()
    unknown = [line for line in said.splitlines() if "unknown setting" in line]
    assert ["not.a.setting" in line and "did_you_mean" not in line for line in unknown] == [True, False]
    assert "name=log.cleaner.thread" in unknown[1]
    assert "did_you_mean=log.cleaner.threads" in unknown[1]
    (line,) = [line for line in said.splitlines() if "without effect" in line]
    assert "num.io.threads, ssl.client.auth" in line
    assert "num.partitions" not in line
    (line,) = [line for line in said.splitlines() if "secrets on the command line" in line]
    assert "settings=ssl.key.password" in line
    assert "known-to-nobody" not in said


def test_a_file_that_asks_for_what_is_not_supported_is_refused_with_the_consequence(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"broker.id=1\nlog.dirs={tmp_path}/a\nauthorizer.class.name=my.own.Authorizer\n")
    for command in (["server", str(file)], ["up", "--data", str(tmp_path / "b"), "--set", "zookeeper.set.acl=true"]):
        result = run_alone(*command)
        assert result.returncode == 1
        assert result.stderr.startswith(b"Error: Invalid value ")
        assert b"its rules would not hold" in result.stderr or b"could name nobody" in result.stderr
        assert b"Next: " in result.stderr
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


@pytest.mark.setting("broker.id", "reserved.broker.max.id")
def test_a_broker_whose_file_names_no_id_gets_one_and_keeps_it(tmp_path: Path, unused_port: int) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"listeners=PLAINTEXT://127.0.0.1:{unused_port}\nlog.dirs={tmp_path}/a\n")
    for _ in range(2):
        with running("server", str(file), "--json") as (process, first):
            assert json.loads(first)["broker_id"] == 1001
            assert ended(process, signal.SIGTERM) == 0


@pytest.mark.setting("zookeeper.connect", "zookeeper.connection.timeout.ms")
def test_a_zookeeper_that_does_not_answer_is_a_failure_with_a_next_step(tmp_path: Path, unused_port: int) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{unused_port}\nlog.dirs={tmp_path}/a\n"
        f"zookeeper.connect=127.0.0.1:{free_port()}\nzookeeper.connection.timeout.ms=300\n"
    )
    result = run_alone("server", str(file))
    assert result.returncode == 1
    assert b"Next: see whether ZooKeeper runs there, and correct zookeeper.connect" in result.stderr
    assert b"Traceback" not in result.stderr
    assert not (tmp_path / "a").exists()


def test_a_second_broker_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with running("up", "--port", "0", "--data", data, "--json") as (_, first):
        result = run_alone("up", "--port", "0", "--data", data)
        assert result.returncode == 1
        assert b"stop that broker" in result.stderr
        assert b"Traceback" not in result.stderr
        address = json.loads(first)["listeners"]["PLAINTEXT"]
        assert run_alone("topics", "list", "-b", address).returncode == 0


def test_a_directory_that_cannot_be_written_is_a_failure_with_a_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    result = run_alone("up", "--port", "0", "--data", str(tmp_path / "file" / "data"))
    assert result.returncode == 1
    assert b"Next: choose a directory that can be written" in result.stderr
    assert b"Traceback" not in result.stderr


DAMAGES = {
    "logs/meta.properties": (b"version=0\nbrok", b"take it away"),
    "kavka-zookeeper/log.*": (b"no log at all", b"restore the file"),
}


@pytest.mark.parametrize("pattern", DAMAGES)
def test_a_file_that_a_start_cannot_read_is_a_failure_with_its_own_next_step(tmp_path: Path, pattern: str) -> None:
    with running("up", "--port", "0", "--data", str(tmp_path), "--json"):
        pass
    (file,) = tmp_path.glob(pattern)
    content, advice = DAMAGES[pattern]
    file.write_bytes(content)
    result = run_alone("up", "--port", "0", "--data", str(tmp_path))
    assert result.returncode == 1
    assert str(file).encode() in result.stderr
    assert advice in result.stderr
    file.unlink()
    file.symlink_to("nowhere")
    result = run_alone("up", "--port", "0", "--data", str(tmp_path))
    assert result.returncode == 1
    assert b"mount the disk" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("kind", ["up", "up of three", "server", "metrics", "zookeeper"])
def test_a_port_that_is_taken_names_who_has_it_and_the_way_to_another(tmp_path: Path, kind: str) -> None:
    port, other = free_port(following=[1, 2]), free_port()
    properties = tmp_path / "server.properties"
    properties.write_text(f"listeners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path}/logs\n")
    data = ("--data", str(tmp_path / "data"))
    words, way = {
        "up": (("up", "--port", str(port), *data), "with --port"),
        "up of three": (("up", "--brokers", "3", "--port", str(port), *data), "with --port"),
        "server": (("server", str(properties)), "in the setting listeners"),
        "metrics": (("up", "--port", str(other), "--metrics-port", str(port), *data), "with --metrics-port"),
        "zookeeper": (("zookeeper", "--port", str(port), *data), "with --port"),
    }[kind]
    with socket.create_server(("127.0.0.1", port)):
        result = run_alone(*words)
    said = result.stderr.decode()
    assert result.returncode == 1
    assert f"port {port} is taken: process {os.getpid()} " in said
    assert f"Next: stop that program, or choose another port {way}" in said


@pytest.mark.parametrize("words", [("up",), ("up", "--brokers", "2")], ids=["one", "two"])
@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.0.2.1", "192.0.2.1 is not an address of this machine"),
        ("no-such-host.invalid", "the name no-such-host.invalid cannot be resolved"),
    ],
)
def test_a_host_that_is_not_ours_is_called_that(tmp_path: Path, words: tuple[str, ...], host: str, why: str) -> None:
    result = run_alone(*words, "--insecure", "--host", host, "--data", str(tmp_path / "data"))
    assert result.returncode == 1
    assert why in result.stderr.decode()
    assert b"Next: choose an address of this machine with --host" in result.stderr


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_an_ipv6_address_is_printed_as_clients_take_it(tmp_path: Path) -> None:
    words = [PROGRAM, "up", "--host", "::1", "--port", "0", "--data", str(tmp_path / "data"), "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listeners"]["PLAINTEXT"]
        assert address.startswith("[::1]:")
        assert run_alone("produce", "t", "-b", address, given=b"x\n").returncode == 0
    finally:
        process.kill()
        process.communicate()
