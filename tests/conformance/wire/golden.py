"""What Apache Kafka answered to the scenarios: recorded once, kept as JSON, compared with kavka without a JVM.

    python -m tests.conformance.wire.golden --record                 starts both lines of Apache Kafka and records anew
    python -m tests.conformance.wire.golden --record --zk HOST:PORT --kraft HOST:PORT     records from running ones
    python -m tests.conformance.wire.golden --record --only 'share_.*'                    the others stay as they are
    python -m tests.conformance.wire.golden --compare HOST:PORT      prints what a running broker answers differently

A file per API in golden/: scenario, step, then each different answer with the versions in which each line gave it. The
answers are normalised (wire_session.py): facts, no wording of Kafka's.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).resolve().parent

from tests.conformance.wire.scenario import SCENARIOS, Scenario, run_scenario, served_versions  # noqa: E402
from tests.conformance.wire.wire_session import WireSession, canonical  # noqa: E402

FILES = HERE / "golden"
LINES = ("kafka-3.9", "kafka-4.3")
Answers = dict[str, Any]
"""The answers of one run of a scenario, by step."""


class Golden:
    """Recorded answers: `answers[scenario, version][line]` holds the steps of one run."""

    def __init__(self, answers: dict[tuple[str, int], dict[str, Answers]] | None = None) -> None:
        self.answers = answers or {}

    @classmethod
    def load(cls) -> Golden:
        golden = cls()
        for path in sorted(FILES.glob("*.json")):
            for scenario, steps in json.loads(path.read_text()).items():
                for step, variants in steps.items():
                    golden._add(scenario, step, variants)
        return golden

    def _add(self, scenario: str, step: str, variants: list[dict[str, Any]]) -> None:
        for variant in variants:
            for line in LINES:
                for version in _numbers(variant.get(line, "")):
                    runs = self.answers.setdefault((scenario, version), {})
                    runs.setdefault(line, {})[step] = variant["answer"]

    def save(self, scenarios: Iterable[Scenario]) -> None:
        FILES.mkdir(exist_ok=True)
        by_api: dict[str, dict[str, Any]] = {}
        for scenario in scenarios:
            by_api.setdefault(scenario.api.name.lower(), {})[scenario.name] = self._grouped(scenario.name)
        for api, content in by_api.items():
            (FILES / f"{api}.json").write_text(_readable(content))

    def _grouped(self, scenario: str) -> dict[str, list[dict[str, Any]]]:
        """Steps in their order; equal answers together, with the versions that gave them."""
        steps: dict[str, dict[str, dict[str, list[int]]]] = {}
        for (name, version), runs in sorted(self.answers.items()):
            if name != scenario:
                continue
            for line, answers in runs.items():
                for step, answer in answers.items():
                    given = steps.setdefault(step, {}).setdefault(canonical(answer), {})
                    given.setdefault(line, []).append(version)
        return {
            step: [
                {line: _ranges(given[line]) for line in LINES if line in given} | {"answer": json.loads(text)}
                for text, given in variants.items()
            ]
            for step, variants in steps.items()
        }


def _ranges(numbers: list[int]) -> str:
    """[0, 1, 2, 5] as 0-2,5."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _numbers(ranges: str) -> Iterator[int]:
    for part in filter(None, ranges.split(",")):
        low, _, high = part.partition("-")
        yield from range(int(low), int(high or low) + 1)


def _readable(content: dict[str, Any]) -> str:
    """JSON with a line for each answer."""
    lines = ["{"]
    for last_scenario, (scenario, steps) in _with_last(content.items()):
        lines.append(f"  {json.dumps(scenario)}: {{")
        for last_step, (step, variants) in _with_last(steps.items()):
            lines.append(f"    {json.dumps(step, ensure_ascii=False)}: [")
            for last_variant, variant in _with_last(variants):
                text = json.dumps(variant, ensure_ascii=False)
                lines.append(f"      {text}" + ("" if last_variant else ","))
            lines.append("    ]" + ("" if last_step else ","))
        lines.append("  }" + ("" if last_scenario else ","))
    return "\n".join([*lines, "}", ""])


def _with_last(items: Iterable[Any]) -> Iterator[tuple[bool, Any]]:
    listed = list(items)
    for index, item in enumerate(listed):
        yield index == len(listed) - 1, item


