"""A reader who types what stands on a page, block by block, and compares what comes with what the page shows.

    python reader.py [--patiently] [--with-kafka zk|kraft] PAGE

Runs in namespaces of its own for network and processes (`in_a_room_of_its_own`), so that the ports of the page are free
and `pkill` meets nobody else, and in an empty directory. Ends with status 1 and the line of the page at what does not
come as it says.

* `sh`: each command line must end with status 0. What serves (`kavka up`) goes on beside it once it says that it is
  ready, until the page starts another; what shows something live (`kavka top`) is looked at, and ended with Ctrl-C.
* `text` right after such a block: what its commands printed. `console`: commands after `$ ` with what they print, and
  with status 0, or another where `Error:` is shown. Numbers may differ, as may the width of columns; a line `...`
  stands for any lines, and `...` in a line for any text. `export NAME=VALUE` holds for all that is typed later.
* `python`: a program; those of a page share their names, as in a notebook. A file of tests is run by pytest.
* `properties`: a broker starts with it. `json`, `toml`, `yaml`: a file whose form is right.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.apache_kafka.release import VERSIONS
from tests.apache_kafka.scripts import lay_scripts
from tests.integration.documentation.page import GIVEN, PROJECT, TAKES_MINUTES, Block, blocks, commands

COMMAND_S, SERVER_S, STOP_S = 120, 60, 60
LOOK_S, LOOK_AT_SPARK_S = 3, 40
SOON_S = 60
"""What a command is to show of a cluster may come a moment after the cause: so long it is asked again."""
LOOKING = re.compile(r"^kavka (why|brokers|health)\b")
SERVING = re.compile(
    r"^kavka (up|server|host|container|zookeeper|console|schema-registry)\b"
    r"(?! user| rights| audit)(?!.* --(status|restart))"
)
LIVE = re.compile(r"^kavka (top\b(?!.*--once)|pipeline watch|pipeline run .*--continuous)")
EXPORT = re.compile(r"^export (\w+)=([\w.:,/-]+)$")
BROKERS = ("up", "server", "container")
READY = re.compile(r"\bis ready\b")
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
NOTEBOOK = """
import sys, traceback
names = {"__name__": "__main__"}
for path in sys.stdin:
    path = path.strip()
    try:
        exec(compile(open(path).read(), path, "exec"), names)
        print("\\0done", flush=True)
    except BaseException:
        traceback.print_exc(file=sys.stdout)
        print("\\0failed", flush=True)
"""


class NotAsWritten(Exception):
    """The page says something else than what came. The message says where, what, and what came."""


def in_a_room_of_its_own(*words: str) -> list[str]:
    """The command line that runs `words` in its own namespaces for network and processes. Its loopback is down. A shell
    is the first process there: it takes in what a command left in the background, as a machine's first process does."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    room = ["unshare", *as_root, "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [*room, "sh", "-c", '"$@"; exit $?', "sh", *words]


def follow(page: Path, *options: str, patience_s: float) -> subprocess.CompletedProcess[str]:
    """Has a reader follow the page in a room of its own: status 0 where all comes as it says."""
    return subprocess.run(
        in_a_room_of_its_own(sys.executable, "-m", __spec__.name, *options, str(page)),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("--patiently", action="store_true", help="also what takes minutes")
    parser.add_argument("--with-kafka", choices=list(VERSIONS), help="bin/ of this Apache Kafka is in the directory")
    options = parser.parse_args()
    _raise_loopback()
    # The console of a cluster that was killed may be writing still; it ends with this room.
    with tempfile.TemporaryDirectory(prefix="reader-", ignore_cleanup_errors=True) as directory:
        if options.with_kafka:
            lay_scripts(Path(directory), options.with_kafka)
        reader = Reader(options.page, Path(directory), patient=options.patiently)
        try:
            reader.follow()
        except NotAsWritten as surprise:
            print(surprise)
            return 1
        finally:
            reader.leave()
    return 0


def _raise_loopback() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))


