"""A client of a registry that speaks Confluent's interface: schemas by their ids, and versions of subjects.

Decides what is asked for, of whom, how often, and what is remembered. Must not know bytes of records nor read schemas
itself (formats.py).

    GET /schemas/ids/N                     {"schema": "...", "schemaType": "AVRO", "references": [...]}
    GET /schemas/ids/N?format=serialized   the same, a Protobuf file as its descriptor in base64
    GET /subjects/S/versions/V             what a reference means

I1  A registry that is slow, gone or lying costs a record its decoding, nothing else: `schema` returns why instead.
I2  An answer has at most `MOST_ANSWER_BYTES`, redirects are not followed, and at most `MOST_KEPT` schemas kept.
I3  A failure is remembered for `FORGET_FAILURE_S`: a page of a hundred records asks once. While a registry gives no
    answer, it is asked for nothing for `FORGET_AWAY_S`.
I4  A question ends after `ANSWER_S`, and what a caller asked for after `WHOLE_S` with all references and repetitions,
    whatever the other side sends.
I5  Only a registry says that a schema is unknown: 404 with a code of its own. Whatever else answers is a failure, which
    may pass or not.

    answer                                       another registry is asked   asked again
    none, 408, 429, 5xx, no JSON, a proxy's 404  yes                         yes
    another 4xx, a redirect, a certificate       no                          no

Source: Confluent Schema Registry's API reference.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from kavka.runtime.http.exchanges import HttpAnswer, Question, exchange, told
from kavka.runtime.http.http_services import ServiceAddress, service_address, within
from kavka.schema_registry.formats import Schema, SchemaMismatch, parse_schema

ANSWER_S: Final = 5.0
"""From the look-up of a name to the last byte."""
WHOLE_S: Final = 30.0
TRIES: Final = 4
"""Of who would rather wait than fail."""
PAUSE_S: Final = 0.5
"""Before the second try; then twice as long each time."""
MOST_ANSWER_BYTES = 4 * 1024 * 1024
MOST_KEPT = 1_000
FORGET_FAILURE_S = 30.0
FORGET_AWAY_S: Final = 5.0
MOST_REFERENCES = 50
MOST_MESSAGE: Final = 1_000
"""Characters of what a registry says."""
MOST_NUMBER: Final = (1 << 31) - 1
SERIALIZED = "format=serialized"
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_PASSING: Final = frozenset({408, 429, *range(500, 600)})
_SEVERAL: Final = re.compile(r"\s*,\s*(?=https?://)")


class _Failed(NamedTuple):
    why: str
    at_s: float


class RegistryFailed(Exception):
    """The registry did not give what was asked for; the message says why. may_pass: it may, if it is asked again."""

    def __init__(self, why: str, *, may_pass: bool = False) -> None:
        super().__init__(why)
        self.may_pass = may_pass


class _NoAnswer(RegistryFailed):
    """Nobody answered, or not in time."""


class SchemaUnknown(RegistryFailed):
    """The registry answers, and has no such schema, subject or version."""


class SubjectVersion(NamedTuple):
    """A version of a subject. references: name to text, those that others need first."""

    subject: str
    version: int
    number: int
    kind: str
    text: str
    references: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Place:
    """One of the addresses that a client was given."""

    at: ServiceAddress
    context: ssl.SSLContext | None


class RegistryClient:
    """A registry, asked from a thread. Its address may carry a name and a password: http://name:password@host:8081.
    Several addresses of one registry, with commas between them, are asked in turn until one answers.

    tries: how often it is asked where that may help. Raises ValueError for what is no address.
    """

    def __init__(self, address: str, *, tries: int = 1) -> None:
        places = [service_address(each, "not the address of a registry") for each in _SEVERAL.split(address.strip())]
        self._places = tuple(
            _Place(each, ssl.create_default_context() if each.scheme == "https" else None) for each in places
        )
        self._tries = tries
        self.address = ",".join(each.shown for each in places)
        """Without the password, to be shown."""

    def fetch(self, number: int) -> Schema:
        """The schema with an id, made ready. Raises RegistryFailed, SchemaMismatch."""
        where, until = f"/schemas/ids/{number}", _end()
        try:
            answer = self._ask(where, until)
        except SchemaUnknown as problem:
            raise SchemaUnknown(f"the registry has no schema {number}: {problem}") from problem
        text = answer["schema"]
        kind = str(answer.get("schemaType") or "AVRO").upper()
        serialized, form = "", ""
        if kind == "PROTOBUF":
            form = "&" + SERIALIZED
            # Registries that do not know this form answer with the text again.
            serialized = self._ask(f"{where}?{SERIALIZED}", until)["schema"]
            if serialized == text:
                serialized = ""
        references: dict[str, str] = {}
        if kind == "AVRO" or serialized:
            try:
                self._collect(answer.get("references"), references, form, until)
            except SchemaUnknown as problem:
                raise SchemaUnknown(
                    f"schema {number} refers to what the registry does not have: {problem}"
                ) from problem
        return parse_schema(number, kind, text, references, serialized)

    def version(self, subject: str, version: str) -> SubjectVersion:
        """A version of a subject, a number or latest. Raises RegistryFailed."""
        return self._version(subject, version, _end())

    def register(self, subject: str, text: str) -> SubjectVersion:
        """Registers a schema of Avro unless it is there, and returns its version. Raises RegistryFailed."""
        where, body, until = f"/subjects/{quote(subject, safe='')}", {"schema": text}, _end()
        self._ask(f"{where}/versions", until, body, needs="id")
        answer = self._ask(where, until, body, needs="version")
        return self._version(subject, str(answer["version"]), until)

    def _version(self, subject: str, version: str, until: float) -> SubjectVersion:
        where = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
        answer = self._ask(where, until)
        references: dict[str, str] = {}
        self._collect(answer.get("references"), references, "", until)
        return SubjectVersion(
            subject,
            _required(answer, "version", self.address + where),
            _required(answer, "id", self.address + where),
            str(answer.get("schemaType") or "AVRO").upper(),
            answer["schema"],
            references,
        )

    def _collect(self, found: Any, references: dict[str, str], form: str, until: float) -> None:
        """What the references mean, those that others need first."""
        for each in found if isinstance(found, list) else []:
            if not isinstance(each, dict) or str(each.get("name")) in references:
                continue
            if len(references) >= MOST_REFERENCES:
                raise RegistryFailed(f"{self.address}: a schema has more than {MOST_REFERENCES} references")
            subject, version = quote(str(each.get("subject")), safe=""), quote(str(each.get("version")), safe="")
            # A version that is softly deleted is still what those mean that refer to it.
            where = f"/subjects/{subject}/versions/{version}?deleted=true{form}"
            answer = self._ask(where, until)
            name = str(each.get("name"))
            references[name] = ""
            self._collect(answer.get("references"), references, form, until)
            del references[name]
            references[name] = answer["schema"]

    def _ask(self, path: str, until: float, body: Any = None, *, needs: str = "schema") -> dict[str, Any]:
        """GET, or POST with a body: the object that is answered. needs: what it has at least."""
        pause_s = PAUSE_S
        for attempt in range(1, self._tries + 1):
            try:
                return self._first_answer(path, until, body, needs)
            except RegistryFailed as problem:
                if not problem.may_pass or attempt == self._tries or time.monotonic() + pause_s >= until:
                    raise
            time.sleep(pause_s)
            pause_s *= 2
        raise AssertionError("the last try returns or raises")

    def _first_answer(self, path: str, until: float, body: Any, needs: str) -> dict[str, Any]:
        """Of the address that answered last, or of the next one that does."""
        problems: list[RegistryFailed] = []
        for place in self._places:
            try:
                answer = _answered(place, path, until, body)
                _required(answer, needs, place.at.shown + path)
            except RegistryFailed as problem:
                if not problem.may_pass:
                    raise
                problems.append(problem)
            else:
                if place is not self._places[0]:
                    self._places = (place, *(each for each in self._places if each is not place))
                return answer
        if len(problems) == 1:
            raise problems[0]
        kind = _NoAnswer if all(isinstance(each, _NoAnswer) for each in problems) else RegistryFailed
        raise kind("; ".join(map(str, problems)), may_pass=True)


def _answered(place: _Place, path: str, until: float, body: Any) -> dict[str, Any]:
    """The object that one address answers. Raises RegistryFailed."""
    where = place.at.shown + path
    answer = _asked(place, path, until, body)
    if len(answer.body) > MOST_ANSWER_BYTES:
        raise RegistryFailed(f"{where} answered with more than {MOST_ANSWER_BYTES:,} bytes")
    found, problem = _json(answer)
    if not 200 <= answer.status < 300:
        raise _refused(place, where, answer, found if isinstance(found, dict) else {})
    if problem:
        raise _no_registry(f"{where} did not answer in JSON{problem}")
    if not isinstance(found, dict):
        raise _no_registry(f"{where} answered with something else than an object")
    return found


def _asked(place: _Place, path: str, until: float, body: Any) -> HttpAnswer:
    """Raises RegistryFailed where there is no answer."""
    seconds = min(ANSWER_S, until - time.monotonic())
    late = _NoAnswer(
        f"the schema registry at {place.at.shown} took longer than {WHOLE_S:g} s altogether", may_pass=True
    )
    if seconds <= 0:
        raise late
    headers = {"Accept": f"{CONTENT_TYPE}, application/json"}
    if place.at.authorization is not None:
        headers["Authorization"] = place.at.authorization
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = CONTENT_TYPE
    asked = Question("GET" if data is None else "POST", path, headers, data)

    def ask() -> HttpAnswer:
        return exchange(place.at, asked, seconds=seconds, most_bytes=MOST_ANSWER_BYTES, context=place.context)

    try:
        return within(seconds, ask, "kavka-registry")
    except ssl.SSLCertVerificationError as problem:
        # The sentence that helps an operator: Python reads this variable, here and in Spark's executors.
        why = f"{_shown(told(problem))}. SSL_CERT_FILE=FILE names authorities to believe"
        raise RegistryFailed(f"the schema registry at {place.at.shown} is not asked: {why}") from problem
    except (OSError, HTTPException, ValueError) as problem:
        if isinstance(problem, TimeoutError) and seconds < ANSWER_S:
            raise late from problem
        why = _shown(told(problem))
        raise _NoAnswer(f"the schema registry at {place.at.shown} does not answer: {why}", may_pass=True) from problem


def _json(answer: HttpAnswer) -> tuple[Any, str]:
    """What an answer says, or what stands against it."""
    if answer.encoding not in ("", "identity"):
        return None, f", but with Content-Encoding {_shown(answer.encoding)[:50]}, which was not asked for"
    try:
        return json.loads(answer.body), ""
    except (ValueError, RecursionError):
        return None, ": is that a registry?"


def _refused(place: _Place, where: str, answer: HttpAnswer, found: Mapping[str, Any]) -> RegistryFailed:
    """What an answer means that is no success."""
    status, code, message = answer.status, found.get("error_code"), found.get("message")
    said = f"{where} answered {status}" + (f": {_shown(str(message))}" if message is not None else "")
    if status == 404:
        # A proxy before a registry that is away answers 404 as well, without a registry's code.
        if type(code) is int and code // 100 == 404:
            return SchemaUnknown(said)
        return _no_registry(said)
    match status:
        case 401 if place.at.authorization is None:
            return RegistryFailed(f"{said}. Its address takes a login: http://NAME:PASSWORD@HOST:PORT")
        case 401:
            return RegistryFailed(f"{said}. It does not take the name and the password of its address")
        case 403:
            return RegistryFailed(f"{said}. The user of its address may not do this")
        case _ if 300 <= status < 400:
            leads = f" to {_leads(answer.location)}" if answer.location else ""
            return RegistryFailed(
                f"{said} and leads{leads}: redirects are not followed. Name the registry's own address"
            )
        case _:
            return RegistryFailed(said, may_pass=status in _PASSING)


def _leads(location: str) -> str:
    """Where a redirect leads, without a login and what may be secret behind the path."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return "no address"
    return _shown(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.path)[
        :200
    ]


