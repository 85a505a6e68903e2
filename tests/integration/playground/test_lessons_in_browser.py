"""Each lesson played to its end in a real browser, by its own buttons; what it claims is in the trace of that run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kavka_playground.lessons import LESSONS, Lesson, Part
from tests.kit.browser import NARROW, barriers, page_of, too_wide_px
from tests.kit.lesson_scripts import SCRIPTS
from tests.kit.playground_site import LOADED_MS, choose, until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.thorough
ON_THE_MAP = ("kill", "start", "pause", "resume")


def click(page: Page, what: str, target: str) -> None:
    """As a reader does: on the map, or a button."""
    before = page.evaluate("kavka.runs.map(run => run.now.clicks.length)")
    if page.locator(f".shared [data-action='{what}'][data-target='{target}']").count():
        page.click(f".shared [data-action='{what}'][data-target='{target}']")
    elif what in ON_THE_MAP:
        choose(page, f"broker-{target}", what)
    elif what == "cut":
        choose(page, f"link-{target}", what)
    else:
        page.click(f".clients [data-action='{what}']:has-text('{'Write a record' if what == 'write' else ''}')")
    until(page, f"kavka.runs.every((run, index) => run.now.clicks.length > {before}[index])")


def wait(page: Page, ms: int) -> None:
    """Time passes in pieces, as it does while the page plays."""
    page.evaluate(
        "async ms => { for (let left = ms; left > 0; left -= 250) await kavka.runs[0].advance(Math.min(left, 250)) }",
        ms,
    )


def play(page: Page, lesson: Lesson, part: Part) -> None:
    section = page.locator(f"[data-part='{part.id}']")
    section.locator(".start").click()
    page.wait_for_selector(f"body[data-ready='{part.id}']", timeout=LOADED_MS)
    assert page.locator("li.reached", has=page.locator(f"[data-part='{part.id}']")).count() == 0
    for step in SCRIPTS[lesson.id, part.id]:
        if isinstance(step, int):
            wait(page, step)
        else:
            click(page, *step)
    reached = f"[data-part='{part.id}'] li.reached"
    until(page, f"document.querySelectorAll(`{reached}`).length === {len(part.goals)}")


def check_proofs(page: Page, part: Part) -> None:
    """Each proof names events, and these are in the traces of the page's runs."""
    traces: list[list[dict[str, Any]]] = page.evaluate("Promise.all(kavka.runs.map(run => run.trace()))")
    numbers = {event["n"] for trace in traces for event in trace}
    for goal in part.goals:
        item = page.locator(f"[data-part='{part.id}'] [data-goal='{goal.id}']")
        named = {int(word) for word in (item.get_attribute("data-events") or "").split()}
        assert named
        assert named <= numbers
        assert item.locator(".proof").inner_text()


@pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.id for lesson in LESSONS])
def test_it_is_played_to_its_end_and_its_claims_are_in_the_trace(browser: Browser, site: str, lesson: Lesson) -> None:
    with page_of(browser, dark=lesson.id == "lag") as page:
        page.goto(f"{site}/learn/{lesson.id}/")
        assert barriers(page) == []

        for part in lesson.parts:
            play(page, lesson, part)
            check_proofs(page, part)

        assert barriers(page) == []
        page.set_viewport_size({"width": NARROW, "height": 900})
        assert too_wide_px(page) <= 0


def test_a_lesson_in_chinese_is_the_same_lesson(browser: Browser, site: str) -> None:
    lesson = LESSONS[0]
    with page_of(browser) as page:
        page.goto(f"{site}/learn/zh/{lesson.id}/")
        for part in lesson.parts:
            play(page, lesson, part)
            check_proofs(page, part)
        assert barriers(page) == []


def test_the_lists_lead_from_lesson_to_lesson_in_each_language_and_to_the_other(browser: Browser, site: str) -> None:
    with page_of(browser) as page:
        page.goto(f"{site}/learn/")
        page.click("nav a[lang=zh]")
        assert page.get_attribute("html", "lang") == "zh"
        assert page.locator(".lessons a").count() == len(LESSONS)
        page.click(".lessons a")
        for lesson in LESSONS:
            assert barriers(page) == [], lesson.id
            assert lesson.title not in page.inner_text("main")
            page.set_viewport_size({"width": NARROW, "height": 900})
            assert too_wide_px(page) <= 0, lesson.id
            page.click("nav a[lang=en]")
            assert page.inner_text("h1") == lesson.title
            page.click("nav a[lang=zh]")
            if lesson is not LESSONS[-1]:
                page.click(".onward a")


def test_the_list_leads_to_each_lesson_and_each_lesson_to_the_next(browser: Browser, site: str) -> None:
    with page_of(browser) as page:
        page.goto(f"{site}/learn/")
        assert barriers(page) == []
        assert page.locator(".lessons a").count() == len(LESSONS)
        page.click(".lessons a")
        for lesson in LESSONS:
            assert page.inner_text("h1") == lesson.title
            page.click(".onward a")
        page.wait_for_selector("#choices")
