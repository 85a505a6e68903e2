"""What is left for the garbage collector: objects that nobody has any more, and that did not go by themselves."""

from __future__ import annotations

import gc
from collections.abc import Callable


def left_behind(kind: type, work: Callable[[], object]) -> int:
    """How many objects of this kind, made by `work`, are there after it until the collector finds them."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        before = _count(kind)
        work()
        return _count(kind) - before
    finally:
        if was_enabled:
            gc.enable()


def _count(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())
