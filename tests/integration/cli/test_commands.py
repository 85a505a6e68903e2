"""Every command as a process of its own, against kavka and against Apache Kafka: the same words, the same answers."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command_line import PROGRAM, run_alone

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture(params=["kavka", pytest.param("apache", marks=pytest.mark.kafka)], scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    broker = request.getfixturevalue("kavka_broker" if request.param == "kavka" else "apache_kafka")
    address: str = broker.bootstrap
    return address


@pytest.fixture
def run(bootstrap: str) -> Run:
    """Runs one command against the broker."""

    def run_command(*words: str, given: bytes = b"", status: int = 0) -> subprocess.CompletedProcess[bytes]:
        result = run_alone(*words, given=given, KAVKA_BOOTSTRAP=bootstrap)
        assert result.returncode == status, result.stderr.decode()
        return result

    return run_command


@pytest.fixture
def topic(run: Run, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of one partition, for one test."""
    name = f"cli-{abs(hash(request.node.nodeid))}"
    run("topics", "create", name, "-p", "1")
    yield name
    run("topics", "delete", name, "--yes", "--if-exists")


def answer(result: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(result.stdout)


def lines(result: subprocess.CompletedProcess[bytes]) -> list[bytes]:
    return result.stdout.splitlines()


# Topics


def test_a_topic_from_its_creation_to_its_end(run: Run, bootstrap: str) -> None:
    name = f"life-{time.time_ns()}"
    run("topics", "create", name, "-p", "2", "--set", "retention.ms=86400000", "--dry-run")
    assert name not in run("topics", "list").stdout.decode()
    created = answer(run("topics", "create", name, "-p", "2", "--set", "retention.ms=86400000", "--json"))
    assert created == {"created": [name], "existing": [], "dry_run": False}
    assert {"topic": name, "partitions": 2, "replicas": 1, "internal": False}.items() <= next(
        listed for listed in answer(run("topics", "list", "--json")) if listed["topic"] == name
    ).items()
    run("topics", "alter", name, "-p", "3", "--set", "segment.ms=5000", "--unset", "retention.ms")
    (described,) = answer(run("topics", "describe", name, "--json"))
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert described["configs"] == {"segment.ms": "5000"}
    shown = run("topics", "describe", name).stdout.decode()
    assert f"# {name}: 3 partitions, 1 replica, 0 offsets in use" in shown
    assert "segment.ms=5000" in shown
    assert answer(run("topics", "delete", name, "--yes", "--json")) == {"deleted": [name], "missing": []}
    run("topics", "delete", name, "--yes", "--if-exists")
    failed = run("topics", "delete", name, "--yes", status=1)
    assert f"Error: there is no topic {name}\n".encode() in failed.stderr


def test_a_topic_that_is_there_already(run: Run, topic: str) -> None:
    failed = run("topics", "create", topic, status=1)
    assert b"--if-not-exists" in failed.stderr
    assert f"Topic {topic} is there already." in run("topics", "create", topic, "--if-not-exists").stdout.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["topics", "create", "bad name"], b"contains one or more characters other than"),
        (["topics", "create", "fine", "--set", "no.such=1"], b"no.such"),
        (["topics", "create", "fine", "--set", "segment.bytes=abc"], b"segment.bytes"),
        (["topics", "create", "fine", "-r", "5"], b"eplication factor"),
        (["topics", "describe", "no-such-topic"], b"no-such-topic"),
        (["topics", "alter", "no-such-topic", "-p", "3"], b"Next: see `kavka topics list`"),
        (["consume", "no-such-topic", "-e"], b"Next: see `kavka topics list`"),
        (["configs", "describe", "--topic", "no-such-topic"], b"Error: there is no topic no-such-topic\n"),
        (["configs", "set", "--topic", "no-such-topic", "retention.ms=1"], b"Error: there is no topic no-such-topic\n"),
        (["configs", "describe", "--broker", "9"], b"Error: there is no broker 9\n  Next: see `kavka brokers`"),
        (["reassign", "plan", "--brokers", "9"], b"Next: see `kavka brokers`"),
        (["reassign", "execute", "no-such-file"], b"Error: cannot read no-such-file: No such file or directory\n"),
    ],
)
def test_what_the_broker_refuses_is_an_error_with_its_words(run: Run, words: list[str], said: bytes) -> None:
    failed = run(*words, status=1)
    assert failed.stdout == b""
    assert failed.stderr.startswith(b"Error: ")
    assert said in failed.stderr
    assert b"Traceback" not in failed.stderr


