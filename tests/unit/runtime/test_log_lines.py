"""Log lines in processes of their own: how they look, and that one which cannot be written harms nobody."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

LINE = 'from kavka.logger import Logger; Logger("test").error("disk gone", path="/data"); print("went on")'
CONFIGURED = "from kavka.runtime.log_output import configure; configure(); "
NO_DESCRIPTOR_LEFT = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); "


def run(program: str, stderr: str | None = None) -> subprocess.CompletedProcess[str]:
    with Path(stderr or "/dev/null").open("w") as target:
        return subprocess.run(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if stderr is None else target,
            text=True,
            timeout=30,
        )


def test_a_line_has_its_event_and_keys() -> None:
    result = run(CONFIGURED + LINE)
    assert result.stdout == "went on\n"
    assert 'level=error event="disk gone" path=/data logger=test' in result.stderr


@pytest.mark.parametrize("form", ["configure()", "configure(as_json=True)"])
def test_a_line_is_written_in_one_call_so_that_processes_can_share_a_file(form: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-c", CONFIGURED.replace("configure()", form) + LINE],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            timeout=30,
            check=True,
        )
        ours.setblocking(False)
        written = ours.recv(65_536)
        assert b"disk gone" in written
        assert written.endswith((b"logger=test\n", b"}\n"))
        with pytest.raises(BlockingIOError):
            ours.recv(1)


def test_what_a_client_chose_cannot_look_like_another_line_or_move_a_cursor() -> None:
    program = CONFIGURED + (
        "from kavka.logger import Logger; Logger('test').error('refused', "
        "user='a\\0b\\x1b[2Jc\\r\\x85\\u2028\\u202ed\\nlevel=info', why=ValueError('\\0'))"
    )
    result = run(program)
    assert [line.count("refused") for line in result.stderr.split("\n")] == [1, 0]
    assert all(char == "\n" or char.isprintable() for char in result.stderr)
    assert r"a\x00b\x1b[2Jc\r\x85\u2028\u202ed\nlevel=info" in result.stderr.replace("\\\\", "\\")


@pytest.mark.parametrize("form", ["configure()", "configure(as_json=True)"])
def test_a_failure_is_shown_with_its_type_and_where_it_was_raised_in_one_line(form: str) -> None:
    program = CONFIGURED.replace("configure()", form) + (
        "from kavka.logger import Logger\ndef lose(): raise KeyError\ntry: lose()\n"
        "except KeyError as failure: Logger('test').error('unexpected failure', exc_info=failure)"
    )
    (line,) = run(program.replace("; from", "\nfrom")).stderr.splitlines()
    assert re.search(r"Traceback.*in lose.*KeyError", line)


def test_on_a_terminal_a_traceback_shows_no_variable_and_no_line_of_it_looks_like_an_event() -> None:
    program = (
        "import sys\nsys.stderr.isatty = lambda: True\n"
        + CONFIGURED
        + "\nfrom kavka.logger import Logger\nsecret = 'hunt' + 'er2'\n"
        + "def lose(password): raise KeyError\ndef refuse(): raise ValueError('\\x1b[2J\\nlevel=info')\n"
        + "for what in (lambda: lose(secret), refuse):\n    try: what()\n"
        + "    except Exception as failure: Logger('test').error('unexpected failure', exc_info=failure)"
    )
    shown = run(program).stderr
    assert "hunter2" not in shown
    assert re.search(r"Traceback[\s\S]*in lose[\s\S]*KeyError", shown)
    assert "\x1b[2J" not in shown
    assert r"\x1b[2J" in shown
    lines = [line for line in shown.splitlines() if "unexpected failure" not in line]
    assert all(line.startswith("    ") for line in lines)


def test_a_level_that_is_changed_holds_at_once() -> None:
    program = (
        "from kavka.logger import *; log = Logger('kavka.room.one'); log.debug('first'); "
        "process_levels.give('kavka.room', Level.DEBUG); log.debug('second'); "
        "process_levels.take('kavka.room'); log.debug('third'); log.info('fourth')"
    )
    result = run(CONFIGURED + program)
    assert re.findall(r"level=(\w+) event=(\w+) logger=(\S+)", result.stderr) == [
        ("debug", "second", "kavka.room.one"),
        ("info", "fourth", "kavka.room.one"),
    ]


def test_a_line_that_finds_a_full_disk_is_lost_and_nothing_else_is() -> None:
    result = run(CONFIGURED + LINE, stderr="/dev/full")
    assert (result.returncode, result.stdout) == (0, "went on\n")


def test_a_line_is_written_plainly_where_no_file_can_be_opened() -> None:
    result = run("from kavka.logger import Logger; " + CONFIGURED + NO_DESCRIPTOR_LEFT + LINE)
    assert (result.returncode, result.stdout) == (0, "went on\n")
    assert "disk gone" in result.stderr
    assert "Too many open files" in result.stderr
