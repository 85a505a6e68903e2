"""Messages to bytes and back: the door of the protocol room.

    request = decode(ProduceRequest, body, 9)
    body = encode(response, 9)
    chunks = encode_chunks(fetch_response, 16)

The function for a message and version is written when it is first needed (compiler.py), so start-up pays for nothing.

I1. Whatever the bytes are, `decode` returns a message or raises ProtocolViolation or UnsupportedVersion; it takes time
    and memory in proportion to the number of bytes, not to the numbers that they claim.
I2. A decoded message holds no reference to the buffer, with one exception: fields of record batches are views of it.
I3. A request or stored value that holds something its version cannot carry is refused; a response drops it, because who
    answers did not choose the version.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import error as struct_error
from typing import Any, TypeVar

from kavka.errors import ErrorCode, ProtocolViolation, RequestError
from kavka.model import Chunk
from kavka.protocol import compiler
from kavka.protocol.primitives import Buffer
from kavka.protocol.schema import Message

__all__ = ["EncodeError", "UnsupportedVersion", "decode", "encode", "encode_chunks", "min_max_versions"]

M = TypeVar("M", bound=Message)


class UnsupportedVersion(RequestError):
    """A version that this message does not have. `code` is UNSUPPORTED_VERSION."""

    def __init__(self, name: str, version: int, min_version: int, max_version: int) -> None:
        super().__init__(
            ErrorCode.UNSUPPORTED_VERSION, f"{name} has the versions {min_version} to {max_version}, not {version}"
        )
        self.version = version
        self.min_version = min_version
        self.max_version = max_version


class EncodeError(ValueError):
    """A message that cannot be written: null or a wrong type where a value must be, or a number out of its range."""


def decode(message_type: type[M], data: Buffer, version: int) -> M:
    """The message that `data` holds, which must be all of it.

    A request may have bytes behind it, which are passed over as Kafka does: librdkafka 2.16 sends three too many with
    Metadata 13 for all topics.

    Raises ProtocolViolation for bytes that are no such message and UnsupportedVersion.
    """
    function = message_type._decoders.get(version) or _decoder(message_type, version)
    try:
        return function(data)  # type: ignore[no-any-return]  # written by the compiler for this class
    except (struct_error, IndexError) as error:
        raise ProtocolViolation(f"{message_type.__name__} v{version}: its {len(data)} bytes end too early") from error
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"{message_type.__name__} v{version}: a string is not UTF-8: {error}") from error


def encode(message: Message, version: int) -> bytes:
    """`message` as bytes, record batches copied in (and read, where they are slices of a file).

    Raises UnsupportedVersion and EncodeError.
    """
    function = message._encoders.get(version) or _encoder(type(message), version)
    try:
        return bytes(function(message))
    except (struct_error, AttributeError, TypeError, ValueError) as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error


def encode_chunks(message: Message, version: int) -> list[Chunk]:
    """`message` as pieces to send one after the other; its record batches are passed by reference, never copied.

    Raises UnsupportedVersion and EncodeError.
    """
    function = message._chunk_encoders.get(version) or _chunk_encoder(type(message), version)
    try:
        return function(message)
    except (struct_error, AttributeError, TypeError, ValueError) as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error


def min_max_versions(message_type: type[Message]) -> tuple[int, int]:
    """The oldest and newest version that can be encoded and decoded."""
    return message_type._schema.min_version, message_type._schema.max_version


def _decoder(message_type: type[Message], version: int) -> Callable[[Buffer], Any]:
    _check_version(message_type, version)
    function = message_type._decoders[version] = compiler.decoder(message_type, version)
    return function


def _encoder(message_type: type[Message], version: int) -> Callable[[Any], bytearray]:
    _check_version(message_type, version)
    function = message_type._encoders[version] = compiler.encoder(message_type, version)
    return function


def _chunk_encoder(message_type: type[Message], version: int) -> Callable[[Any], list[Any]]:
    _check_version(message_type, version)
    function = message_type._chunk_encoders[version] = compiler.chunk_encoder(message_type, version)
    return function


def _check_version(message_type: type[Message], version: int) -> None:
    schema = message_type._schema
    if not schema.min_version <= version <= schema.max_version:
        raise UnsupportedVersion(schema.name, version, schema.min_version, schema.max_version)
