"""ObjectStore: a store with Amazon S3's interface on this machine, by moto's server.

moto is installed into an environment of its own beside the other peers, for it brings half a hundred packages along.
Where it cannot be had, that is a PeerMissing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.apache_kafka import PeerMissing
from tests.kit.kavka_process import HOST, ProcessFailed
from tests.kit.ports import free_port

VERSION = "5.2.5"
PATIENCE_S = 120.0


class ObjectStore:
    """From `with` to its end, with one bucket. `environment` is what clients and Spark's tasks need."""

    def __init__(self, bucket: str, log: Path) -> None:
        self._program = _installed()
        self.bucket, self._log, self._port = bucket, log, free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self._port}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def __enter__(self) -> ObjectStore:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._program), "-H", HOST, "-p", str(self._port)], stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._made_bucket():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.__exit__(None, None, None)
                raise ProcessFailed(f"moto did not start: {self._log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _made_bucket(self) -> bool:
        try:
            request = urllib.request.Request(f"{self.endpoint}/{self.bucket}", method="PUT")
            with urllib.request.urlopen(request, timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _installed() -> Path:
    home = Path(os.environ.get("PEERS_HOME", Path.home() / ".cache" / "kavka-peers")) / f"moto-{VERSION}"
    program = home / "bin" / "moto_server"
    if program.exists() and (home / ".complete").exists():
        return program
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [str(home / "bin" / "pip"), "install", "-q", f"moto[server,s3]=={VERSION}"],
    ):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise PeerMissing(f"moto cannot be installed: {made.stderr[-500:]}")
    (home / ".complete").touch()
    return program
