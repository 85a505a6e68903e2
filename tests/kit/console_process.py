"""ConsoleProcess: one `kavka console` in a process of its own, for tests that look at its pages.

I1  A process is ended by the pid that was started here.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from types import TracebackType

from tests.kit.command_server import PROGRAM
from tests.kit.ports import free_port
from tests.kit.server_process import ForkedServer, begin

READY_S = 60.0
END_S = 60.0


class ConsoleProcess:
    """`start` and `stop` as often as a test likes: it keeps its port and its data."""

    def __init__(self, settings: str, directory: Path, *, scheme: str = "http") -> None:
        """`settings`: TOML, without port and data; $PORT in it is the port. scheme: https where they name
        a certificate."""
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.address = f"{scheme}://127.0.0.1:{self.port}"
        self.log_file = directory / "console.log"
        self._settings = directory / "console.toml"
        self._settings.write_text(
            f'port = {self.port}\ndata = "{directory / "data"}"\n{settings}'.replace("$PORT", str(self.port)),
            encoding="utf-8",
        )
        self._process: ForkedServer | subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers. Raises AssertionError with its log where it does not."""
        ready = self.log.count("The console is ready") if self.log_file.exists() else 0
        command = [str(PROGRAM), "console", "--settings", str(self._settings)]
        with self.log_file.open("ab") as log:
            self._process = begin(command, log, environment={**os.environ, "LC_ALL": "C.UTF-8"})
        deadline = time.monotonic() + READY_S
        while self.log.count("The console is ready") <= ready and time.monotonic() < deadline:
            assert self._process.poll() is None, self.log
            time.sleep(0.05)
        assert self.log.count("The console is ready") > ready, self.log

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """SIGKILL: nothing is put in order. `start` goes on with what it left."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def failures(self) -> list[str]:
        """Lines of its log that tell of a bug."""
        return re.findall(r"^.*(?:level=error|Traceback|page failed).*$", self.log, re.MULTILINE)

    def __enter__(self) -> ConsoleProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
