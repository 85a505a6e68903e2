"""docs/clients.md's table of Apache Kafka's tools, from what tests/conformance/tools/test_every_tool.py said.

python tools/tool_table.py record REPORT.xml... takes over what pytest's reports (--junitxml) tell, into
tests/conformance/tools/results.json, and writes the table; what the reports do not tell of stays as it was recorded
before. Without arguments it writes the table; --check says whether the page has it, by its exit code.

It runs nothing. A tool that was not recorded for a release of which it is a part is shown as not run.
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))

from tests.conformance.tools.every_tool import ELSEWHERE, GONE, NOT_APPLICABLE, NOT_RUN, RELEASES, TOOLS  # noqa: E402
from tools.table_in_page import TableInPage  # noqa: E402

RESULTS = PROJECT / "tests" / "conformance" / "tools" / "results.json"
START, END = "<!-- tools: written by tools/tool_table.py -->", "<!-- end of tools -->"
_CASE = re.compile(r"test_a_tool_runs\[(?:(zk|kraft)-(.+)|(.+)-(zk|kraft))\]")


def outcomes(report: Path) -> Iterable[tuple[str, str, bool | None]]:
    """Mode, tool, and whether it worked; None where the release has no such tool."""
    for case in ElementTree.parse(report).iter("testcase"):
        found = _CASE.fullmatch(case.get("name", ""))
        if found is None or not case.get("classname", "").endswith("test_every_tool"):
            continue
        mode, tool = (found[1], found[2]) if found[1] else (found[4], found[3])
        skipped = case.find("skipped")
        if skipped is not None:
            if "has no" in skipped.get("message", ""):
                yield mode, tool, None
            continue
        yield mode, tool, case.find("failure") is None and case.find("error") is None


def record(reports: Iterable[Path]) -> None:
    """Takes over what the reports tell."""
    known: dict[str, dict[str, bool | None]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for report in reports:
        for mode, tool, worked in outcomes(report):
            known.setdefault(tool, {})[mode] = worked
    kept = {tool: known[tool] for tool in sorted(known) if tool in TOOLS}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def table() -> str:
    """The table, from the recorded results."""
    known: dict[str, dict[str, bool | None]] = json.loads(RESULTS.read_text())
    lines = [f"| Tool | {' | '.join(RELEASES.values())} | |", "|--" * (len(RELEASES) + 2) + "|"]
    rows = {tool: [_cell(known.get(tool, {}), mode) for mode in RELEASES] for tool in TOOLS}
    why = dict.fromkeys(TOOLS, "")
    for tool, (file, _word) in ELSEWHERE.items():
        rows[tool], why[tool] = ["own test"] * len(RELEASES), file
    for tool, reason in NOT_APPLICABLE.items():
        rows[tool], why[tool] = ["–"] * len(RELEASES), reason
    for tool, reason in NOT_RUN.items():
        rows[tool], why[tool] = ["not run"] * len(RELEASES), reason
    for tool, mode in GONE.items():
        rows[tool][list(RELEASES).index(mode)] = ""
    lines += [f"| `{_name(tool)}` | {' | '.join(rows[tool])} | {why[tool]} |" for tool in sorted(rows)]
    return "\n".join(lines) + "\n"


def _name(tool: str) -> str:
    return tool if tool.startswith(("zookeeper-", "connect-")) else f"kafka-{tool}"


def _cell(known: dict[str, bool | None], mode: str) -> str:
    if mode not in known:
        return "not run"
    return {True: "works", False: "**fails**", None: ""}[known[mode]]


def main(arguments: list[str]) -> int:
    return TableInPage(START, END, table, record).main(arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
