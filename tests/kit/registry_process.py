"""RegistryProcess: one `kavka schema-registry` in a process of its own, for tests that ask it.

I1  A process is ended by the pid that was started here.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.kit.command_server import PROGRAM
from tests.kit.ports import free_port
from tests.kit.server_process import ForkedServer, begin

READY = "The schema registry is ready"
READY_S = 60.0
END_S = 60.0


class RegistryProcess:
    """`start` and `stop` as often as a test likes: it keeps its port."""

    def __init__(self, bootstrap: str, directory: Path, *options: str, name: str = "registry") -> None:
        """options: further ones of the command, such as --topic NAME."""
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.log_file = directory / f"{name}.log"
        self._command = [str(PROGRAM), "schema-registry", "-b", bootstrap, "--port", str(self.port), *options]
        self._process: ForkedServer | subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers. Raises AssertionError with its log where it does not."""
        ready = self.log.count(READY)
        with self.log_file.open("ab") as log:
            self._process = begin(self._command, log, environment={**os.environ, "LC_ALL": "C.UTF-8"})
        deadline = time.monotonic() + READY_S
        while self.log.count(READY) <= ready and time.monotonic() < deadline:
            assert self._process.poll() is None, self.log
            time.sleep(0.05)
        assert self.log.count(READY) > ready, self.log

    def fails(self) -> str:
        """Starts it, waits for its end, and returns what it said."""
        with self.log_file.open("ab") as log:
            self._process = begin(self._command, log, environment={**os.environ, "LC_ALL": "C.UTF-8"})
        assert self._process.wait(READY_S) != 0, self.log
        return self.log

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
        """SIGKILL: nothing is put in order."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._process = None

    def ask(self, method: str, path: str, body: Any = None, *, timeout_s: float = 60.0) -> tuple[int, Any]:
        """One request: status, and what the answer's JSON says."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as problem:
            with problem:
                return problem.code, json.loads(problem.read())

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    def __enter__(self) -> RegistryProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
