"""Wrong usage, help, a broker that is not there, and files of logs: nothing here needs a broker that runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kavka.records.builder import BatchBuilder
from tests.kit.command_line import run_alone


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["topics", "create"],
        ["topics", "create", "t", "-p", "0"],
        ["topics", "create", "t", "--set", "retention.ms"],
        ["topics", "alter", "t"],
        ["topics", "delete", "t"],
        ["produce", "t", "-a", "most"],
        ["produce", "t", "-z", "rar"],
        ["produce", "t", "-D", ""],
        ["produce", "t", "-H", "=v"],
        ["consume", "t", "-o", "somewhere"],
        ["consume", "t", "-f", "%y"],
        ["consume", "t", "-c", "0"],
        ["configs", "describe"],
        ["configs", "describe", "--topic", "t", "--broker", "1"],
        ["configs", "describe", "--broker", "one"],
        ["configs", "set", "--topic", "t", "--group", "g", "retention.ms=1"],
        ["configs", "set", "--topic", "t", "retention.ms"],
        ["topics", "list", "-b", "host:port"],
        ["up", "--set", "broker.id"],
        ["up", "--host", "0.0.0.0"],
        ["up", "--port", "70000"],
        ["up", "--brokers", "0"],
        ["up", "--log-level", "loud"],
        ["server"],
        ["groups", "list", "--state", "Stabel"],
        ["groups", "list", "--type", "clasic"],
        ["transactions", "list", "--state", "Onging"],
    ],
)
def test_wrong_usage_ends_with_2_and_says_what_is_right(words: list[str]) -> None:
    result = run_alone(*words)
    assert result.returncode == 2
    assert b"Next: " in result.stderr or b"--help" in result.stderr or b"-h' for help" in result.stderr
    assert b"Traceback" not in result.stderr
    assert result.stdout == b""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["up", "--port", "70000"], ("70000", "65535")),
        (["up", "--brokers", "0"], ("--brokers", "0", "1")),
        (["up", "-p", "many"], ("--port", "many")),
        (["topics", "create", "t", "-p", "0"], ("--partitions", "0", "1")),
        (["simulate", "--hours", "long"], ("--hours", "long")),
        (["consume", "t", "--ack", "maybe"], ("--ack", "maybe", "release")),
    ],
)
def test_a_wrong_value_is_shown_with_its_option_and_what_is_right(words: list[str], said: tuple[str, ...]) -> None:
    problem = run_alone(*words).stderr.decode().splitlines()[0]
    assert all(each in problem for each in said), problem
    assert "Input should" not in problem
    assert "Value error" not in problem


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["consume", "t", "-f", "%y"], "kavka consume"),
        (["produce", "t", "-H", "=v"], "kavka produce"),
        (["topics", "alter", "t", "-p", "2", "--topic", "v"], "kavka topics alter"),
    ],
)
def test_a_mistake_without_a_better_step_points_to_its_own_commands_help(words: list[str], command: str) -> None:
    assert f"`{command} --help` shows options and examples" in run_alone(*words).stderr.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trace"], "TOPIC-PARTITION@OFFSET is missing, for example kavka trace orders-3@4711"),
        (["dump-log"], "PATH is missing, for example kavka dump-log"),
        (["configs", "set", "--topic", "orders"], "NAME=VALUE is missing, for example kavka configs set"),
    ],
)
def test_a_missing_argument_is_named_with_an_example(words: list[str], said: str) -> None:
    assert said in run_alone(*words).stderr.decode().splitlines()[0]


@pytest.mark.parametrize(
    ("words", "problem", "step"),
    [
        (["log-dirs", "--to", "/data"], "--to needs --move", "kavka log-dirs --move orders-3"),
        (["why", "slow", "--principal", "User:a"], "--principal belongs to", "kavka why denied --principal User:alice"),
        (["why", "--topic", "t"], "--topic belongs to", "kavka why slow --topic t"),
        (
            ["groups", "reset-offsets", "g", "-t", "t", "--by-duration", "2x"],
            "--by-duration 2x is not a duration",
            "90s, 10m, 2h or 7d",
        ),
        (
            ["groups", "reset-offsets", "g", "--from-file", "no-such.csv"],
            "cannot read no-such.csv: No such file or directory",
            "--export prints one",
        ),
        (
            ["host", "f", "--restart", "--brokers", "3"],
            "apply only when a host starts",
            "stop the host and start it again",
        ),
        (["host", "f", "--restart", "--set", "a=b"], "apply only when a host starts", "stop the host and start"),
        (["trace", "orders-3"], "orders-3 is not a record", "TOPIC-PARTITION@OFFSET"),
    ],
)
def test_a_mistake_names_the_option_that_was_wrong(words: list[str], problem: str, step: str) -> None:
    first, following = run_alone(*words).stderr.decode().splitlines()[:2]
    assert problem in first
    assert step in following


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ([], "Usage: kavka COMMAND ..."),
        (["topics"], "Usage: kavka topics [OPTIONS] COMMAND ..."),
        (["configs"], "Usage: kavka configs [OPTIONS] COMMAND ..."),
    ],
)
def test_a_group_without_a_command_shows_its_commands(words: list[str], usage: str) -> None:
    shown = run_alone(*words)
    assert shown.returncode == 2
    assert shown.stdout.startswith(usage.encode())
    assert shown.stderr == b""


@pytest.mark.parametrize("command", ["up", "server", "produce", "consume", "dump-log"])
def test_help_has_examples(command: str) -> None:
    result = run_alone(command, "--help")
    assert result.returncode == 0
    if command != "server":
        assert f"kavka {command}".encode() in result.stdout
    assert b"\x1b[" not in result.stdout


def test_no_broker_there_is_a_failure_with_a_next_step(unused_port: int) -> None:
    result = run_alone("topics", "list", "-b", f"127.0.0.1:{unused_port}")
    assert result.returncode == 1
    assert b"start one with `kavka up`" in result.stderr
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["log.segment.bytes=1"], "log.segment.bytes: Value must be at least 14"),
        (["listeners=nonsense"], "is not NAME://host:port"),
        (["process.roles=broker"], "There are no KRaft roles"),
    ],
)
def test_a_broker_that_must_not_start_says_why(tmp_path: Path, settings: list[str], words: str) -> None:
    options = [option for setting in settings for option in ("--set", setting)]
    result = run_alone("up", "--data", str(tmp_path / "data"), "--port", "0", *options)
    assert result.returncode == 1
    assert words in result.stderr.decode()
    assert not (tmp_path / "data").exists()


def test_a_file_of_settings_that_is_not_there(tmp_path: Path) -> None:
    result = run_alone("server", str(tmp_path / "no.properties"))
    assert result.returncode == 1
    assert b"cannot read" in result.stderr


def segment(directory: Path) -> Path:
    """A segment of two batches: one record, then two."""
    first, second = BatchBuilder(), BatchBuilder()
    first.append(1000, b"k", b"v", [("h", b"x")])
    second.append(2000, None, None, ())
    second.append(2001, b"k2", b"\xff", ())
    file = directory / "00000000000000000000.log"
    file.write_bytes(bytes(first.build(base_offset=0)) + bytes(second.build(base_offset=1)))
    return file


def test_a_log_is_dumped_with_its_records(tmp_path: Path) -> None:
    file = segment(tmp_path)
    (document,) = json.loads(run_alone("dump-log", str(file), "--records", "--json").stdout)
    batches = [entry for entry in document["entries"] if "record" not in entry]
    records = [entry for entry in document["entries"] if "record" in entry]
    assert [(batch["offset"], batch["last_offset"], batch["records"]) for batch in batches] == [(0, 0, 1), (1, 2, 2)]
    assert [(record["record"], record["key"], record["value"]) for record in records] == [
        (0, "k", "v"),
        (1, None, None),
        (2, "k2", "\\xff"),
    ]
    assert records[0]["headers"] == {"h": "x"}
    assert b"OFFSET\tLAST_OFFSET\tRECORDS" in run_alone("dump-log", str(tmp_path)).stdout


def test_a_damaged_log_is_a_failure_that_names_the_place(tmp_path: Path) -> None:
    file = segment(tmp_path)
    whole = file.read_bytes()
    for damaged, said in [
        (whole[:-1], b"the file ends within a batch"),
        (whole[:-1] + b"\1", b"has a wrong CRC"),
        (whole + whole, b"offset 0 follows 2"),
        (whole + bytes(100), b"at byte "),
    ]:
        file.write_bytes(damaged)
        result = run_alone("dump-log", str(file), "--verify")
        assert result.returncode == 1
        assert said in result.stderr
        assert b"Traceback" not in result.stderr


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("x")
    for path in ("other.txt", "missing.log", ""):
        result = run_alone("dump-log", str(tmp_path / path))
        assert result.returncode == 1
        assert b"Next: " in result.stderr
    assert b"there is no file " in run_alone("dump-log", str(tmp_path / "missing.log")).stderr


# A name too long to exist fails for everybody; a directory without rights would not fail for root.
UNREACHABLE = "x" * 300


@pytest.mark.parametrize(
    ("words", "next_step"),
    [
        (["dump-log", UNREACHABLE], "name a file that you may read"),
        (["trace", "orders-0@0", "--data", UNREACHABLE], "name directories that you may read"),
        (["replay", UNREACHABLE], "name directories that you may read"),
        (["pipeline", "init", UNREACHABLE], "name another folder"),
        (["pipeline", "check", UNREACHABLE], "name a pipeline.yml that you may read"),
    ],
)
def test_a_path_that_cannot_be_reached_is_a_failure_that_says_why(words: list[str], next_step: str) -> None:
    result = run_alone(*words)
    assert result.returncode in (1, 2)
    assert b"File name too long" in result.stderr
    assert f"Next: {next_step}" in result.stderr.decode()
    assert b"Traceback" not in result.stderr


def test_a_pipeline_is_not_laid_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    result = run_alone("pipeline", "init", str(file))
    assert result.returncode == 2
    assert f"Error: {file} cannot be read: Not a directory" in result.stderr.decode()
    assert b"Next: name another folder" in result.stderr


@pytest.mark.parametrize(
    ("words", "would"),
    [
        (["topics", "delete", "a", "b"], "delete 2 topics with all records: a, b"),
        (
            ["records", "delete", "t", "-p", "3", "--before", "7"],
            "delete all records before offset 7 of partition 3 of t",
        ),
        (
            ["elect", "--unclean", "--all"],
            "let replicas lead that are not in sync, which may lose acknowledged records",
        ),
        (["transactions", "force-terminate", "id"], "fence the producer with transactional id 'id', and abort its"),
        (
            ["transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", "5"],
            "abort the transaction at offset 5 of t-0, even if its producer still works",
        ),
    ],
)
def test_without_yes_a_command_says_that_it_did_nothing(words: list[str], would: str) -> None:
    result = run_alone(*words)
    assert result.returncode == 2
    assert f"Error: Nothing was done. This would {would}" in result.stderr.decode()
    assert b"Next: add --yes" in result.stderr
