"""What comes before a client is known, damaged: some of each kind; `make fuzz` reads 100,000 of each."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.unauthenticated import KINDS, run


@pytest.mark.parametrize("kind", KINDS, ids=lambda make: make.__name__)
def test_damaged_bytes_are_refused_as_is_meant_and_let_nobody_in(kind: object) -> None:
    report = run(kind(), int(os.environ.get("KAVKA_FUZZ_INPUTS", "300")), seed=7)  # type: ignore[operator]
    assert not report.findings
    assert len(report.said) > 1, "all inputs met one and the same end: they are not what they should be"
