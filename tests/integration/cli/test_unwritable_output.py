"""Output that cannot be written: a full disk, a reader that has enough, and standard streams that are closed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kavka.records.builder import BatchBuilder
from tests.kit.command_line import PROGRAM
from tests.kit.kavka_process import KavkaProcess


def shell(line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which "$@" is the command."""
    command = ["bash", "-c", f"set -o pipefail; {line}", "bash", str(PROGRAM), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log whose records take more room than a pipe has."""
    builder = BatchBuilder()
    for number in range(5000):
        builder.append(1_700_000_000_000, None, f"record {number}".encode())
    path: Path = tmp_path_factory.mktemp("t-0") / f"{0:020}.log"
    path.write_bytes(builder.build())
    return str(path)


@pytest.mark.parametrize("words", [["--help"], ["dump-log", "--records"]])
def test_a_full_disk_under_the_output_is_an_error_with_a_next_step(words: list[str], log_file: str) -> None:
    ended = shell('"$@" > /dev/full', *words, *([log_file] if "dump-log" in words else []))
    assert ended.stderr.endswith(
        "Error: cannot write the output: No space left on device\n"
        "  Next: it is not complete: make room, and run this again\n"
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 1


def test_a_full_disk_under_records_is_the_same_error(kavka_broker: KavkaProcess) -> None:
    sent = shell('seq 1 20000 | "$@"', "produce", "much", "-q", "-b", kavka_broker.bootstrap)
    assert sent.returncode == 0, sent.stderr
    ended = shell('"$@" > /dev/full', "consume", "much", "-e", "-b", kavka_broker.bootstrap)
    assert "Error: cannot write the output: No space left on device\n" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 1


def test_a_reader_that_has_enough_is_an_end_and_not_a_failure(log_file: str, kavka_broker: KavkaProcess) -> None:
    for words in (["dump-log", "--records", log_file], ["consume", "much", "-e", "-b", kavka_broker.bootstrap]):
        ended = shell('"$@" | head -n 1', *words)
        assert "Traceback" not in ended.stderr
        assert "Exception" not in ended.stderr
        assert ended.returncode == 0, ended.stderr
        assert len(ended.stdout.splitlines()) == 1


def test_closed_standard_streams_are_like_dev_null(kavka_broker: KavkaProcess) -> None:
    """Else the connection to the broker is file 1, and closing it aborts the program."""
    ended = shell('"$@" >&-', "topics", "list", "-b", kavka_broker.bootstrap)
    assert (ended.returncode, ended.stderr) == (0, "")
    ended = shell('"$@" <&-', "produce", "nothing", "-b", kavka_broker.bootstrap)
    assert ended.returncode == 0, ended.stderr
    assert "0 records delivered to nothing" in ended.stderr + ended.stdout
