"""Subjects: what a schema registry says of its subjects, versions and levels, and how two versions differ.

Decides which of the registry's addresses are asked, what of an answer is taken, and how much is compared. Must not know
pages. Reading records by schemas is kavka.schema_registry's.

    GET /subjects; /subjects/S/versions; /subjects/S/versions/V
    GET /config; /config/S                              the level, 404 or 40408 where the subject has none of its own
    POST /compatibility/subjects/S/versions/latest?verbose=true      whether a schema would be taken

I1  An answer may be anything: what is no text, number or list in its place is left out, and all is bounded.
I2  Texts of more than MOST_LINES lines are not compared.

Source: Confluent Schema Registry's API reference.
"""

from __future__ import annotations

import difflib
import json
from typing import Any, Final, NamedTuple

from kavka.console.sources.rest_service import RestFailed, RestService, part

MOST_SUBJECTS: Final = 20_000
MOST_VERSIONS: Final = 1_000
MOST_LINES: Final = 1_500
MOST_REASONS: Final = 50
LONGEST_TEXT: Final = 500
LONGEST_LAID_OUT: Final = 1_000_000
"""Characters: half a second at most, in which nobody else has a turn."""
KINDS: Final = ("AVRO", "JSON", "PROTOBUF")


class Version(NamedTuple):
    """A version of a subject. text: laid out, if it is JSON."""

    subject: str
    version: int
    number: int
    kind: str
    text: str
    references: tuple[str, ...]


class Level(NamedTuple):
    """A compatibility level. is_own: of the subject itself, not the registry's."""

    name: str
    is_own: bool


class Verdict(NamedTuple):
    """Whether the registry would take a schema; the reasons where not, as far as it says them."""

    is_compatible: bool
    reasons: tuple[str, ...]


class Line(NamedTuple):
    """Of a comparison. sign: + - or a blank; @ between parts that are the same."""

    sign: str
    text: str


async def read_subjects(service: RestService) -> list[str]:
    """By name. Raises RestFailed."""
    found = await service.ask("GET", "/subjects")
    return sorted({each for each in _list(found) if isinstance(each, str)})[:MOST_SUBJECTS]


async def read_versions(service: RestService, subject: str) -> list[int]:
    """The oldest first. Raises RestFailed."""
    found = await service.ask("GET", f"/subjects/{part(subject)}/versions")
    return sorted({each for each in _list(found) if type(each) is int and 0 < each < 2**31})[-MOST_VERSIONS:]


async def read_version(service: RestService, subject: str, version: int) -> Version:
    """Raises RestFailed."""
    found = await service.ask("GET", f"/subjects/{part(subject)}/versions/{version}")
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        raise RestFailed(f"{service.address} answered without a schema")
    number, references = found.get("id"), _list(found.get("references"))
    return Version(
        subject,
        version,
        number if type(number) is int else 0,
        str(found.get("schemaType") or "AVRO")[:LONGEST_TEXT],
        laid_out(found["schema"]),
        tuple(
            f"{each.get('name')} = {each.get('subject')} {each.get('version')}"[:LONGEST_TEXT]
            for each in references[:MOST_REASONS]
            if isinstance(each, dict)
        ),
    )


async def read_level(service: RestService, subject: str = "") -> Level:
    """Of a subject, or without one of the registry. Raises RestFailed."""
    if subject:
        try:
            own = await service.ask("GET", f"/config/{part(subject)}")
            return Level(_level(own), is_own=True)
        except RestFailed as missing:
            if missing.status != 404:
                raise
    return Level(_level(await service.ask("GET", "/config")), is_own=False)


async def check(service: RestService, subject: str, kind: str, text: str) -> Verdict:
    """What the registry says of a schema beside the subject's latest version. Raises RestFailed."""
    where = f"/compatibility/subjects/{part(subject)}/versions/latest?verbose=true"
    body = {"schema": text} if kind == "AVRO" else {"schema": text, "schemaType": kind}
    found = await service.ask("POST", where, body)
    if not isinstance(found, dict) or not isinstance(found.get("is_compatible"), bool):
        raise RestFailed(f"{service.address} answered without a verdict")
    reasons = [str(each)[: 4 * LONGEST_TEXT] for each in _list(found.get("messages"))[:MOST_REASONS]]
    return Verdict(found["is_compatible"], tuple(reasons))


def laid_out(text: str) -> str:
    """JSON with a line for each entry; anything else, and what would be longer than LONGEST_LAID_OUT, as it is."""
    try:
        found = json.loads(text)
        if not isinstance(found, (dict, list)):
            return text
        pieces, length = [], 0
        # Piece by piece: each line is indented by its depth, so that the whole may be a thousand times the text.
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(found):
            pieces.append(piece)
            length += len(piece)
            if length > LONGEST_LAID_OUT:
                return text
        return "".join(pieces)
    except (ValueError, RecursionError):
        return text


def difference(before: str, after: str) -> list[Line] | None:
    """Line by line, with three lines around what differs; None where there is too much to compare.

    >>> difference("a\\nb", "a\\nc")
    [Line(sign=' ', text='a'), Line(sign='-', text='b'), Line(sign='+', text='c')]
    """
    one, two = before.splitlines(), after.splitlines()
    if max(len(one), len(two)) > MOST_LINES:
        return None
    differing = list(difflib.unified_diff(one, two, lineterm=""))
    # Two lines of heading, and the place of the first part.
    return [Line("@", "") if line.startswith("@@") else Line(line[0], line[1:]) for line in differing[3:]]


def _level(found: Any) -> str:
    if not isinstance(found, dict):
        return ""
    return str(found.get("compatibilityLevel") or found.get("compatibility") or "")[:LONGEST_TEXT]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
