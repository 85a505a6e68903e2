"""What stands in for C and Rust in a page does the same, or says that it does not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

STANDINS = Path(__file__).resolve().parents[3] / "playground" / "standins"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"standin_{name}", STANDINS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(st.binary(max_size=300), st.integers(0, 2**32 - 1))
def test_crc32c_is_that_of_the_package(data: bytes, before: int) -> None:
    assert load("crc32c").crc32c(data, before) == crc32c.crc32c(data, before)


def test_crc32c_of_a_view_is_that_of_its_bytes() -> None:
    assert load("crc32c").crc32c(memoryview(b"123456789")) == 0xE3069283


def test_a_codec_is_refused_in_words() -> None:
    with pytest.raises(NotImplementedError, match="no snappy, lz4 or zstd"):
        load("cramjam").snappy  # noqa: B018
