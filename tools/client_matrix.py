"""docs/clients.md's table of clients, from what their checks said.

python tools/client_matrix.py record REPORT.xml... takes over what pytest's reports (--junitxml) tell of the checks of
clients, into tests/conformance/clients/results.json, and writes the table; what the reports do not tell of stays as it
was recorded before: other clients, and columns of a client of which no check ran. Without arguments it writes the
table; --check says whether the page has it, by its exit code.

It decides which check belongs to which column, by the check's name; it runs nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))

from tools.table_in_page import TableInPage  # noqa: E402

CLIENTS = PROJECT / "tests" / "conformance" / "clients"
RESULTS = CLIENTS / "results.json"
START, END = "<!-- clients: written by tools/client_matrix.py -->", "<!-- end of clients -->"

PACKAGE = "tests.conformance.clients"
COLUMNS = {
    "Share groups": r"^share group",
    "Transactions": r"transaction|exact|fenced|abort|librdkafkas?_",
    "Groups": r"group|consumer protocol",
    "Administration": r"administered|describe|configs|deleted|listed|partitions.*added|topics refused|that_cannot_be"
    r"|elected|log dirs|validate_only",
    "Records": r"",
}
"""A check belongs to the first whose pattern is found in its name."""
ORDER = ("Records", "Groups", "Share groups", "Transactions", "Administration")

BROKERS = {"kavka-three-brokers": "three", "kafka-kraft": "Apache Kafka 4", "kafka-zk": "Apache Kafka 3.9"}
"""In the id of a test, the first that is found there; else it is one broker of kavka."""

MODULES = {
    "test_java": "Java clients of Apache Kafka",
    "test_streams": "Kafka Streams, exactly_once_v2",
    "test_confluent_kafka": "confluent-kafka (librdkafka)",
    "test_aiokafka": "aiokafka",
    "test_kafka_python": "kafka-python",
    "test_franz_go": "franz-go",
    "test_sarama": "sarama",
    "test_kafkajs": "kafkajs",
    "test_rskafka": "rskafka",
    "test_kcat": "kcat (librdkafka)",
}
SHARE_GROUPS = {
    "test_share_groups": "test_java",
    "test_share_scenarios": "test_java",
    "test_share_confluent": "test_confluent_kafka",
    "test_share_franz_go": "test_franz_go",
}
"""Modules with nothing but checks of share groups, and whose they are."""
_BEFORE_CHECK = re.compile(r"^.*?(?:kavka-three-brokers|kavka|kafka-kraft|kafka-zk)-")

TRANSACTIONS = {"librdkafka": "test_confluent_kafka", "kafka_python": "test_kafka_python", "aiokafka": "test_aiokafka"}
"""test_transactions.py has those of three clients: by what the name of the test begins with."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one check. brokers: "one" or "three" of kavka, or Apache Kafka's."""

    client: str
    version: str
    brokers: str
    column: str
    check: str
    passed: bool


def outcomes(report: Path) -> Iterable[Outcome]:
    """What a report tells of checks of clients; what was skipped is not told."""
    for case in ElementTree.parse(report).iter("testcase"):
        package, _, module = case.get("classname", "").rpartition(".")
        name, _, parameters = case.get("name", "").partition("[")
        if module == "test_transactions":
            owner = next((owner for owner in TRANSACTIONS if name.startswith(f"test_{owner}")), "")
            module = TRANSACTIONS.get(owner, "")
        is_of_share_groups = package == PACKAGE and module in SHARE_GROUPS
        module = SHARE_GROUPS.get(module, module)
        if (
            package != PACKAGE
            or module not in MODULES
            or case.find("skipped") is not None
            or name.startswith("test_every_check_of")
        ):
            continue
        parameters = parameters.removesuffix("]")
        brokers = next((kind for part, kind in BROKERS.items() if part in parameters), "one")
        of_kafka = re.search(r"kafka-(?:clients|streams)-([0-9.]+)-", parameters)
        check = _BEFORE_CHECK.sub("", parameters) if name == module else name.removeprefix("test_")
        if is_of_share_groups:
            named = _BEFORE_CHECK.sub("", parameters)
            check = f"share group {check if named == parameters else named}"
        passed = case.find("failure") is None and case.find("error") is None
        yield Outcome(
            MODULES[module], of_kafka[1] if of_kafka else _version(module), brokers, _column(check), check, passed
        )


