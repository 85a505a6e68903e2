"""Regression: a run of the swarm that is given, not drawn: its plan, its faults, how long; and what it showed once.

Decides how such a run is written down: as a few lines of Python that stand in a test as they are, and that
`kavka simulate --replay FILE` reads (they are parsed, not executed).

    regression(
        "R19 after pause",
        rule="R19",
        was="orders-0 offset 3 was read, true HW 3",
        plan=Plan(seed=7, brokers=3, partitions=1, producers=1, mean_pause_s=0.3),
        seconds=12,
        strikes=[
            strike(1_000, "pause", broker=2, ms=6_000),
        ],
    )

    I1  what is written and read again is the same run, step by step, as long as the program is the same
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final

from kavka.errors import KavkaError
from kavka.simulator.faults.mix import Argument, Strike
from kavka.simulator.runs.swarm import Plan, SeedResult, run_plan

MAX_SECONDS: Final = 360_000.0
"""A hundred virtual hours: more is a mistake in the file."""


class NotARegression(KavkaError):
    """A text that is not one `regression(...)`."""


@dataclass(frozen=True, slots=True)
class Regression:
    """`seconds`: how long clients write and faults strike, before all is healed and the end is checked."""

    name: str
    rule: str
    was: str
    plan: Plan
    seconds: float
    strikes: tuple[Strike, ...]

    def play(self) -> SeedResult:
        return run_plan(self.plan, hours=self.seconds / 3_600, schedule=self.strikes)

    def as_python(self) -> str:
        """The form above; numbers of milliseconds with underscores."""
        words = [_text(self.name), f"rule={_text(self.rule)}", f"was={_text(self.was)}", f"plan={_plan(self.plan)}"]
        lines = [f"    {word}," for word in (*words, f"seconds={self.seconds:g}")]
        lines.append("    strikes=[" if self.strikes else "    strikes=[],")
        lines += [f"        {_strike(each)}," for each in self.strikes]
        lines += ["    ],"] if self.strikes else []
        return "\n".join(("regression(", *lines, ")"))


def regression(name: str, *, rule: str, was: str, plan: Plan, seconds: float, strikes: Sequence[Strike]) -> Regression:
    """As `Regression.as_python` writes it."""
    return Regression(name, rule, was, plan, seconds, tuple(strikes))


def strike(at_ms: int, kind: str, /, **arguments: Argument) -> Strike:
    """A fault, `at_ms` after faults began. Raises ValueError for a kind that does not exist."""
    return Strike.from_json({"at_ms": at_ms, "kind": kind, **arguments})


def parse(text: str) -> Regression:
    """Reads what `as_python` wrote, with comments and line breaks as somebody likes. Raises NotARegression."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        found = _value(tree.body)
    except (SyntaxError, ValueError, TypeError, RecursionError) as problem:
        raise NotARegression(str(problem)) from problem
    if not isinstance(found, Regression):
        raise NotARegression("it is no regression(...)")
    if not 0 < found.seconds <= MAX_SECONDS:
        raise NotARegression(f"seconds={found.seconds}: expected more than 0, at most {MAX_SECONDS:g}")
    return found


_WORDS: Final[Mapping[str, Any]] = {"regression": regression, "strike": strike, "Plan": Plan}


def _value(node: ast.expr) -> Any:
    """A literal, or a call of one of three words with such values. Raises ValueError."""
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.func.id not in _WORDS:
            raise ValueError(f"only {', '.join(_WORDS)} may be called: {ast.unparse(node.func)}")
        if any(each.arg is None for each in node.keywords):
            raise ValueError("every argument has a name")
        named = {each.arg or "": _value(each.value) for each in node.keywords}
        return _WORDS[node.func.id](*map(_value, node.args), **named)
    if isinstance(node, ast.List):
        return [_value(each) for each in node.elts]
    return ast.literal_eval(node)


def _plan(plan: Plan) -> str:
    """What differs from a plan's own defaults."""
    words = []
    for field in fields(plan):
        value = getattr(plan, field.name)
        factory = field.default_factory
        default = factory() if factory is not MISSING else field.default
        if value != default:
            words.append(f"{field.name}={_literal(value)}")
    return f"Plan({', '.join(words)})"


def _strike(each: Strike) -> str:
    words = [_literal(each.at_ms), _text(each.kind)]
    words += [f"{name}={_literal(value)}" for name, value in each.arguments.items()]
    return f"strike({', '.join(words)})"


def _literal(value: object) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, bool) or not isinstance(value, int):
        return repr(value)
    return f"{value:_}"


def _text(text: str) -> str:
    """In double quotes, as in the rest of the code."""
    quoted = repr(text)
    return quoted if quoted[0] == '"' or '"' in quoted else f'"{quoted[1:-1]}"'


def rounded_up(seconds: float) -> float:
    """To a tenth: a run that is cut off there has what happened until `seconds`."""
    return math.ceil(round(10 * seconds, 6)) / 10
