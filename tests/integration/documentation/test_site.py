"""The documentation's site: it is built without a warning, no link on it leads nowhere, and nothing bars a reader."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.kit.browser import EVERY_IMPACT, NARROW, barriers, chromium, page_of, too_wide_px
from tests.kit.playground_site import LOADED_MS, TOOLCHAIN_MISSING, served

ROOT = Path(__file__).resolve().parents[3]
PAGES = (
    "",
    "docs/",
    "docs/testing/",
    "docs/moving/",
    "docs/commands/",
    "docs/configuration/",
    "docs/python/testing/",
    "docs/design/rules/",
)
BESIDE = ("play", "learn")
"""The playground's, which its own tests look at."""
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    words = [sys.executable, str(ROOT / "tools" / "site.py"), "--without-playground", "--target", str(target)]
    built = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    if built.returncode == TOOLCHAIN_MISSING:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stdout + built.stderr
    assert "WARNING" not in built.stdout + built.stderr
    return target


class Links(HTMLParser):
    """Where a page leads, and the anchors that it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        for name in ("id", "name"):
            if value := values.get(name):
                self.anchors.add(value)
        for name in ("href", "src"):
            if value := values.get(name):
                self.targets.append(value)


def dead_links(site: Path) -> Iterator[str]:
    pages = {file.resolve(): Links(file) for file in site.rglob("*.html") if file.name != "404.html"}
    for file, links in pages.items():
        for target in links.targets:
            path, anchor = urldefrag(target)
            if "://" in target or target.startswith(("mailto:", "data:", "javascript:")):
                continue
            found = (file.parent / unquote(path)).resolve() if path else file
            if found.parent == site.resolve() and found.name in BESIDE:
                continue
            if found.is_dir():
                found = found / "index.html"
            if not found.is_file():
                yield f"{file.relative_to(site)}: {target}"
            elif anchor and found in pages and unquote(anchor) not in pages[found].anchors and anchor != "__skip":
                yield f"{file.relative_to(site)}: {target} has no such anchor"


def test_no_link_leads_nowhere(site: Path) -> None:
    assert list(dead_links(site)) == []


def test_every_page_of_the_documentation_is_in_the_navigation(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")

    for file in (ROOT / "docs").rglob("*.md"):
        place = file.relative_to(ROOT).with_suffix("").as_posix().removesuffix("index")
        assert f'href="{place.rstrip("/")}/"' in first, place


def test_it_asks_nobody_else_and_finds_words_without_a_server(site: Path) -> None:
    with served(site) as address, chromium() as browser, page_of(browser) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.fill("input.md-search__input", "high watermark")
        page.wait_for_selector(".md-search-result__item")

        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def test_nothing_bars_a_reader_wide_and_narrow_light_and_dark(site: Path) -> None:
    with served(site) as address, chromium() as browser:
        for dark in (False, True):
            for place in PAGES:
                with page_of(browser, dark=dark) as page:
                    page.goto(f"{address}/{place}", timeout=LOADED_MS)
                    assert barriers(page, impacts=EVERY_IMPACT) == [], place
                    page.set_viewport_size({"width": NARROW, "height": 900})
                    assert too_wide_px(page) <= 0, place
