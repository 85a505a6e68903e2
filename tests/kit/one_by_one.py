"""OneByOne: a dict in which each key can be looked up, and nobody walks through all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class OneByOne(dict[Any, Any]):
    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all were looked at")

    keys = values = items = __iter__  # type: ignore[assignment]  # whoever walks through them fails

    def whole(self) -> dict[Any, Any]:
        """A usual dict of the same."""
        return dict(dict.items(self))
