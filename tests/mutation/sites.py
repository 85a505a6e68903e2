"""Each place of a module where an operator changes something.

A site's name has no line number, so that what is known of it (explained/) stays with it while code around it
changes: the definition, the operator, the line's text, and which of several alike it is.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.operators.operator import Operator

from tests.mutation.operators import asks_nothing, chosen
from tests.mutation.rooms import SOURCES

Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Site:
    """`turn`: which of several sites with the same module, definition, operator and text it is, from 1."""

    module: str
    definition: str
    operator: str
    text: str
    turn: int
    line: int
    last_line: int
    node: Any
    index: int
    acts: Operator

    @property
    def name(self) -> str:
        return f"{self.module} {self.definition} {self.operator} {self.turn}: {self.text}"

    def mutated(self, source: str) -> str:
        """The module with this change. The tree behind the site is spoilt by it: ask a forked child."""
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        first, last = self.node.get_start_pos_of_prefix(), self.node.end_pos
        changed = self.acts.mutate(self.node, self.index)
        before, after = source[: starts[first[0] - 1] + first[1]], source[starts[last[0] - 1] + last[1] :]
        return before + ("" if changed is None else changed.get_code()) + after


def sites(path: Path) -> list[Site]:
    """All sites of the module at `path`, in the order of its text."""
    source = path.read_text()
    lines = source.splitlines()
    left_out = list(_never_run(ast.parse(source)))
    nodes = list(ast_nodes(parso.parse(source)))
    found: list[tuple[Position, str, str, int, int, Any, int, Operator]] = []
    for name, operator in chosen().items():
        for node in nodes:
            for index, (start, end) in enumerate(operator.mutation_positions(node)):
                if asks_nothing(name, node) or any(first <= start < last for first, last in left_out):
                    continue
                definition = _definition(node)
                if definition == "" and name == "DropStatement":
                    continue
                found.append((start, name, definition, start[0], end[0], node, index, operator))
    found.sort(key=lambda each: (each[0], each[1], each[6]))
    module = str(path.relative_to(SOURCES))
    seen: Counter[tuple[str, str, str]] = Counter()
    result = []
    for _, name, definition, line, last_line, node, index, operator in found:
        text = lines[line - 1].strip()
        seen[definition, name, text] += 1
        turn = seen[definition, name, text]
        result.append(Site(module, definition, name, text, turn, line, last_line, node, index, operator))
    return result


def _definition(node: Any) -> str:
    """Class.function around a node; empty at a module's top level."""
    names = []
    while node is not None:
        if node.type in ("funcdef", "classdef"):
            names.append(node.name.value)
        node = node.parent
    return ".".join(reversed(names))


def _never_run(tree: ast.Module) -> Iterator[tuple[Position, Position]]:
    """Where annotations stand, and what holds for type checkers alone. They see to it that nobody sets what is frozen,
    or an attribute without a slot, too."""
    for node in ast.walk(tree):
        unasked: list[ast.expr | None] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            unasked.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            unasked.append(node.annotation)
        elif isinstance(node, ast.ClassDef):
            unasked += [each for each in node.decorator_list if ast.unparse(each).startswith("dataclass(")]
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield (node.lineno, 0), (node.end_lineno or node.lineno, 1 << 30)
        for each in unasked:
            if each is not None:
                yield (each.lineno, each.col_offset), (each.end_lineno or 0, each.end_col_offset or 0)