# Records


def test_lines_go_in_and_come_out(run: Run, topic: str) -> None:
    sent = run("produce", topic, given=b"one\ntwo\n\nlast without an end")
    assert f"4 records delivered to {topic}" in sent.stderr.decode()
    assert run("consume", topic, "-e").stdout == b"one\ntwo\n\nlast without an end\n"


def test_keys_headers_partitions_and_formats(run: Run, topic: str) -> None:
    report = answer(run("produce", topic, "-K", ":", "-H", "a=1", "-H", "b", "-p", "0", "--json", given=b"k:v\nw\n"))
    assert (report["delivered"], report["failed"]) == (2, 0)
    assert report["partitions"] == [{"partition": 0, "records": 2, "first_offset": 0, "last_offset": 1}]
    form = "%t/%p/%o %k=%s [%h] %K %S\\n"
    assert lines(run("consume", topic, "-e", "-f", form, "-Z", "NULL")) == [
        f"{topic}/0/0 k=v [a=1,b=NULL] 1 1".encode(),
        f"{topic}/0/1 NULL=w [a=1,b=NULL] -1 1".encode(),
    ]
    assert run("consume", topic, "-e", "-K", "=", "-D", ";").stdout == b"k=v;=w;"


def test_nulls_and_a_fixed_key(run: Run, topic: str) -> None:
    run("produce", topic, "-Z", "-K", ":", given=b"k:\n:v\n")
    run("produce", topic, "-k", "fixed", given=b"x\n")
    assert run("consume", topic, "-e", "-Z", "NULL", "-K", "=").stdout == b"k=NULL\nNULL=v\nfixed=x\n"


def test_any_bytes_survive_json_in_and_out(run: Run, topic: str, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(bytes(range(256)))
    run("produce", topic, str(binary), "--whole-files", "-H", "h=é")
    run("produce", topic, "-J", given='{"key": "ключ", "value": null, "timestamp": 1700000000000}\n'.encode())
    written = run("consume", topic, "-e", "--json").stdout
    first, second = map(json.loads, written.splitlines())
    assert first["headers"] == [{"name": "h", "value": "é"}]
    assert (second["key"], second["value"], second["timestamp"]) == ("ключ", None, 1_700_000_000_000)
    run("produce", topic, "-J", given=written)
    again = [json.loads(line) for line in lines(run("consume", topic, "-e", "--json", "-o", "2"))]
    assert [{**record, "offset": record["offset"] - 2} for record in again] == [first, second]


def test_codecs(run: Run, topic: str) -> None:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        run("produce", topic, "-z", codec, given=f"{codec} {'x' * 1000}\n".encode())
    assert [line.split()[0].decode() for line in lines(run("consume", topic, "-e"))] == codecs


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(run: Run, topic: str, acks: str) -> None:
    run("produce", topic, "-a", acks, given=b"x\n")
    assert run("consume", topic, "-c", "1").stdout == b"x\n"


def test_places_to_start_and_to_end(run: Run, topic: str) -> None:
    given = "".join(f'{{"value": "{n}", "timestamp": {1_700_000_000_000 + n}}}\n' for n in range(10)).encode()
    run("produce", topic, "-J", given=given)
    for words, numbers in [
        (["-e", "-o", "beginning"], range(10)),
        (["-e", "-o", "7"], range(7, 10)),
        (["-e", "-o", "-3"], range(7, 10)),
        (["-e", "-o", "-30"], range(10)),
        (["-e", "-o", "end"], range(0)),
        (["-c", "2", "-o", "4"], range(4, 6)),
        (["-e", "-o", "s@1700000000006"], range(6, 10)),
        (["-o", "s@1700000000002", "-o", "e@1700000000005"], range(2, 5)),
        (["-o", "e@1700000000003"], range(3)),
    ]:
        assert [int(line) for line in lines(run("consume", topic, *words))] == list(numbers), words


def test_a_group_goes_on_where_it_was(run: Run, topic: str) -> None:
    run("produce", topic, given=b"1\n2\n3\n")
    group = f"group-{topic}"
    assert run("consume", topic, "-g", group, "-c", "2").stdout == b"1\n2\n"
    assert run("consume", topic, "-g", group, "-c", "1").stdout == b"3\n"


def test_a_pipe_delivers_each_line_as_it_comes(run: Run, topic: str, bootstrap: str) -> None:
    words = [PROGRAM, "produce", topic, "-b", bootstrap]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"first\n")
        producer.stdin.flush()
        assert run("consume", topic, "-c", "1").stdout == b"first\n"
        producer.stdin.write(b"second\n")
        producer.stdin.close()
        assert producer.wait(30) == 0
    assert run("consume", topic, "-e").stdout == b"first\nsecond\n"


