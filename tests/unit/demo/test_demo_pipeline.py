"""Where the demo has no pipeline, it says why in a sentence; and its flights come in the order of their time."""

from __future__ import annotations

import importlib.util
import shutil

import pytest
from demo.flights import Flight
from demo.pipeline import in_order_of_time, why_not

from kavka.installation import install_command


def test_without_java_or_pyspark_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "which", lambda name: None)
        assert why_not().startswith(("there is no Java", "PySpark is not installed"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert why_not() == f"PySpark is not installed: {install_command('spark')}"


def test_flights_come_in_the_order_of_their_time_and_else_as_in_the_file() -> None:
    flights = [Flight(b"%d" % number, b"", [], at_ms) for number, at_ms in enumerate([30, 10, 30, 20])]
    assert [flight.key for flight in in_order_of_time(flights)] == [b"1", b"3", b"0", b"2"]
