"""What is parsed behind a login, damaged: some of each kind; `make fuzz` reads 100,000 of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fuzz.parsers import KINDS
from tests.fuzz.unauthenticated import Kind, run


@pytest.mark.parametrize("kind", KINDS, ids=lambda make: make.__name__)
def test_damaged_bytes_are_refused_as_is_meant(kind: Callable[[], Kind]) -> None:
    report = run(kind(), 600, seed=7)
    assert not report.findings
    assert len(report.said) > 1, "all inputs met one and the same end: they are not what they should be"
