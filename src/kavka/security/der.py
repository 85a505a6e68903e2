"""DER: the few forms of ASN.1's distinguished encoding that certificates and key stores need.

Decides where a value begins and ends. Must not know what it means. Bytes come from a client's certificate (after its
chain was verified) and from the operator's files.

I1  Every length is checked against what is there; whatever the bytes are, the outcome is a value or a MalformedDer.
I2  Nothing is recursive: how deep values nest is the caller's to say.

Source: X.690, sections 8 and 10.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18
SEQUENCE: Final = 0x30
SET: Final = 0x31
MAX_LENGTH_BYTES: Final = 4
"""A length in more bytes is refused: no file of an operator has 4 GiB."""
MAX_IDENTIFIER_BYTES: Final = 256
"""Reading one takes a time that grows with the square of its length; real ones have some ten bytes."""


class MalformedDer(ValueError):
    """Bytes that are no DER, or not the value that belongs there."""


class Value(NamedTuple):
    """One value: its tag, its content, and the whole with tag and length."""

    tag: int
    content: bytes
    whole: bytes

    def items(self) -> Iterator[Value]:
        """The values that the content consists of."""
        position = 0
        while position < len(self.content):
            item, position = read(self.content, position)
            yield item

    def list(self, tag: int) -> list[Value]:
        """The values in it, where this is a `tag`. Raises MalformedDer."""
        if self.tag != tag:
            raise MalformedDer(f"tag {self.tag:#04x} where {tag:#04x} belongs")
        return list(self.items())


def read(data: bytes, position: int = 0) -> tuple[Value, int]:
    """The value at `position`, and where the next one begins. Raises MalformedDer."""
    start = position
    if position + 2 > len(data):
        raise MalformedDer("the value is cut off")
    tag, length = data[position], data[position + 1]
    if tag & 0x1F == 0x1F:
        raise MalformedDer("a tag of several bytes")
    position += 2
    if length & 0x80:
        size = length & 0x7F
        if not 0 < size <= MAX_LENGTH_BYTES or position + size > len(data):
            raise MalformedDer("a length that cannot be")
        length = int.from_bytes(data[position : position + size])
        position += size
    if length > len(data) - position:
        raise MalformedDer(f"{length} bytes announced, {len(data) - position} are there")
    end = position + length
    return Value(tag, data[position:end], data[start:end]), end


def read_whole(data: bytes) -> Value:
    """The one value that `data` is. Raises MalformedDer for bytes behind it, too."""
    value, end = read(data)
    if end != len(data):
        raise MalformedDer(f"{len(data) - end} bytes behind the value")
    return value


def object_identifier(content: bytes) -> str:
    """The dotted text of an object identifier. Raises MalformedDer."""
    if not content or content[-1] & 0x80:
        raise MalformedDer("an object identifier that is cut off")
    if len(content) > MAX_IDENTIFIER_BYTES:
        raise MalformedDer(f"an object identifier of {len(content)} bytes")
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(str(part) for part in (first, numbers[0] - 40 * first, *numbers[1:]))
