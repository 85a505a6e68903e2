"""Simulated brokers do not write of what is made to happen to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kavka.logger import set_level


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    set_level("error")
    yield
    set_level("debug")
