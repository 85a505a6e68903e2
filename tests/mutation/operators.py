"""What is changed: cosmic-ray's operators, one for each question that a test should ask, and two of ours.

Where one operator's death implies another's, only the harder one to kill is used: a test that tells `<` from `<=` tells
it from `>=` too, so comparisons move by their boundary, and a condition that is one comparison is not negated besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.operators.provider import OperatorProvider

CORE: Final = (
    "AddNot",
    "ExceptionReplacer",
    "NumberReplacer",
    "ReplaceAndWithOr",
    "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_BitAnd_BitOr",
    "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceBinaryOperator_FloorDiv_Mul",
    "ReplaceBinaryOperator_LShift_RShift",
    "ReplaceBinaryOperator_Mod_FloorDiv",
    "ReplaceBinaryOperator_Mul_FloorDiv",
    "ReplaceBinaryOperator_RShift_LShift",
    "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBreakWithContinue",
    "ReplaceComparisonOperator_Eq_NotEq",
    "ReplaceComparisonOperator_Gt_GtE",
    "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Is_IsNot",
    "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_LtE_Lt",
    "ReplaceComparisonOperator_NotEq_Eq",
    "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue",
    "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse",
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "ZeroIterationForLoop",
)

PROVEN_BY_TYPES: Final = ("assert_never", "cast", "reveal_type")
"""Calls that mypy proves to do nothing where they stand."""


class SwapMembership(Operator):  # type: ignore[misc]
    """`in` becomes `not in`, and the other way round, outside of a for loop's head."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if node.type == "comparison":
            for _, operator in self._members(node):
                yield operator.start_pos, operator.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        place, operator = self._members(node)[index]
        is_in = operator.get_code().split() == ["in"]
        node.children[place] = parso.parse(" not in" if is_in else " in")
        return node

    @staticmethod
    def _members(node: Any) -> list[tuple[int, Any]]:
        return [
            (place, child)
            for place, child in enumerate(node.children)
            if place % 2 and child.get_code().split() in (["in"], ["not", "in"])
        ]

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return Example("x in y", "x not in y"), Example("x not in y", "x in y")


class DropStatement(Operator):  # type: ignore[misc]
    """A statement that acts becomes `pass`: a call whose value nobody takes, an assignment to an attribute or an item,
    an augmented one, `del`, `raise`, `yield`, and a `return` without a value."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        if node.type == "simple_stmt" and _acts(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        assert index == 0
        nothing = parso.parse("pass\n").children[0].children[0]
        nothing.prefix = node.children[0].get_first_leaf().prefix
        node.children[0] = nothing
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("def f():\n    x.y = 1\n", "def f():\n    pass\n"),)


def _acts(statement: Any) -> bool:
    if statement.type in ("del_stmt", "raise_stmt", "yield_expr", "await_expr"):
        return True
    if statement.type in ("keyword", "return_stmt"):
        return bool(statement.get_code().strip() in ("return", "raise"))
    if statement.type in ("power", "atom_expr"):
        code = statement.get_code().strip()
        return code.endswith(")") and not code.startswith(PROVEN_BY_TYPES)
    if statement.type != "expr_stmt":
        return False
    return statement.children[0].type in ("power", "atom_expr") or _is_augmented(statement)


def _is_augmented(statement: Any) -> bool:
    operator = statement.children[1]
    return bool(operator.type == "operator" and operator.value != "=")


def chosen() -> dict[str, Operator]:
    """Each operator by its name."""
    core = OperatorProvider()
    operators: dict[str, Operator] = {name: core[name]() for name in CORE}
    return operators | {"SwapMembership": SwapMembership(), "DropStatement": DropStatement()}


def asks_nothing(name: str, node: Any) -> bool:
    """Whether another operator asks the same of this place, whether the change could not be compiled (a `*` between
    parameters), or whether nothing would run at all with it (a constructor that leaves an attribute out)."""
    if name == "AddNot":
        condition = node.children[2] if node.type == "test" else node.children[1]
        return bool(condition.type in ("comparison", "not_test"))
    if name == "DropStatement":
        statement = node.children[0]
        is_plain = statement.type == "expr_stmt" and not _is_augmented(statement)
        return is_plain and _function(node) == "__init__"
    return bool(node.type == "operator" and node.parent.type not in ("arith_expr", "expr", "shift_expr", "term"))


def _function(node: Any) -> str:
    while node is not None and node.type != "funcdef":
        node = node.parent
    return "" if node is None else str(node.name.value)
