"""The playground as a web server shows it, for tests with a real browser."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playground.build import build

if TYPE_CHECKING:
    from playwright.sync_api import Page

SET_UP = Path(__file__).resolve().parents[2] / "tools" / "setup_pyodide.sh"
TOOLCHAIN_MISSING = 3
LOADED_MS = 120_000
"""Five seconds on a quiet machine. Tests share theirs."""


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


def until(page: Page, expression: str) -> None:
    """Waits; the page's own policy forbids the way in which the browser's driver would."""
    deadline_s = time.monotonic() + LOADED_MS / 1_000
    while not page.evaluate(expression):
        assert time.monotonic() < deadline_s, expression
        page.wait_for_timeout(50)


def choose(page: Page, place: str, action: str) -> None:
    """Opens the menu of a broker or a link on the map, and chooses from it."""
    page.locator(f"[data-key='{place}']").first.press("Enter")
    page.click(f".menu [data-action='{action}']")
