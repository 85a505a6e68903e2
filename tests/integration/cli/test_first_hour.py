"""What a newcomer types in the first hour, on one broker with default settings: the answers, and the ways out."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from kavka.cli.session import PATIENCE_MS
from tests.kit.command_line import PROGRAM, run_alone
from tests.kit.kavka_process import KavkaProcess
from tests.kit.ports import free_port

Run = Callable[..., subprocess.CompletedProcess[bytes]]
StartKavka = Callable[..., KavkaProcess]


@pytest.fixture
def run(kavka_broker: KavkaProcess) -> Run:
    def run_command(*words: str, given: bytes = b"", status: int = 0) -> subprocess.CompletedProcess[bytes]:
        result = run_alone(*words, given=given, KAVKA_BOOTSTRAP=kavka_broker.bootstrap)
        assert result.returncode == status, result.stderr.decode()
        return result

    return run_command


@pytest.fixture
def topic(run: Run) -> str:
    name = f"orders{time.time_ns()}"
    run("topics", "create", name, "-p", "6")
    return name


# kavka why, kavka replay


def test_one_broker_explains_itself_from_its_own_ring(run: Run, topic: str) -> None:
    told = run("why", f"{topic}-3").stdout.decode()
    assert f"Topic {topic} has 6 partitions, replication factor 1." in told
    assert "controller elected" in run("why", "controller").stdout.decode()


def test_why_of_a_topic_that_is_not_there_fails(run: Run, topic: str) -> None:
    assert b"there is no topic nosuch" in run("why", "nosuch", status=1).stderr
    assert f"{topic} has 6 partitions" in run("why", f"{topic}-6", status=1).stderr.decode()


def test_why_takes_a_topic_whose_name_ends_like_a_partition(run: Run, topic: str) -> None:
    run("topics", "create", f"{topic}-7")
    assert f"Topic {topic}-7 has 1 partition," in run("why", f"{topic}-7").stdout.decode()


def test_a_time_to_come_is_refused(run: Run, topic: str) -> None:
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 3_600))
    assert f"--at {soon} lies in the future" in run("why", topic, "--at", soon, status=2).stderr.decode()


def test_replay_of_a_topic_that_is_not_there_fails_and_leaves_no_file(
    run: Run, kavka_broker: KavkaProcess, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    words = ("replay", str(kavka_broker.data_dir), "--partition", "nosuch", "--page", str(page))
    assert b"nothing was recorded about nosuch" in run(*words, status=1).stderr
    assert not page.exists()


# kavka produce, kavka consume


def test_records_of_a_topic_with_more_partitions_are_spread(run: Run, topic: str) -> None:
    for partition in (0, 5):
        run("produce", topic, "-p", str(partition), given=b"".join(b"%d\n" % number for number in range(50)))
    copied = run("consume", topic, "-e", "--json").stdout
    run("topics", "create", f"copy-{topic}", "-p", "2")
    said = run("produce", f"copy-{topic}", "-J", given=copied).stderr.decode()
    assert "100 records delivered" in said
    assert f"50 records name partitions that copy-{topic} does not have" in said
    assert len(run("consume", f"copy-{topic}", "-e").stdout.splitlines()) == 100


# kavka reassign


def test_a_plan_without_moves_can_be_executed(run: Run, topic: str) -> None:
    plan = run("reassign", "plan", "--topic", topic).stdout
    assert json.loads(plan)["partitions"] == []
    assert b"Nothing to move" in run("reassign", "execute", "-", given=plan).stderr


def test_a_plan_that_cannot_be_made_writes_nothing(run: Run, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "move.json"
    assert b"there is no live broker 9" in run("reassign", "plan", "--brokers", "1,9", "-o", str(file), status=1).stderr
    assert not file.exists()
    run("reassign", "plan", "--topic", topic, "-o", str(file))
    assert json.loads(file.read_text())["version"] == 1
    assert b"it is empty" in run("reassign", "execute", "-", status=1).stderr


# Settings


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("configs", "set", "--broker", "1", "num.partitions=3"), "num.partitions cannot be changed while the broker"),
        (("topics", "create", "t", "--set", "segment.bytes=99999999999"), "segment.bytes=99999999999: out of range"),
        (("topics", "create", "t", "--set", "retention.mss=1"), "did you mean retention.ms?"),
    ],
)
def test_a_refused_setting_is_explained_in_words_of_this_program(run: Run, words: tuple[str, ...], said: str) -> None:
    refused = run(*words, status=1).stderr.decode()
    assert said in refused
    assert "Set(" not in refused
    assert "INT" not in refused


def test_a_setting_that_nobody_knows_is_taken_with_a_word(run: Run) -> None:
    assert b"did you mean num.partitions?" in run("configs", "set", "--broker", "1", "num.partition=3").stderr
    assert (
        b"did you mean num.io.threads?" in run("configs", "describe", "--broker", "1", "num.io.thread", status=2).stderr
    )


def test_records_that_cannot_be_deleted_are_refused_in_words(run: Run, topic: str) -> None:
    beyond = run("records", "delete", topic, "--before", "5000", "--yes", status=1).stderr.decode()
    assert "the offset is beyond the end of the log" in beyond
    missing = run("records", "delete", topic, "-p", "77", "--all", "--yes", status=1).stderr.decode()
    assert f"{topic} has no partition 77: it has 6 partitions" in missing
    assert b"there is no topic nosuch" in run("records", "delete", "nosuch", "--all", "--yes", status=1).stderr


# Brokers that are not there


@pytest.mark.parametrize(
    ("bootstrap", "why", "next_step"),
    [
        ("127.0.0.1:{unused}", "refused the connection", "is a broker running at 127.0.0.1:{unused}?"),
        ("no-such-host.invalid:9092", "the name no-such-host.invalid cannot be resolved", "correct the name"),
        ("127.0.0.1:{http}", "127.0.0.1:{http} speaks HTTP, not Kafka's protocol", "name a broker's own port"),
    ],
)
def test_a_broker_that_is_not_there_is_an_error_at_once(bootstrap: str, why: str, next_step: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as web:
        ports = {"unused": str(free_port()), "http": str(web.getsockname()[1])}
        answering = threading.Thread(target=answer_in_http, args=(web,), daemon=True)
        answering.start()
        began = time.monotonic()
        result = run_alone("topics", "list", "-b", bootstrap.format(**ports))
        took_s = time.monotonic() - began
    assert result.returncode == 1
    assert why.format(**ports) in result.stderr.decode()
    assert f"Next: {next_step.format(**ports)}" in result.stderr.decode()
    assert took_s < PATIENCE_MS / 1000, "it was not tried again"


def answer_in_http(server: socket.socket) -> None:
    try:
        connection, _ = server.accept()
    except OSError:
        return  # Nobody came.
    with connection:
        connection.recv(1024)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize("words", [("consume", "waiting"), ("produce", "waiting")], ids=["consume", "produce"])
def test_a_command_says_for_which_broker_it_waits(start_kavka: StartKavka, words: tuple[str, ...]) -> None:
    broker = start_kavka()
    run_alone("topics", "create", "waiting", "-b", broker.bootstrap)
    process = subprocess.Popen(
        [PROGRAM, *words, "-b", broker.bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if words[0] == "consume":
            run_alone("produce", "waiting", "-b", broker.bootstrap, given=b"before\n")
            assert process.stdout.readline() == b"before\n"
        else:
            process.stdin.write(b"before\n")
            process.stdin.flush()
            assert run_alone("consume", "waiting", "-c", "1", "-b", broker.bootstrap).stdout == b"before\n"
        broker.kill()
        process.stdin.write(b"after\n")
        process.stdin.close()
        said = process.stderr.readline().decode()
        assert said.startswith("Waiting: ")
        assert f"{broker.bootstrap} refused the connection" in said
        broker.start()
        if words[0] == "consume":
            assert process.stderr.readline() == b"Connected.\n"
        else:
            assert b"2 records delivered" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def test_the_console_says_which_cluster_does_not_answer(tmp_path: Path) -> None:
    words = ("console", "-b", "mine=no-such-host.invalid:9092", "--port", "0", "--data", str(tmp_path / "console"))
    process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("The console is ready: http://127.0.0.1:")
        said = process.stdout.readline()
        assert said.startswith("Cluster mine does not answer (no-such-host.invalid:9092: Name or service not known).")
    finally:
        process.kill()
        process.communicate()


# Habits of Kafka's own tools


def test_options_of_kafkas_tools_are_understood(run: Run, kavka_broker: KavkaProcess) -> None:
    name = f"habits{time.time_ns()}"
    server = ("--bootstrap-server", kavka_broker.bootstrap)
    run("topics", "create", "--topic", name, "--partitions", "2", "--replication-factor", "1", "--config", "flush.ms=5")
    assert f"{name}\t2\t1" in run("topics", "--list", *server).stdout.decode()
    assert "flush.ms=5" in run("topics", "describe", "--topic", name, *server).stdout.decode()
    run("produce", "--topic", name, *server, given=b"1\n2\n3\n")
    read = run("consume", "--topic", name, "--from-beginning", "--max-messages", "2", "-g", name, *server)
    assert len(read.stdout.splitlines()) == 2
    assert name in run("groups", "--list", *server).stdout.decode()
    run("topics", "alter", "--topic", name, "--partitions", "3")
    run("topics", "delete", "--topic", name, "--yes")
    assert name not in run("topics", "--list").stdout.decode()


def test_what_is_not_there_is_told_before_anybody_is_asked_with_the_name_that_was_meant(run: Run) -> None:
    name = f"greetings{time.time_ns()}"
    wrong = name.replace("greetings", "gretings")
    run("topics", "create", name)
    run("produce", name, given=b"hello\n")
    run("consume", name, "-e", "-g", name)
    meant = f"Error: there is no topic {wrong}\n  Next: did you mean {name}? `kavka topics list` shows all\n"
    asked: tuple[tuple[str, ...], ...] = (
        ("topics", "delete", wrong),
        ("topics", "delete", wrong, "--yes"),
        ("topics", "describe", wrong),
        ("consume", wrong, "-e"),
        ("configs", "describe", "--topic", wrong),
        ("why", wrong),
    )
    with ThreadPoolExecutor(len(asked)) as side_by_side:  # Each waits for a topic that may be new.
        told = side_by_side.map(lambda words: run(*words, status=1).stderr.decode(), asked)
        assert {words: each.endswith(meant) for words, each in zip(asked, told, strict=True)} == dict.fromkeys(
            asked, True
        )
    assert "This would delete 1 topic" in run("topics", "delete", name, status=2).stderr.decode()
    no_group = f"Error: there is no group {wrong}\n  Next: did you mean {name}? `kavka groups list` shows all\n"
    for words in (
        ("groups", "delete", wrong),
        ("groups", "delete", wrong, "--yes"),
        ("groups", "describe", wrong),
    ):
        assert run(*words, status=1).stderr.decode() == no_group, words
    nothing_like_it = run("groups", "delete", "x" * 30, status=1).stderr.decode()
    assert nothing_like_it.endswith("  Next: `kavka groups list` shows all\n")


@pytest.mark.parametrize("words", [("topics", "create"), ("topics", "delete"), ("produce",), ("consume",)])
def test_a_command_without_its_topic_says_how_to_name_it(run: Run, words: tuple[str, ...]) -> None:
    said = run(*words, status=2).stderr.decode()
    assert "no topic is named" in said
    assert f"for example kavka {' '.join(words)} orders" in said


def test_what_a_plain_broker_does_not_have_is_said_with_the_command_that_starts_one_that_has(run: Run) -> None:
    refused = run("acls", "list", status=1).stderr.decode()
    assert "Next: start the brokers with `kavka up --secure`" in refused
    assert run("transactions", "list").stderr == b"There are no transactional ids.\n"
    assert run("transactions", "list", "--state", "Ongoing").stderr == b"No transaction matches.\n"
    assert b"checks could not be made; `kavka health --all` names them, and says why.\n" in run("health").stdout


def test_a_terminal_that_cannot_be_redrawn_gets_one_look_at_the_brokers(kavka_broker: KavkaProcess) -> None:
    """It was left blank."""
    here, there = pty.openpty()
    command = [str(PROGRAM), "top", "-b", kavka_broker.bootstrap]
    with subprocess.Popen(command, stdout=there, env={**os.environ, "TERM": "dumb"}) as running:
        os.close(there)
        shown = b""
        with suppress(OSError):  # The other end is closed.
            while part := os.read(here, 1 << 16):
                shown += part
    os.close(here)
    assert running.returncode == 0
    assert b"controller 1" in shown
    assert b"127.0.0.1" in shown.partition(b"Brokers")[2]
