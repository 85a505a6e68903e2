"""How soon a reader of the cluster in a page has a cluster: `python -m benchmarks.page [--rounds N]`.

Chromium opens /play/ in an empty profile, from a server on this machine. Counted is from the address to a cluster that
has done its first virtual second: the seconds, the browser's processor time, and the bytes that it asked for. Processor
time is what a busy machine changes least.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.browser import chromium, page_of
from tests.kit.kavka_process import cpu_seconds
from tests.kit.playground_site import LOADED_MS, built, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="kavka-page-") as place:
        files = built(Path(place), compiled=True)
        with served(files) as address:
            for _ in range(rounds):
                with chromium() as browser:
                    print(json.dumps(measure(browser, address, files)), flush=True)


def measure(browser: Browser, address: str, files: Path) -> dict[str, float]:
    with page_of(browser) as page:
        asked: set[str] = set()
        page.on("request", lambda request: asked.add(request.url.removeprefix(address).partition("?")[0]))
        before_s, began_s = processor_s(), time.monotonic()
        page.goto(f"{address}/play/", timeout=LOADED_MS)
        page.wait_for_selector("body[data-ready]", timeout=LOADED_MS)
        took_s, processor = time.monotonic() - began_s, processor_s() - before_s
        loaded = [files / path.lstrip("/") for path in asked if not path.startswith(("data:", "blob:"))]
        loaded = [path / "index.html" if path.is_dir() else path for path in loaded]
        return {
            "seconds": round(took_s, 2),
            "cpu_seconds": round(processor, 2),
            "megabytes": round(sum(path.stat().st_size for path in loaded if path.is_file()) / 1e6, 1),
            "load": round(os.getloadavg()[0], 1),
        }


def processor_s() -> float:
    """Of all processes that this one has started, and theirs: the browser's."""
    return sum(sum(cpu_seconds(pid)) for pid in _descendants(os.getpid()))


def _descendants(root: int) -> Iterator[int]:
    for thread in Path(f"/proc/{root}/task").iterdir():
        try:
            children = [int(word) for word in (thread / "children").read_text().split()]
        except FileNotFoundError:
            continue
        for child in children:
            yield child
            yield from _descendants(child)


if __name__ == "__main__":
    main()
