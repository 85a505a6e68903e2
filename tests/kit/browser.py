"""A real browser for tests of pages: what a page's script made of it, how wide it is, and what bars readers from it.

tools/setup.sh installs Chromium where none of BROWSERS is there and it may.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SET_UP_AXE = Path(__file__).resolve().parents[2] / "tools" / "setup_axe.sh"
TOOLCHAIN_MISSING = 3
NARROW = 390
SERIOUS = ("serious", "critical")
EVERY_IMPACT = ("minor", "moderate", *SERIOUS)
"""What axe-core calls them."""
BROWSERS = ("chromium", "google-chrome", "chromium-browser")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)


def dump_dom(file: Path, *, width: int = 1280, profile: Path) -> str:
    """The page's elements after its scripts ran, as HTML."""
    assert BROWSER is not None
    words = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900"]
    words += ["--virtual-time-budget=5000", f"--user-data-dir={profile}", "--dump-dom", file.as_uri()]
    return subprocess.run(words, capture_output=True, text=True, timeout=120).stdout


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that is driven, headless; skips where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    if BROWSER is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page_of(
    browser: Browser, *, width: int = 1280, dark: bool = False, language: str = "en-GB", is_trusting: bool = False
) -> Iterator[Page]:
    """A page in a profile of its own. Whatever its console says as an error, and what its scripts throw, fails the
    test; a status that is no success alone does not. is_trusting: any certificate will do."""
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        locale=language,
        timezone_id="Europe/Berlin",
        ignore_https_errors=is_trusting,
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    try:
        yield page
    finally:
        context.close()
    found = [each for each in errors if not each.startswith("Failed to load resource")]
    assert not found, found


def too_wide_px(page: Page) -> int:
    """By how much the page would have to be moved sideways; 0 or less where it fits."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def barriers(page: Page, *, rules: Sequence[str] = (), impacts: Collection[str] = SERIOUS) -> list[str]:
    """What axe-core holds for a barrier of these impacts, by these of its rules or by all; skips where it cannot be
    fetched."""
    script = subprocess.run([SET_UP_AXE], capture_output=True, text=True, timeout=120, check=False)
    if script.returncode == TOOLCHAIN_MISSING:
        pytest.skip(script.stderr.strip())
    assert script.returncode == 0, script.stderr
    if not page.evaluate("'axe' in window"):
        page.evaluate(Path(script.stdout.strip()).read_text(encoding="utf-8") + ";undefined")
    chosen = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
    found = page.evaluate("wishes => axe.run(document, wishes)", {"resultTypes": ["violations"], **chosen})
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for violation in found["violations"]
        if violation["impact"] in impacts
        for node in violation["nodes"][:5]
    ]


def look(page: Page) -> None:
    """What every page has to be, wide and narrow; no script of a cluster's ran in it."""
    assert barriers(page) == []
    page.set_viewport_size({"width": NARROW, "height": 900})
    assert too_wide_px(page) <= 0
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate("window.hostile") is None


def fill(page: Page, **fields: str) -> None:
    """The fields of the page's own form, by their names."""
    for name, value in fields.items():
        field = page.locator(f"main [name={name}]:not(#shown *)")
        if field.evaluate("each => each.tagName") == "SELECT":
            field.select_option(value)
        elif field.get_attribute("type") == "checkbox":
            field.check()
        else:
            field.fill(value)