def test_a_reader_that_has_enough_is_no_failure(run: Run, topic: str, bootstrap: str) -> None:
    run("produce", topic, given=b"line\n" * 100_000)
    words = [str(PROGRAM), "consume", topic, "-b", bootstrap]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"line\n"
        consumer.stdout.close()
        assert consumer.wait(30) == 0
        assert consumer.stderr is not None
        assert consumer.stderr.read() == b""


def test_an_interrupt_ends_a_consumer_quietly(run: Run, topic: str, bootstrap: str) -> None:
    run("produce", topic, given=b"line\n")
    words = [str(PROGRAM), "consume", topic, "-u", "-b", bootstrap]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stdout is not None
        assert consumer.stdout.readline() == b"line\n"
        consumer.send_signal(signal.SIGINT)
        assert consumer.wait(30) == 130
        assert consumer.stderr is not None
        assert consumer.stderr.read() == b""


def test_a_record_that_is_too_large_fails_the_command(run: Run, topic: str) -> None:
    run("topics", "alter", topic, "--set", "max.message.bytes=1000")
    failed = run("produce", topic, given=b"x" * 2000 + b"\n", status=1)
    assert b"1 record not delivered" in failed.stderr


def test_a_line_that_is_no_json_fails_the_command(run: Run, topic: str) -> None:
    failed = run("produce", topic, "-J", given=b'{"value": "v"}\nnonsense\n', status=1)
    assert b"not JSON" in failed.stderr


# Settings


def test_settings_of_a_topic(run: Run, topic: str) -> None:
    assert b"Everything is at its default" in run("configs", "describe", "--topic", topic).stderr
    run("configs", "set", "--topic", topic, "retention.ms=5000", "cleanup.policy+=compact")
    run("configs", "set", "--topic", topic, "cleanup.policy-=delete")
    run("configs", "set", "--topic", topic, "segment.ms=5", "--dry-run")
    entries = answer(run("configs", "describe", "--topic", topic, "--json"))
    assert {e["name"]: e["value"] for e in entries if e["source"] == "TOPIC"} == {
        "cleanup.policy": "compact",
        "retention.ms": "5000",
    }
    run("configs", "unset", "--topic", topic, "cleanup.policy")
    shown = run("configs", "describe", "--topic", topic, "retention.ms", "cleanup.policy").stdout.decode()
    assert "retention.ms\t5000\ttopic\t" in shown
    assert "cleanup.policy\tdelete\tdefault\t" in shown


def test_a_misspelt_setting_cannot_be_unset(run: Run, topic: str) -> None:
    failed = run("configs", "unset", "--topic", topic, "retention.mss", status=2)
    assert b"there is no setting retention.mss\n  Next: did you mean retention.ms?" in failed.stderr
    failed = run("topics", "alter", topic, "--unset", "retention.mss", status=2)
    assert b"Next: did you mean retention.ms?" in failed.stderr
    run("configs", "unset", "--topic", topic, "retention.ms")


