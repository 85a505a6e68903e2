"""Relay: joins a part that reports something with the parts that must hear of it, where it is made before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Relay(Generic[T]):
    """Called with a value, it calls everything that was added, in that order."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[T], None]] = []

    def add(self, *listeners: Callable[[T], None]) -> None:
        self._listeners.extend(listeners)

    def __call__(self, value: T) -> None:
        for listener in self._listeners:
            listener(value)
