"""Options that mean one thing together, for several commands: written once, and handed to each as one value."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any


def takes(read: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """For a command whose first parameter is what `read` returns: on the command line, the options that are `read`'s
    parameters stand for it, before the command's own. All of these have defaults."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        shared = inspect.signature(read, eval_str=True).parameters
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(read(**{name: given.pop(name) for name in shared}), **given)

        run.__signature__ = inspect.Signature([*shared.values(), *own])  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in (*shared.values(), *own)}
        return run

    return decorate
