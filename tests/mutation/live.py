"""A changed module in the place of the one that runs.

Where only functions differ, the code of the live ones is replaced: whoever imported them has the change too. Anything
else (constants, defaults, tables, class bodies) is evaluated when a module is imported, and needs a new process.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any


class NeedsImport(Exception):
    """The change is outside of functions, or in one that cannot be found alive."""


def replace(module: ModuleType, path: Path, before: str, after: str) -> bool:
    """Puts the functions of `after` that differ from `before` into the running module. False if the two do the same.
    Raises NeedsImport, before anything is changed."""
    old, new = compile(before, str(path), "exec"), compile(after, str(path), "exec")
    changes = list(_changes(old, new))
    live = {(f.__code__.co_qualname, f.__code__.co_firstlineno): f for f in _functions(module)}
    pairs = []
    for was, becomes in changes:
        function = live.get((was.co_qualname, was.co_firstlineno))
        if function is None:
            raise NeedsImport(was.co_qualname)
        pairs.append((function, becomes))
    for function, becomes in pairs:
        function.__code__ = becomes
    return bool(pairs)


def _changes(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The outermost functions that differ."""
    if _shape(old) != _shape(new):
        if old.co_flags & CO_NEWLOCALS and old.co_freevars == new.co_freevars:
            yield old, new
            return
        raise NeedsImport(old.co_qualname)
    if old.co_flags & CO_NEWLOCALS:
        # The same function; what is nested in it belongs to it.
        if any(True for pair in zip(_nested(old), _nested(new), strict=True) for _ in _changes_inside(*pair)):
            yield old, new
        return
    for was, becomes in zip(_nested(old), _nested(new), strict=True):
        yield from _changes(was, becomes)


def _changes_inside(old: CodeType, new: CodeType) -> Iterator[None]:
    if _shape(old) != _shape(new):
        yield None
        return
    for was, becomes in zip(_nested(old), _nested(new), strict=True):
        yield from _changes_inside(was, becomes)


def _nested(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _shape(code: CodeType) -> tuple[object, ...]:
    """What a code object does, without its line numbers and what is nested in it. 1, 1.0 and True are three."""
    constants = tuple("code" if isinstance(each, CodeType) else repr(each) for each in code.co_consts)
    return (
        code.co_code,
        constants,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_exceptiontable,
    )


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    seen: set[int] = set()
    waiting: list[Any] = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            yield each
            waiting.append(getattr(each, "__wrapped__", None))
        elif isinstance(each, type):
            if each.__module__ == module.__name__:
                waiting.extend(vars(each).values())
        elif isinstance(each, staticmethod | classmethod):
            waiting.append(each.__func__)
        elif isinstance(each, property):
            waiting.extend((each.fget, each.fset, each.fdel))
        elif isinstance(each, cached_property):
            waiting.append(each.func)
