"""The cluster in a page from inside the console, without a network: the same files, under the console's headers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("starlette")

from tests.integration.playground.test_play_in_browser import MAX_BYTES, advance, now, open_play
from tests.kit.browser import page_of
from tests.kit.console_process import ConsoleProcess
from tests.kit.playground_site import built, choose, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]
FIRST_RUN_S = 5.0
"""On a machine with nothing else to do: from the address to a cluster that has done its first second."""
CLUSTER = '[[cluster]]\nname = "nobody"\nbootstrap = "127.0.0.1:1"\n'


def test_a_leader_is_killed_in_the_consoles_own_playground(
    browser: Browser, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    files = built(tmp_path / "site", compiled=True)
    settings = f'playground = "{files}"\n{CLUSTER}'
    with ConsoleProcess(settings, tmp_path / "console") as console, page_of(browser) as page:
        asked: list[str] = []
        loaded: dict[str, int] = {}
        page.on("request", lambda request: asked.append(request.url))
        page.on("response", lambda answer: loaded.update({answer.url: int(answer.headers.get("content-length") or 0)}))
        load = os.getloadavg()[0]
        began = time.monotonic()
        open_play(page, f"{console.address}/play/")
        advance(page, 1_000)
        first_run_s = time.monotonic() - began
        choose(page, "broker-1", "kill")
        advance(page, 5_000)
        until(page, "kavka.run.now.stored.leader === 2")
        assert now(page)["clients"]["lost_count"] == 0

        size = sum(loaded.values())
        said = f"first run {first_run_s:.1f} s at load {load:.0f}, {size / 1e6:.1f} MB, {len(loaded)} files"
        print(said)
        record_property("playground", said)
        assert {url for url in asked if not url.startswith((console.address, "data:", "blob:"))} == set()
        assert 5_000_000 < size <= MAX_BYTES
        assert first_run_s <= FIRST_RUN_S or load > len(os.sched_getaffinity(0)) / 2, said

        page.goto(f"{console.address}/simulator")
        page.click("a[href='/learn/']")
        page.wait_for_selector(".lessons a")
