"""How a bug is put back into the code, and how long it lives.

A mutant is a change of a function's source, made while a test runs and undone after it: production code has no switch.
What a mutant replaces must be there, so that code that moves on takes its mutants along. `killers` are the scenarios
that must find it (one is enough), in up to ORDERS orders of their steps; where there are none, `seeds` of the swarm
must.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import sys
import textwrap
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from kavka.simulator.runs.swarm import run_seed
from kavka.simulator.scenarios import SCENARIOS, play


@dataclass(frozen=True, slots=True)
class Change:
    """`target` is module:Class.function or module:function; `old` in its source becomes `new`."""

    target: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """`bug` says what is wrong with it, and whose bug it was."""

    name: str
    bug: str
    changes: tuple[Change, ...]
    killers: tuple[str, ...] = ()
    seeds: int = 0
    hours: float = 0.05

    def scenarios(self) -> list[str]:
        """Full names: `killers` has their beginnings. S6 is not that of S61, which may take long to fail."""
        names = [
            name
            for killer in self.killers
            for name in SCENARIOS
            if name.startswith(killer) and not name.removeprefix(killer)[:1].isdigit()
        ]
        assert names or not self.killers, f"{self.name}: no scenario is named like {self.killers}"
        return names


def chosen(parser: ArgumentParser, names: Sequence[str], beginnings: Sequence[str]) -> list[str]:
    """The names that begin like one of these; all if there are none. A beginning of no name ends the program."""
    for beginning in beginnings:
        if not any(name.startswith(beginning) for name in names):
            parser.error(f"no bug's name begins with {beginning!r}; there are: {'; '.join(names)}")
    return [name for name in names if not beginnings or name.startswith(tuple(beginnings))]


@contextmanager
def put_back(mutant: Mutant) -> Iterator[None]:
    """The bug is in the code while this lasts."""
    undo: list[tuple[Any, str, Any]] = []
    try:
        for target in dict.fromkeys(change.target for change in mutant.changes):
            changes = [change for change in mutant.changes if change.target == target]
            undo += _apply(target, changes)
        yield
    finally:
        for owner, name, before in reversed(undo):
            setattr(owner, name, before)


def _apply(target: str, changes: Sequence[Change]) -> list[tuple[Any, str, Any]]:
    """What was there before, by owner and name: a module that imported the function by its name has it, too."""
    module_name, _, path = target.partition(":")
    owner: Any = importlib.import_module(module_name)
    *owners, name = path.split(".")
    for each in owners:
        owner = getattr(owner, each)
    before = inspect.getattr_static(owner, name)
    function = before.fget if isinstance(before, property) else before
    assert isinstance(function, FunctionType), target
    source = textwrap.dedent(inspect.getsource(function))
    for change in changes:
        assert change.old in source, f"{target} has no {change.old!r} any more"
        source = source.replace(change.old, change.new)
    space: dict[str, Any] = {}
    future = __future__.annotations.compiler_flag
    code = compile(source, inspect.getfile(function), "exec", flags=future)
    exec(code, dict(function.__globals__), space)
    after = space[name].fget if isinstance(before, property) else space[name]
    mutated = FunctionType(after.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    mutated.__kwdefaults__ = function.__kwdefaults__
    setattr(owner, name, property(mutated) if isinstance(before, property) else mutated)
    undo = [(owner, name, before)]
    for module_with_it, its_name in _imported(function):
        undo.append((module_with_it, its_name, function))
        setattr(module_with_it, its_name, mutated)
    return undo


def _imported(function: FunctionType) -> list[tuple[Any, str]]:
    """Modules that have the function, by `from ... import`, and as what."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("kavka.")]
    return [(module, name) for module in modules for name, value in vars(module).items() if value is function]


ORDERS = 4
"""Each scenario is played in so many orders of steps."""
_NONSENSE = (AttributeError, NameError, TypeError, ImportError)
"""What is raised where a mutant is no bug, but source that cannot run."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What found a mutant. `tries`: how many scenarios or seeds had to be played for it."""

    tries: int
    by: str
    what: str

    def __str__(self) -> str:
        return f"try {self.tries}, {self.by}: {self.what}"


def hunt(mutant: Mutant) -> Kill | None:
    """Puts the bug back and looks for it; None if it lives."""
    with put_back(mutant):
        return _find(mutant)


def _find(mutant: Mutant) -> Kill | None:
    tries = 0
    for order in range(1, ORDERS + 1):
        for name in mutant.scenarios():
            tries += 1
            try:
                play(name, order)
            except Exception as failure:  # whatever ends a scenario has found it
                if isinstance(failure.__cause__ or failure, _NONSENSE):
                    raise
                return Kill(tries, f"{name}, order {order}", str(failure))
    for seed in range(1, mutant.seeds + 1):
        result = run_seed(seed, hours=mutant.hours)
        if result.violation:
            return Kill(seed, f"seed {seed}", result.violation)
    return None
