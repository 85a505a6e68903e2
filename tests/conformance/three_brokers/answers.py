"""What Apache Kafka with three brokers answered: recorded once, kept as JSON, compared with kavka without a JVM.

    python -m tests.conformance.three_brokers.answers --record [--only PATTERN]    starts both lines, and records anew
    python -m tests.conformance.three_brokers.answers --compare [--only PATTERN]   starts kavka, prints what differs

answers.json: scenario, step, then the answer of each line.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.conformance.three_brokers.differences import covering
from tests.conformance.three_brokers.scenarios import SCENARIOS
from tests.conformance.three_brokers.stage import LINES, Stage, kafka_stage, kavka_stage
from tests.conformance.three_brokers.trio_session import TrioSession
from tests.conformance.wire.differences import Difference
from tests.conformance.wire.golden import differing

FILE: Final = Path(__file__).resolve().parent / "answers.json"
Answers = dict[str, dict[str, dict[str, Any]]]
"""By scenario, step and line."""


def load() -> Answers:
    found: Answers = json.loads(FILE.read_text())
    return found


def play(stage: Stage, name: str) -> dict[str, Any]:
    """The answers of one scenario, by step."""
    session = TrioSession(stage)
    try:
        SCENARIOS[name](session)
    finally:
        session.close()
    return session.recorded


class Found(NamedTuple):
    """A field that differs from the nearest line's, and the row that says why, if there is one."""

    step: str
    path: str
    line: str
    ours: Any
    theirs: Any
    reason: Difference | None

    def __str__(self) -> str:
        return f"[{self.step}] {self.path}: kavka {self.ours!r:.200}, {self.line} {self.theirs!r:.200}"


def differences(name: str, found: dict[str, Any], recorded: dict[str, dict[str, Any]]) -> list[Found]:
    """Where the answers of a scenario are those of no line."""
    told = []
    for step, lines in recorded.items():
        parted = {line: differing(found.get(step, "<not asked>"), answer) for line, answer in lines.items()}
        line, paths = min(parted.items(), key=lambda each: len(each[1]))
        told += [
            Found(step, path, line, ours, theirs, covering(name, step, path, ours)) for path, ours, theirs in paths
        ]
    return told


def record(pattern: str, lines: Sequence[str], tell: Callable[[str], None]) -> None:
    answers = load() if FILE.exists() else {}
    chosen = [name for name in SCENARIOS if re.fullmatch(pattern, name)]
    for line in lines:
        with tempfile.TemporaryDirectory() as directory, kafka_stage(line, Path(directory) / line) as stage:
            for name in chosen:
                tell(f"{line}: {name}")
                for step, answer in play(stage, name).items():
                    answers.setdefault(name, {}).setdefault(step, {})[line] = answer
    FILE.write_text(_readable({name: answers[name] for name in SCENARIOS if name in answers}))


def _readable(answers: Answers) -> str:
    """JSON with a line for each answer; one where both lines gave the same."""
    scenarios = []
    for name, steps in answers.items():
        rows = []
        for step, lines in steps.items():
            each = ",\n      ".join(
                f"{json.dumps(line)}: {json.dumps(answer, ensure_ascii=False)}" for line, answer in lines.items()
            )
            rows.append(f"    {json.dumps(step)}: {{\n      {each}\n    }}")
        scenarios.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(rows) + "\n  }")
    return "{\n" + ",\n".join(scenarios) + "\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--only", metavar="PATTERN", default=".*")
    parser.add_argument("--line", choices=LINES, help="of Apache Kafka; otherwise both are recorded")
    options = parser.parse_args()
    if options.record:
        record(options.only, [options.line] if options.line else list(LINES), print)
    if options.compare:
        with kavka_stage() as stage:
            for name, recorded in load().items():
                if re.fullmatch(options.only, name):
                    print(*(f"{name} {each}" for each in differences(name, play(stage, name), recorded)), sep="\n")


if __name__ == "__main__":
    main()
