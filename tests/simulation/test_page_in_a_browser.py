"""The page of a run in a real browser: it opens at the first ISR that shrank, tells why, and steps both ways."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from kavka.simulator.runs.page import render
from kavka.simulator.runs.recorded_run import Wish, run
from tests.kit.browser import BROWSER, dump_dom

PROBE = """<script>
addEventListener("load", () => {
  const told = [], note = () => told.push(find("clock").textContent);
  const pressed = (key, shiftKey) => new KeyboardEvent("keydown", {key, shiftKey, bubbles: true});
  const press = (key, shiftKey) => document.body.dispatchEvent(pressed(key, shiftKey));
  const box = name => find(name).textContent;
  const opened = {what: box("what"), before: box("before"), broken: box("broken"), replicas: box("replicas")};
  note();
  press("ArrowRight"); note();
  press("ArrowLeft"); note();
  press("ArrowRight", true); note();
  press("ArrowLeft", true); note();
  press("End"); note();
  press("Home"); note();
  find("next").click(); note();
  find("back").click(); note();
  const width = document.documentElement.scrollWidth, screen = innerWidth;
  document.body.append(element("pre", {id: "probe"}, JSON.stringify({told, opened, width, screen})));
});
</script></body>"""

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]


@pytest.mark.parametrize("width", [1280, 500])
def test_it_tells_why_an_isr_shrank_and_steps_forwards_and_backwards(tmp_path: Path, width: int) -> None:
    file = tmp_path / "run.html"
    text = render(run(Wish(1, "article 001, case B: one after the other")))
    file.write_text(text.replace("</body>", PROBE), encoding="utf-8")

    dumped = dump_dom(file, width=width, profile=tmp_path / "profile")

    probe = re.search(r'<pre id="probe">(.*?)</pre>', dumped, re.DOTALL)
    assert probe is not None, dumped[-2_000:]
    found = json.loads(html.unescape(probe[1]))
    opened, following, back, change, change_back, end, begin, following_begin, back_begin = found["told"]
    assert opened == back == change_back
    assert begin == back_begin
    assert len({opened, following, change, end, begin, following_begin}) == 6
    assert "ISR shrinks: 3 out" in found["opened"]["what"]
    assert "replica.lag.time.max.ms allows 2000 ms" in found["opened"]["what"]
    assert "broker 3 log end offset" in found["opened"]["what"]
    assert "broker-3 <-> broker-1" in found["opened"]["before"]
    assert "broker-3 ↔ broker-1" in found["opened"]["broken"]
    assert "out of ISR" in found["opened"]["replicas"]
    assert found["width"] <= found["screen"], "the page is wider than its window"
