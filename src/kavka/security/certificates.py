"""Certificates: what a broker needs to know of one: its subject, its names, until when it is valid.

Decides how these are read from DER. Must not know whether to trust it: OpenSSL verified the chain before, or the
operator named the file.

I1  Whatever the bytes are, the outcome is a value or a MalformedDer.

Source: RFC 5280, sections 4.1 and 4.2.1.6.
"""

from __future__ import annotations

import calendar
import re
from typing import Final, NamedTuple

from kavka.security import der
from kavka.security.distinguished_name import name_text

_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_KINDS: Final = {0x81: "email", 0x82: "DNS", 0x86: "URI", 0x87: "IP"}


class Certificate(NamedTuple):
    """What one certificate says. `subject` and `issuer` are as Java prints them; `alternative_names` are texts like
    DNS:example.com and IP:7f000001; times are milliseconds since 1970."""

    subject: str
    issuer: str
    not_before_ms: int
    not_after_ms: int
    alternative_names: frozenset[str]


def subject(encoded: bytes) -> str:
    """The subject of a DER-encoded certificate, as Java prints it. Raises MalformedDer."""
    return name_text(_fields(encoded)[4].whole)


def read_certificate(encoded: bytes) -> Certificate:
    """What a DER-encoded certificate says. Raises MalformedDer."""
    fields = _fields(encoded)
    validity = fields[3].list(der.SEQUENCE)
    if len(validity) != 2:
        raise der.MalformedDer("a validity that is no pair of times")
    names: frozenset[str] = frozenset()
    for field in fields[6:]:
        if field.tag == _EXTENSIONS:
            names = _alternative_names(field)
    return Certificate(
        name_text(fields[4].whole), name_text(fields[2].whole), _time_ms(validity[0]), _time_ms(validity[1]), names
    )


def _fields(encoded: bytes) -> list[der.Value]:
    """Serial number, algorithm, issuer, validity, subject, key, and what follows; the version is left out."""
    whole = der.read_whole(encoded).list(der.SEQUENCE)
    fields = whole[0].list(der.SEQUENCE) if whole else []
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < 6:
        raise der.MalformedDer("a certificate without all of its fields")
    return fields


def _alternative_names(field: der.Value) -> frozenset[str]:
    for extensions in field.items():
        for extension in extensions.list(der.SEQUENCE):
            items = extension.list(der.SEQUENCE)
            if not items or items[0].tag != der.OBJECT_IDENTIFIER:
                raise der.MalformedDer("an extension without a type")
            if der.object_identifier(items[0].content) == _ALTERNATIVE_NAMES:
                names = der.read_whole(items[-1].content).list(der.SEQUENCE)
                return frozenset(_alternative_name(name) for name in names)
    return frozenset()


def _alternative_name(name: der.Value) -> str:
    kind = _KINDS.get(name.tag)
    if kind is None:
        return f"{name.tag:#04x}:{name.content.hex()}"
    return f"{kind}:{name.content.hex() if kind == 'IP' else name.content.decode('ascii', 'replace')}"


def _time_ms(value: der.Value) -> int:
    text = value.content.decode("ascii", "replace")
    if value.tag == der.UTC_TIME and len(text) == 13:
        text = ("20" if text[:2] < "50" else "19") + text
    if value.tag not in (der.UTC_TIME, der.GENERALIZED_TIME) or not re.fullmatch(r"[0-9]{14}Z", text):
        raise der.MalformedDer(f"no time: {text!r}")
    parts = [int(text[:4]), *(int(text[at : at + 2]) for at in range(4, 14, 2))]
    try:
        return calendar.timegm((*parts, 0, 0, 0)) * 1000
    except ValueError as error:
        raise der.MalformedDer(f"no time: {text!r}") from error
