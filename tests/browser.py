"""A real browser for tests of pages: what a page's script made of it, and how wide it is.

tools/setup.sh installs Chromium where none of BROWSERS is there and it may.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)


def dump_dom(file: Path, *, width: int = 1280, profile: Path) -> str:
    """The page's elements after its scripts ran, as HTML."""
    assert BROWSER is not None
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    words += ["--virtual-time-budget=5000", f"--user-data-dir={profile}", "--dump-dom", file.as_uri()]
    return subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