def runs_of(host: str, port: int, only: str = ".*") -> Iterator[tuple[Scenario, int]]:
    """Every scenario with every version that the broker serves and that Apache Kafka 4 has not dropped."""
    session = WireSession(host, port)
    served = served_versions(session)
    session.close()
    for scenario in SCENARIOS:
        if scenario.beside not in served or not re.fullmatch(only, scenario.name):
            continue
        low, high = served.get(scenario.api, (0, -1))
        for version in range(max(low, scenario.min_version), high + 1):
            yield scenario, version


def record(addresses: dict[str, str], only: str = ".*") -> Golden:
    """Runs what `only` matches against Apache Kafka; addresses: host:port for each of LINES."""
    known = Golden.load().answers
    golden = Golden({run: lines for run, lines in known.items() if not re.fullmatch(only, run[0])})
    for line, address in addresses.items():
        host, _, port = address.rpartition(":")
        for scenario, version in runs_of(host, int(port), only):
            if sys.stderr.isatty():
                print(f"\r{line} {scenario.name} v{version}\033[K", end="", file=sys.stderr, flush=True)
            answers = run_scenario(scenario, host, int(port), version)
            golden.answers.setdefault((scenario.name, version), {})[line] = answers
    return golden


def differing(found: Any, expected: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(path, found, expected) of everything in which two normalised answers differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        return [
            difference
            for key in [*expected, *(key for key in found if key not in expected)]
            for difference in differing(found.get(key, "<absent>"), expected.get(key, "<absent>"), f"{path}.{key}")
        ]
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return [
            difference
            for index, (one, other) in enumerate(zip(found, expected, strict=True))
            for difference in differing(one, other, f"{path}[{index}]")
        ]
    return [] if found == expected else [(path, found, expected)]


@contextmanager
def live(zk: str | None, kraft: str | None) -> Iterator[dict[str, str]]:
    """Addresses of both lines of Apache Kafka, started where none is given."""
    with ExitStack() as stack:
        addresses = []
        for mode, given in (("zk", zk), ("kraft", kraft)):
            if given is None:
                from tests.apache_kafka import ApacheKafka

                directory = stack.enter_context(TemporaryDirectory())
                given = stack.enter_context(ApacheKafka(Path(directory) / mode, mode=mode)).bootstrap
            addresses.append(given)
        yield dict(zip(LINES, addresses, strict=True))


def compare(address: str) -> int:
    """Prints how a running broker's answers differ from what both lines gave; returns the number of differing steps."""
    golden, count = Golden.load(), 0
    host, _, port = address.rpartition(":")
    for scenario, version in runs_of(host, int(port)):
        expected = golden.answers.get((scenario.name, version))
        if expected is None:
            continue
        try:
            found = run_scenario(scenario, host, int(port), version)
        except Exception as error:  # whatever a broker under construction does
            print(f"{scenario.name} v{version}: {type(error).__name__}: {error}"[:300])
            count += 1
            continue
        for step in sorted({step for answers in expected.values() for step in answers}):
            candidates = {line: answers[step] for line, answers in expected.items() if step in answers}
            if step not in found or found[step] in candidates.values():
                continue
            count += 1
            line, differences = min(
                ((line, differing(found[step], answer)) for line, answer in candidates.items()),
                key=lambda pair: len(pair[1]),
            )
            for path, here, there in differences[:6]:
                print(f"{scenario.name} v{version} [{step}] {path}: {here!r:.200}; {line}: {there!r:.200}")
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record what Apache Kafka answers")
    parser.add_argument("--only", metavar="PATTERN", default=".*", help="the scenarios to record")
    parser.add_argument("--zk", metavar="HOST:PORT", help="a running Apache Kafka 3.9 with ZooKeeper")
    parser.add_argument("--kraft", metavar="HOST:PORT", help="a running Apache Kafka 4.3 in KRaft mode")
    parser.add_argument("--compare", metavar="HOST:PORT", help="any running broker")
    options = parser.parse_args()
    if options.record:
        with live(options.zk, options.kraft) as addresses:
            record(addresses, options.only).save(SCENARIOS)
    if options.compare:
        sys.exit(1 if compare(options.compare) else 0)


if __name__ == "__main__":
    main()
