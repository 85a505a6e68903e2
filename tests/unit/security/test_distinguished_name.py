"""Subjects of certificates as Java prints them. The golden texts were written by Java's X500Principal.getName()."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.security import der
from kavka.security.certificates import read_certificate, subject
from kavka.security.distinguished_name import name_text

GOLDEN = json.loads((Path(__file__).parent / "names_by_java.json").read_text())


def test_a_name_has_the_text_that_java_prints() -> None:
    assert len(GOLDEN) >= 60
    assert [(encoded, name_text(bytes.fromhex(encoded))) for encoded, _ in GOLDEN] == [tuple(row) for row in GOLDEN]


@given(st.sampled_from([bytes.fromhex(encoded) for encoded, _ in GOLDEN if encoded]), st.data())
def test_a_broken_name_is_malformed_or_another_name(encoded: bytes, data: st.DataObject) -> None:
    broken = bytearray(encoded)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    for read in (name_text, subject, read_certificate):
        try:
            read(cut)
        except der.MalformedDer:
            pass


@given(st.binary(max_size=200))
def test_any_bytes_are_malformed_or_a_name(data: bytes) -> None:
    for read in (name_text, subject, read_certificate):
        try:
            read(data)
        except der.MalformedDer:
            pass


def test_a_length_is_never_believed() -> None:
    for data in (b"0\x84\xff\xff\xff\xff", b"0\x85\x01\x01\x01\x01\x01", b"0\x80", b"0", b"", b"\x1f\x1f\x00"):
        with pytest.raises(der.MalformedDer):
            der.read(data)


def test_an_object_identifier_has_a_bound() -> None:
    assert der.object_identifier(b"\x81" * 255 + b"\x01").startswith("2.")
    for size in (256, 10_000):
        with pytest.raises(der.MalformedDer, match="bytes"):
            der.object_identifier(b"\x81" * size + b"\x01")
