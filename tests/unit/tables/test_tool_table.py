"""The table of Kafka's tools in docs/clients.md is what was recorded, and reports of pytest are read right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools import tool_table

REPORT = """<testsuites><testsuite>
<testcase classname="tests.conformance.tools.test_every_tool" name="test_a_tool_runs[zk-topics]"/>
<testcase classname="tests.conformance.tools.test_every_tool" name="test_a_tool_runs[kraft-topics]">
  <failure/></testcase>
<testcase classname="tests.conformance.tools.test_every_tool" name="test_a_tool_runs[zk-share-groups]">
  <skipped message="3.9 has no share-groups"/></testcase>
<testcase classname="tests.conformance.tools.test_every_tool" name="test_a_tool_runs[zk-features]">
  <skipped message="needs java"/></testcase>
<testcase classname="tests.conformance.wire.test_wire" name="test_wire[kavka-acks 1]"/>
</testsuite></testsuites>"""


def test_the_table_on_the_page_is_what_was_recorded() -> None:
    assert tool_table.main(["--check"]) == 0, "run: python tools/tool_table.py"


def test_a_report_says_what_works_what_fails_and_what_a_release_has_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_table, "RESULTS", tmp_path / "results.json")
    (tmp_path / "report.xml").write_text(REPORT)
    tool_table.record([tmp_path / "report.xml"])
    assert json.loads((tmp_path / "results.json").read_text()) == {
        "share-groups": {"zk": None},
        "topics": {"zk": True, "kraft": False},
    }
    rows = tool_table.table().splitlines()
    assert "| `kafka-topics` | works | **fails** |  |" in rows
    assert "| `kafka-share-groups` |  | not run |  |" in rows
