"""The playground as a web server shows it, for tests with a real browser."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playground.build import build

SET_UP = Path(__file__).resolve().parents[2] / "tools" / "setup_pyodide.sh"
TOOLCHAIN_MISSING = 3


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Says nothing."""


def built(target: Path, *, compiled: bool = False) -> Path:
    """The playground's files; skips where Pyodide cannot be fetched."""
    found = subprocess.run([SET_UP], capture_output=True, text=True, timeout=240, check=False)
    if found.returncode == TOOLCHAIN_MISSING:
        pytest.skip(found.stderr.strip())
    assert found.returncode == 0, found.stderr
    build(target, Path(found.stdout.strip()), compiled=compiled)
    return target


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Its address, without a slash at the end."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