def _required(answer: Mapping[str, Any], name: str, where: str) -> Any:
    """A part of an answer. Who answers without it is no registry, whatever the status says. Raises RegistryFailed."""
    found = answer.get(name)
    is_there = isinstance(found, str) if name == "schema" else type(found) is int and 0 <= found <= MOST_NUMBER
    if not is_there:
        raise _no_registry(f"{where} answered without {'an' if name == 'id' else 'a'} {name}")
    return found


def _no_registry(why: str) -> RegistryFailed:
    """Somebody else answers in its place, for now."""
    return RegistryFailed(why, may_pass=True)


def _shown(text: str) -> str:
    """In one line that every terminal and every encoding takes."""
    return "".join(each if each.isprintable() else " " for each in text[:MOST_MESSAGE])


def _end() -> float:
    return time.monotonic() + WHOLE_S


class SchemaRegistry(RegistryClient):
    """One registry, asked from an event loop; schemas are kept."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._known: OrderedDict[int, Schema | _Failed] = OrderedDict()
        self._asking: dict[int, asyncio.Task[Schema | _Failed]] = {}
        self._away: _Failed | None = None

    async def schema(self, number: int) -> Schema | str:
        """The schema, or in words why there is none."""
        known = self._known.get(number)
        if isinstance(known, Schema):
            self._known.move_to_end(number)
            return known
        if known is not None and time.monotonic() - known.at_s < FORGET_FAILURE_S:
            return known.why
        if self._away is not None and time.monotonic() - self._away.at_s < FORGET_AWAY_S:
            return self._away.why
        task = self._asking.get(number)
        if task is None:
            task = self._asking[number] = asyncio.create_task(self._found(number), name=f"schema {number}")
            task.add_done_callback(lambda _: self._asking.pop(number, None))
        found = await asyncio.shield(task)
        return found.why if isinstance(found, _Failed) else found

    async def _found(self, number: int) -> Schema | _Failed:
        found: Schema | _Failed
        try:
            found = await asyncio.to_thread(self.fetch, number)
        except (RegistryFailed, SchemaMismatch) as problem:
            found = _Failed(str(problem), time.monotonic())
            self._away = found if isinstance(problem, _NoAnswer) else None
        self._known[number] = found
        self._known.move_to_end(number)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return found