class Reader:
    def __init__(self, page: Path, directory: Path, *, patient: bool) -> None:
        self._page, self._directory, self._patient = page, directory, patient
        self._serving: list[tuple[str, subprocess.Popen[bytes], Path]] = []
        self._notebook: subprocess.Popen[str] | None = None
        self._came = ""
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(directory),
            "COLUMNS": "120",
            "PYTHONUNBUFFERED": "1",
        }
        for name in ("KAVKA_NO_CONSOLE", "KAVKA_BOOTSTRAP", "PYTEST_ADDOPTS", "PYTHONPATH"):
            self._environment.pop(name, None)

    def follow(self) -> None:
        for block in blocks(self._page):
            if block.not_run is not None and not (self._patient and block.not_run == TAKES_MINUTES):
                self._came = ""
                continue
            begun = time.monotonic()
            self._take(block)
            print(
                f"{self._page.name}:{block.first_line} {block.language}: {time.monotonic() - begun:.1f} s", flush=True
            )

    def leave(self) -> None:
        """Ends what serves. The room's end would kill it, but a server that does not stop is a fault of its own."""
        for _, process, _ in self._serving:
            if process.poll() is None:
                process.kill()
                process.wait()
        if self._notebook is not None:
            self._notebook.kill()
            self._notebook.communicate()

    def _take(self, block: Block) -> None:
        match block.language:
            case "sh" | "given":
                self._type(block)
            case "console":
                self._compare_each(block)
            case "text":
                if not block.follows_a_block:
                    raise self._surprise(block, 1, "a text that is the output of nothing; `an incident` is a reason")
                self._compare(block, 1, block.lines, self._shown())
            case "python":
                self._run_program(block)
            case "properties":
                (self._directory / "documented.properties").write_text("\n".join(block.lines))
                self._serve(block, 1, "kavka server documented.properties")
            case "json":
                json.loads("\n".join(block.lines))
            case "toml":
                tomllib.loads("\n".join(block.lines))
            case "yaml":
                yaml.safe_load("\n".join(block.lines))
            case language:
                raise self._surprise(block, 1, f"nothing here runs {language}")

    # -- commands

    def _type(self, block: Block) -> None:
        came = []
        for number, command in commands(block.lines):
            reason = block.lines_not_run.get(number)
            if reason is not None and not (self._patient and reason == TAKES_MINUTES):
                continue
            status, printed = self._run(block, number, command)
            if status != 0:
                raise self._surprise(block, number, f"status {status} after `{command}`", printed)
            came.append(printed)
        if block.language != GIVEN:
            self._came = "".join(came)

    def _compare_each(self, block: Block) -> None:
        starts = [number for number, line in enumerate(block.lines, 1) if line.startswith("$ ")]
        for number, end in zip(starts, [*(start - 1 for start in starts[1:]), len(block.lines)], strict=True):
            command, shown = block.lines[number - 1].removeprefix("$ "), block.lines[number:end]
            deadline = time.monotonic() + (SOON_S if LOOKING.match(command) else 0)
            while True:
                status, printed = self._run(block, number, command)
                try:
                    if (status != 0) != any(line.startswith("Error:") for line in shown):
                        raise self._surprise(block, number, f"status {status}", printed)
                    self._compare(block, number + 1, shown, printed)
                    break
                except NotAsWritten:
                    if time.monotonic() > deadline:
                        raise

    def _run(self, block: Block, number: int, command: str) -> tuple[int, str]:
        if SERVING.match(command):
            return 0, self._serve(block, number, command)
        if LIVE.match(command):
            return self._look(command)
        if exported := EXPORT.match(command):
            self._environment[exported[1]] = exported[2]
            return 0, ""
        try:
            ended = subprocess.run(
                ["bash", "-o", "pipefail", "-c", command],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=COMMAND_S * (10 if self._patient else 1),
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            printed = (late.stdout or b"").decode()
            raise self._surprise(block, number, f"`{command}` is not over after {late.timeout} s", printed) from late
        return ended.returncode, ended.stdout.decode()

    def _serve(self, block: Block, number: int, command: str) -> str:
        """Starts what serves and waits until it is ready. Brokers take turns: those that run are stopped first."""
        found = SERVING.match(command)
        assert found is not None
        if found[1] in BROKERS:
            self._stop_brokers(block, number)
        log = self._directory.parent / f"{self._directory.name}-{block.first_line}-{number}.log"
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._serving.append((found[1], process, log))
        deadline = time.monotonic() + SERVER_S
        while not READY.search(log.read_text()):
            if process.poll() is not None:
                raise self._surprise(block, number, f"status {process.returncode} after `{command}`", log.read_text())
            if time.monotonic() > deadline:
                raise self._surprise(block, number, f"`{command}` is not ready after {SERVER_S} s", log.read_text())
            time.sleep(0.05)
        said = -1  # What it prints right after that line belongs to it.
        while said != (said := log.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.2)
        return log.read_text()

    def _stop_brokers(self, block: Block, number: int) -> None:
        """Ctrl-C, as a terminal sends it: to the whole foreground group."""
        for kind, process, log in [entry for entry in self._serving if entry[0] in BROKERS]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired as late:
                    raise self._surprise(block, number, f"{kind} did not stop after Ctrl-C", log.read_text()) from late
                if process.returncode not in (0, 130):
                    raise self._surprise(block, number, f"{kind} ended with {process.returncode}", log.read_text())
            self._serving.remove((kind, process, log))

    def _look(self, command: str) -> tuple[int, str]:
        found = LIVE.match(command)
        assert found is not None
        process = subprocess.Popen(
            shlex.split(command, comments=True),
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate(timeout=LOOK_AT_SPARK_S if found[1].startswith("pipeline") else LOOK_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            printed, _ = process.communicate(timeout=COMMAND_S)
            return 0 if process.returncode in (0, 130, -signal.SIGINT) else process.returncode, printed.decode()
        return process.returncode, printed.decode()  # Without a terminal it may look once.

    def _shown(self) -> str:
        """What the last block printed; a server may have gone on since."""
        return self._came

    # -- programs

    def _run_program(self, block: Block) -> None:
        file = (
            self._directory / f"{'test_' if 'def test_' in ''.join(block.lines) else ''}program_{block.first_line}.py"
        )
        file.write_text("\n".join(block.lines) + "\n")
        if file.name.startswith("test_"):
            status, printed = self._run(block, 1, f"{sys.executable} -m pytest -q -p no:cacheprovider {file.name}")
            if status != 0:
                raise self._surprise(block, 1, "its tests fail", printed)
            return
        if self._notebook is None:
            self._notebook = subprocess.Popen(
                [sys.executable, "-c", NOTEBOOK],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        assert self._notebook.stdin is not None
        assert self._notebook.stdout is not None
        self._notebook.stdin.write(f"{file}\n")
        self._notebook.stdin.flush()
        printed = []
        for line in self._notebook.stdout:
            if line.startswith("\0"):
                self._came = "".join(printed)
                if line != "\0done\n":
                    raise self._surprise(block, 1, "the program fails", self._came)
                return
            printed.append(line)
        raise self._surprise(block, 1, "the program ended its interpreter", "".join(printed))

    # -- comparisons

    def _compare(self, block: Block, number: int, shown: tuple[str, ...], came: str) -> None:
        """What is shown between two lines `...` must come in one piece, and the pieces in order."""
        lines = [_level(line) for line in came.splitlines() if line.strip()]
        position = 0
        for piece in _pieces(shown):
            ends = [at + len(piece) for at in range(position, len(lines)) if _is_at(piece, lines, at)]
            if not ends:
                raise self._surprise(block, number, "this does not come:\n" + "\n".join(piece), came)
            position = ends[0]

    def _surprise(self, block: Block, number: int, what: str, came: str = "") -> NotAsWritten:
        where = f"{self._page.name}:{block.first_line + number - 1}"
        return NotAsWritten(f"{where}: {what}" + (f"\n--- came:\n{came[-6000:]}" if came else ""))


def _level(line: str) -> str:
    """A line without what differs from run to run: numbers, and the width of columns."""
    return " ".join(re.sub(r"\d+", "0", line).split())


def _pieces(shown: tuple[str, ...]) -> Iterator[list[str]]:
    piece: list[str] = []
    for line in [*shown, "..."]:
        if line.strip() != "...":
            piece += [line] if line.strip() else []
        elif piece:
            yield piece
            piece = []


def _is_at(piece: list[str], lines: list[str], at: int) -> bool:
    if at + len(piece) > len(lines):
        return False
    return all(re.fullmatch(_pattern(line), lines[at + number]) for number, line in enumerate(piece))


def _pattern(line: str) -> str:
    return ".*".join(re.escape(part) for part in _level(line).split("..."))


if __name__ == "__main__":
    sys.exit(main())
