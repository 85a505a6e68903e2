"""Which test shows the effect of which setting: python tools/setting_tests.py prints the list.

A test says so with `@pytest.mark.setting("min.insync.replicas", ...)`. tests/unit/config/test_setting_tests.py fails
where a setting that is in force has none and is not among those that are known to have none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from kavka.config.broker_settings import BrokerSettings, DynamicOnlySettings
from kavka.config.effect import Effect, standing
from kavka.config.setting import Settings
from kavka.config.topic import TopicSettings

ROOT = Path(__file__).resolve().parent.parent
MARK = "pytest.mark.setting"
Listing = dict[str, list[str]]


def showing_tests() -> Listing:
    """Names of settings to the tests that name them, as path::test."""
    found: Listing = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, name in _marks(ast.parse(path.read_text())):
            found.setdefault(name, []).append(f"{path.relative_to(ROOT)}::{test}")
    return found


def in_force() -> dict[type[Settings], list[str]]:
    """The settings whose effect a test should show, by their table."""
    tables = (TopicSettings, BrokerSettings, DynamicOnlySettings)
    obeyed = (Effect.IN_FORCE, Effect.AT_START)
    return {table: [name for name in table.rows if standing(name, table).effect in obeyed] for table in tables}


def _marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARK:
                for argument in decorator.args:
                    if isinstance(argument, ast.Constant):
                        yield node.name, str(argument.value)


def listing() -> str:
    """The list as text, a setting with its tests below it."""
    tests = showing_tests()
    lines = []
    for table, names in in_force().items():
        lines.append(f"# {table.__name__}")
        for name in sorted(names):
            lines.append(name)
            lines.extend(f"    {test}" for test in tests.get(name, ["(no test)"]))
    return "\n".join(lines)


if __name__ == "__main__":
    print(listing())
