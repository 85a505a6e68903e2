"""ZooKeeperProcess: one `kavka zookeeper` in a process of its own. It knows the command line and the port only.

I1  The process is ended by the pid that was started here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from tests.kit.kavka_process import HOST, ProcessFailed
from tests.kit.ports import free_port


class ZooKeeperProcess:
    """Ports stay the same over `kill` and `start`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        tick_ms: int = 200,
        words: str = "*",
        options: tuple[str, ...] = (),
        securely: bool = False,
    ) -> None:
        """`securely`: the port has TLS, with the certificates that `options` name."""
        self.data_dir = data_dir
        self.port = free_port()
        self._port_option = "--secure-port" if securely else "--port"
        self._options = ("--tick-time", str(tick_ms), "--four-letter-words", words, *options)
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Returns when it serves. Raises ProcessFailed."""
        command = [sys.executable, "-m", "kavka.cli.main", "zookeeper", self._port_option, str(self.port), "--json"]
        self._process = subprocess.Popen(
            [*command, "--data", str(self.data_dir), *self._options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line or json.loads(line)["event"] != "ready":
            raise ProcessFailed(f"kavka zookeeper ended with {self._process.wait()}: {line}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """SIGTERM; returns the exit status."""
        assert self._process is not None
        self._process.terminate()
        status = self._process.wait(timeout=10)
        self._process = None
        return status

    def __enter__(self) -> ZooKeeperProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