def test_a_topic_only_gains_partitions(run: Run, topic: str) -> None:
    assert b"Next: choose a larger number" in run("topics", "alter", topic, "-p", "1", status=1).stderr


def test_a_partition_that_is_not_there_is_not_called_a_missing_topic(run: Run, topic: str) -> None:
    failed = run("produce", topic, "-p", "77", given=b"x\n", status=1)
    assert f"Error: topic {topic} has partitions 0 to 0, not 77\n".encode() in failed.stderr
    assert b"not a name for a topic" in run("produce", "bad name", given=b"x\n", status=1).stderr


def test_settings_of_a_broker(run: Run) -> None:
    run("configs", "set", "--all-brokers", "log.cleaner.backoff.ms=14000")
    run("configs", "set", "--broker", "1", "log.cleaner.backoff.ms=13000")
    deadline = time.monotonic() + 60  # Apache Kafka's broker hears of a change from ZooKeeper.
    while True:
        (entry,) = answer(run("configs", "describe", "--broker", "1", "log.cleaner.backoff.ms", "--json"))
        if entry["value"] == "13000" or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    sources = [(synonym["value"], synonym["source"]) for synonym in entry["synonyms"]]
    assert sources == [("13000", "DYNAMIC_BROKER"), ("14000", "DYNAMIC_DEFAULT_BROKER"), ("15000", "DEFAULT")]
    run("configs", "unset", "--broker", "1", "log.cleaner.backoff.ms")
    run("configs", "unset", "--all-brokers", "log.cleaner.backoff.ms")
    assert len(answer(run("configs", "describe", "--broker", "1", "--all", "--json"))) > 300
    failed = run("configs", "set", "--broker", "1", "broker.id=9", status=1)
    assert b"broker.id cannot be changed while the broker runs" in failed.stderr


@pytest.mark.kafka
@pytest.mark.parametrize(
    "words", [["describe"], ["set", "share.auto.offset.reset=earliest"], ["unset", "share.auto.offset.reset"]]
)
def test_apache_kafka_with_zookeeper_has_no_settings_of_groups(words: list[str], apache_kafka: Any) -> None:
    failed = run_alone("configs", words[0], "--group", "workers", *words[1:], KAVKA_BOOTSTRAP=apache_kafka.bootstrap)
    assert failed.returncode == 1
    assert failed.stderr.startswith(b"Error: this cluster has no settings of groups\n")


def test_an_offset_beyond_the_end_is_said(run: Run, topic: str) -> None:
    run("produce", topic, given=b"a\nb\n")
    result = run("consume", topic, "-o", "7", "-e")
    assert result.stdout == b""
    assert f"{topic}-0: offset 7 is beyond the end of the log, 2" in result.stderr.decode()
    assert run("consume", topic, "-o", "7", "-e", "-q").stderr == b""
    assert run("consume", topic, "-o", "2", "-e").stderr == b""


def test_a_broker_that_is_not_there_has_no_story(run: Run, bootstrap: str) -> None:
    refused = run("why", "broker", "99", status=1).stderr.decode()
    assert "there is no broker 99" in refused or "this cluster has no topic __kavka_decisions" in refused


def test_what_is_not_there_has_no_story_and_what_was_meant_is_named(run: Run, topic: str) -> None:
    run("produce", topic, given=b"a\n")
    run("consume", topic, "-g", f"{topic}-readers", "-e", "-q")
    refused = run("why", "group", f"{topic}-reders", status=1).stderr.decode()
    if "Apache Kafka does not record its decisions" in refused:
        return
    assert f"there is no group {topic}-reders" in refused
    assert f"did you mean {topic}-readers? `kavka groups list` shows all" in refused
    refused = run("why", "slow", "--topic", f"{topic}x", status=1).stderr.decode()
    assert f"there is no topic {topic}x\n  Next: did you mean {topic}?" in refused
    assert b"further back" in run("why", "slow", "--topic", topic).stderr
