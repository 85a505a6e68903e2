"""Distinguished names: a certificate's subject as Java prints it, for that text is the principal in ACLs.

Decides the text of a name: the order of its parts, their keywords, what is escaped. Must not know certificates.

    RFC 2253    the last part first, separated by ","; a part with several attributes joins them with "+"
    keywords    CN, C, L, ST (also written S), O, OU, STREET, DC, UID; other attributes are OID=#hex of their DER
    escapes     , = + < > # ; " \\ anywhere, a space or carriage return at either end, NUL as \\00

I1  Whatever the bytes are, the outcome is a text or a MalformedDer.
I2  Each text is what X500Principal.getName() gives (tests/unit/security/names_by_java.json was written by Java).

Source: RFC 2253; java.security's X500Principal, as Apache Kafka's DefaultKafkaPrincipalBuilder uses it.
"""

from __future__ import annotations

from typing import Final

from kavka.security import der

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""The tags UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString. Java reads the bytes of all of
them as UTF-8, here. Values of other types are shown as hex."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANKS: Final = " \r"


def name_text(encoded: bytes) -> str:
    """The text of a DER-encoded Name. Raises MalformedDer."""
    parts = der.read_whole(encoded).list(der.SEQUENCE)
    return ",".join("+".join(_attribute(pair) for pair in part.list(der.SET)) for part in reversed(parts))


def _attribute(pair: der.Value) -> str:
    items = pair.list(der.SEQUENCE)
    if len(items) != 2 or items[0].tag != der.OBJECT_IDENTIFIER:
        raise der.MalformedDer("an attribute that is no pair of a type and a value")
    kind, value = der.object_identifier(items[0].content), items[1]
    keyword = _KEYWORDS.get(kind)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or kind}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = "".join("\\" + one if one in _ESCAPED else "\\00" if one == "\0" else one for one in text)
    start = len(inner) - len(inner.lstrip(_BLANKS))
    end = len(inner.rstrip(_BLANKS))
    if start >= end:
        return "".join("\\" + one for one in inner)
    lead = "".join("\\" + one for one in inner[:start])
    trail = "".join("\\" + one for one in inner[end:])
    return lead + inner[start:end] + trail
