"""Takes pictures of the console's pages: light and dark, wide and narrow, in English or Chinese.

    python tools/screenshots.py http://127.0.0.1:8090 --cluster local --topic orders --group billing --into shots
    python tools/screenshots.py http://127.0.0.1:8090 --page job=/c/local/jobs/1 --only job

Reads a running console, and changes nothing. Says what is too wide for its window, and what a page's scripts complain
of. The browser is the Chromium of this machine, through playwright.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "google-chrome", "chromium-browser")
WIDE, NARROW = (1280, 800), (390, 844)
SETTLED_MS = 600
"""For the first live update after a page has loaded."""
TOPIC_ACTIONS = ("alter-config", "add-partitions", "delete-records", "delete-topic", "produce")
GROUP_ACTIONS = ("reset-offsets", "delete-group")
JOBS = ("reassign", "replication-factor", "decommission", "elect")


def pages(cluster: str, topic: str, group: str) -> dict[str, str]:
    """Names and paths of the pages that are looked at."""
    base = f"/c/{quote(cluster)}"
    return {
        "wall": "/",
        "overview": f"{base}/",
        "brokers": f"{base}/brokers",
        "broker": f"{base}/brokers/1",
        "topics": f"{base}/topics",
        "topic": f"{base}/topics/{quote(topic)}",
        "messages": f"{base}/topics/{quote(topic)}/messages",
        "groups": f"{base}/groups",
        "group": f"{base}/groups/{quote(group)}",
        "decisions": f"{base}/decisions",
        "durability": f"{base}/durability",
        "churn": f"{base}/churn",
        "jobs": f"{base}/jobs",
        "zookeeper": f"{base}/zookeeper/brokers/topics",
        "simulator": f"{base}/simulator",
        "audit": "/audit",
        "missing": f"{base}/topics/there-is-none",
        "create-topic": f"{base}/do/create-topic",
        **{name: f"{base}/do/{name}?topic={quote(topic)}" for name in TOPIC_ACTIONS},
        **{name: f"{base}/do/{name}?group={quote(group)}" for name in GROUP_ACTIONS},
        **{name: f"{base}/do/{name}" for name in JOBS},
    }


def page_at(said: str) -> tuple[str, str]:
    name, separator, path = said.partition("=")
    if not separator or not path.startswith("/"):
        raise argparse.ArgumentTypeError(f"{said!r} is not NAME=/PATH")
    return name, path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("--cluster", default="local")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="billing")
    parser.add_argument("--into", type=Path, default=Path("shots"))
    parser.add_argument("--page", nargs="*", default=[], type=page_at, metavar="NAME=/PATH", help="more pages")
    parser.add_argument("--only", nargs="*", default=[], help="names of pages")
    parser.add_argument("--themes", nargs="*", default=["light", "dark"], choices=["light", "dark"])
    parser.add_argument("--widths", nargs="*", default=["wide", "narrow"], choices=["wide", "narrow"])
    parser.add_argument("--language", default="en", choices=["en", "zh"])
    parser.add_argument(
        "--first-screen", action="store_true", help="what is seen without scrolling, not the whole page"
    )
    wishes = parser.parse_args()
    wishes.into.mkdir(parents=True, exist_ok=True)
    browser_path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser_path is None:
        parser.error(f"none of {', '.join(BROWSERS)} is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for theme in wishes.themes:
            for width in wishes.widths:
                size = WIDE if width == "wide" else NARROW
                context = browser.new_context(
                    viewport={"width": size[0], "height": size[1]},
                    color_scheme=theme,
                    locale="zh-CN" if wishes.language == "zh" else "en-GB",
                    timezone_id="Europe/Berlin",
                )
                page = context.new_page()
                page.on("pageerror", lambda error: print(f"   error: {error}"))
                page.on("console", lambda said: print(f"   {said.type}: {said.text}") if said.type == "error" else None)
                for name, path in {**pages(wishes.cluster, wishes.topic, wishes.group), **dict(wishes.page)}.items():
                    if wishes.only and name not in wishes.only:
                        continue
                    page.goto(f"{wishes.address.rstrip('/')}{path}")
                    page.wait_for_timeout(SETTLED_MS)
                    file = wishes.into / f"{name}-{theme}-{width}-{wishes.language}.png"
                    page.screenshot(path=file, full_page=not wishes.first_screen)
                    overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                    print(f"{file}{f'   {overflow} px too wide' if overflow > 0 else ''}")
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
