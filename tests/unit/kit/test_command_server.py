"""A command that a test forks off a server is a command: input, output, status, variables and directory are its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import server_process
from tests.kit.command_line import run_alone
from tests.kit.command_server import PROGRAM, run_forked
from tests.kit.process_cluster import eventually
from tests.kit.server_process import ForkedServer, begin


def test_it_says_what_a_process_of_its_own_says() -> None:
    for words in (
        ["--version"],
        ["topics", "--help"],
        ["topics", "lst"],
        ["why", "--at", "noon"],
        ["dump-log", "gone"],
    ):
        variables = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
        alone = subprocess.run([PROGRAM, *words], capture_output=True, env=variables, timeout=60, check=False)
        forked = run_alone(*words)

        assert (forked.returncode, forked.stdout, forked.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_its_directory_is_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert b"here" in run_alone("why", "--data", "here").stderr
    assert run_alone("why", "--data", "there").stderr != run_alone("why", "--data", "here").stderr


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    words = ["zookeeper", "--port", "0", "--data", str(tmp_path)]
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked(words, given=b"", environment=os.environ, timeout_s=0.5)
    assert run_alone("--version").returncode == 0


def test_the_server_ends_with_its_interpreter() -> None:
    program = (
        "from tests.kit import command_server\n"
        "from tests.kit.command_line import run_alone\n"
        "run_alone('--version')\n"
        "print(command_server._server._process.pid)\n"
    )
    project = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=project)
    eventually("the server ends", lambda: has_ended(int(done.stdout)))


def test_a_signal_to_one_that_has_ended_is_no_error() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    status, not_told_yet = os.pipe()
    server = ForkedServer(gone.pid, status, ["true"])

    server.kill()

    os.write(not_told_yet, (-9).to_bytes(4, "big", signed=True))
    os.close(not_told_yet)
    assert server.wait(60) == -9


def test_whose_process_is_gone_has_told_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its process id may be another's already while it counts as running."""
    monkeypatch.setattr(server_process, "_forks", True)  # `make conformance` begins each from nothing.
    with (tmp_path / "said").open("wb") as said:
        for _ in range(20):
            server = begin([str(PROGRAM), "zookeeper", "--port", "0", "--data", str(tmp_path / "data")], said)
            assert isinstance(server, ForkedServer)
            os.kill(server.pid, signal.SIGKILL)
            while Path(f"/proc/{server.pid}").exists():
                pass
            assert server.poll() == -signal.SIGKILL


def has_ended(pid: int) -> bool:
    """Whether the process is gone, or only waits for its parent to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