def _column(check: str) -> str:
    return next(column for column, pattern in COLUMNS.items() if re.search(pattern, check))


def _version(module: str) -> str:
    match module:
        case "test_java":  # Only checks of share groups do not name their version.
            found = re.search(r"<kafka.version>(.+)</kafka.version>", (CLIENTS / "share" / "pom.xml").read_text())
            return found[1] if found else ""
        case "test_confluent_kafka" | "test_aiokafka" | "test_kafka_python":
            return version(module.removeprefix("test_").replace("_", "-"))
        case "test_franz_go" | "test_sarama":
            client = module.removeprefix("test_").replace("_", "-")
            found = re.search(rf"/{client} v(\S+)", (CLIENTS / client / "go.mod").read_text())
            return found[1] if found else ""
        case "test_kafkajs":
            named: dict[str, dict[str, str]] = json.loads((CLIENTS / "kafkajs" / "package.json").read_text())
            return named["dependencies"]["kafkajs"]
        case "test_rskafka":
            return str(tomllib.loads((CLIENTS / "rust" / "Cargo.toml").read_text())["dependencies"]["rskafka"])
        case "test_kcat":
            printed = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
            found = re.search(r"Version (\S+)", printed)
            return found[1] if found else ""
        case _:
            return ""


def record(reports: Iterable[Path]) -> None:
    """Takes over what the reports tell: of a client against some brokers, columns of which they tell nothing stay."""
    told = [outcome for report in reports for outcome in outcomes(report)]
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in json.loads(RESULTS.read_text()) if RESULTS.exists() else []:
        rows[row["client"], row["version"], row["brokers"]] = row
    for client in {outcome.client for outcome in told}:
        # Checks of share groups run with the newest release only: the others tell which ones are tested.
        versions = {one.version for one in told if one.client == client and one.column != "Share groups"}
        for key in [key for key in rows if key[0] == client and versions and key[1] not in versions]:
            del rows[key]
    for key in {(outcome.client, outcome.version, outcome.brokers) for outcome in told}:
        own = [outcome for outcome in told if (outcome.client, outcome.version, outcome.brokers) == key]
        rows[key] = _row(key, own, rows.get(key, {"checks": {}, "failed": []}))
    lines = [json.dumps(rows[key]) for key in sorted(rows)]
    RESULTS.write_text("[\n  " + ",\n  ".join(lines) + "\n]\n")


def _row(key: tuple[str, str, str], own: Sequence[Outcome], before: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a client against some brokers, with the checks that have run now."""
    checks: dict[str, list[int]] = {}
    failed = [one.check for one in own if not one.passed]
    for column in ORDER:
        run = [one.passed for one in own if one.column == column]
        checks[column] = [sum(run), len(run)] if run else before["checks"].get(column, [0, 0])
        if not run:
            failed += [check for check in before["failed"] if _column(check) == column]
    return {"client": key[0], "version": key[1], "brokers": key[2], "checks": checks, "failed": sorted(failed)}


def table() -> str:
    """The table, from the recorded results."""
    rows = {(row["client"], row["version"], row["brokers"]): row for row in json.loads(RESULTS.read_text())}
    lines = ["| Client | Version | " + " | ".join(ORDER) + " |", "|--" * (len(ORDER) + 2) + "|"]
    for client in MODULES.values():
        for release in sorted({key[1] for key in rows if key[0] == client}, reverse=True):
            own = [rows[key] for brokers in ("one", "three") if (key := (client, release, brokers)) in rows]
            cells = [
                " + ".join(filter(None, (_cell(row["checks"].get(column, [0, 0])) for row in own))) for column in ORDER
            ]
            lines.append(f"| {client} | {release} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(figures: list[int]) -> str:
    passed, count = figures
    if not count:
        return ""
    return str(count) if passed == count else f"**{passed} of {count}**"


def main(arguments: list[str]) -> int:
    return TableInPage(START, END, table, record).main(arguments, __doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
