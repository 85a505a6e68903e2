"""A client of a registry that speaks Confluent's interface: schemas by their ids, and versions of subjects.

Decides what is asked for and what is remembered. Must not know bytes of records nor read schemas itself (formats.py).

    GET /schemas/ids/N                     {"schema": "...", "schemaType": "AVRO", "references": [...]}
    GET /schemas/ids/N?format=serialized   the same, a Protobuf file as its descriptor in base64
    GET /subjects/S/versions/V             what a reference means

I1  A registry that is slow, gone or lying costs a record its decoding, nothing else: `schema` returns why instead.
I2  An answer has at most `MOST_ANSWER_BYTES`, redirects are not followed, and at most `MOST_KEPT` schemas kept.
I3  A failure is remembered for `FORGET_FAILURE_S`: a page of a hundred records asks once.

Source: Confluent Schema Registry's API reference.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Mapping
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NamedTuple
from urllib.parse import quote

from kavka.runtime.http.http_services import service_address
from kavka.schema_registry.formats import Schema, SchemaMismatch, parse_schema

TIMEOUT_S = 5.0
MOST_ANSWER_BYTES = 4 * 1024 * 1024
MOST_KEPT = 1_000
FORGET_FAILURE_S = 30.0
MOST_REFERENCES = 50
NOT_FOUND = 404
MOST_MESSAGE_BYTES = 10_000
SERIALIZED = "format=serialized"
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"


class _Failed(NamedTuple):
    why: str
    at_s: float


class RegistryFailed(Exception):
    """The registry did not give what was asked for; the message says why."""


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


class RegistryClient:
    """One registry, asked from a thread. Its address may carry a name and a password: http://name:password@host:8081.

    Raises ValueError for what is no address.
    """

    def __init__(self, address: str) -> None:
        at = service_address(address, "not the address of a registry")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if at.authorization is not None:
            self._headers["Authorization"] = at.authorization
        self.address = at.shown
        """Without the password, to be shown."""
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))

    def fetch(self, number: int) -> Schema:
        """The schema with an id, made ready. Raises RegistryFailed, SchemaMismatch."""
        where = f"/schemas/ids/{number}"
        answer = self._ask(where)
        text = self._text(answer, where)
        kind = str(answer.get("schemaType") or "AVRO").upper()
        serialized, form = "", ""
        if kind == "PROTOBUF":
            form = "&" + SERIALIZED
            # Registries that do not know this form answer with the text again.
            serialized = str(self._ask(f"{where}?{SERIALIZED}").get("schema", ""))
            if serialized == text:
                serialized = ""
        references: dict[str, str] = {}
        if kind == "AVRO" or serialized:
            self._collect(answer.get("references"), references, form)
        return parse_schema(number, kind, text, references, serialized)

    def version(self, subject: str, version: str) -> SubjectVersion:
        """A version of a subject, a number or latest. Raises RegistryFailed."""
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}")
        references: dict[str, str] = {}
        self._collect(answer.get("references"), references, "")
        try:
            return SubjectVersion(
                subject,
                int(answer["version"]),
                int(answer["id"]),
                str(answer.get("schemaType") or "AVRO").upper(),
                str(answer["schema"]),
                references,
            )
        except (KeyError, ValueError, TypeError) as problem:
            raise RegistryFailed(f"{self.address} answered without version, id and schema") from problem

    def register(self, subject: str, text: str) -> SubjectVersion:
        """Registers a schema of Avro unless it is there, and returns its version. Raises RegistryFailed."""
        where, body = f"/subjects/{quote(subject, safe='')}", {"schema": text}
        self._ask(f"{where}/versions", body)
        answer = self._ask(where, body)
        return self.version(subject, str(answer.get("version")))

    def _collect(self, found: Any, references: dict[str, str], form: str) -> None:
        """What the references mean, those that others need first."""
        for each in found if isinstance(found, list) else []:
            if not isinstance(each, dict) or str(each.get("name")) in references:
                continue
            if len(references) >= MOST_REFERENCES:
                raise RegistryFailed(f"more than {MOST_REFERENCES} references")
            subject, version = quote(str(each.get("subject")), safe=""), quote(str(each.get("version")), safe="")
            # A version that is softly deleted is still what those mean that refer to it.
            where = f"/subjects/{subject}/versions/{version}?deleted=true{form}"
            answer = self._ask(where)
            name = str(each.get("name"))
            references[name] = ""
            self._collect(answer.get("references"), references, form)
            del references[name]
            references[name] = self._text(answer, where)

    def _text(self, answer: Mapping[str, Any], path: str) -> str:
        """The schema in an answer. Who answers without one is no registry, whatever the status says."""
        text = answer.get("schema")
        if not isinstance(text, str):
            raise RegistryFailed(f"{self.address}{path} answered without a schema")
        return text

    def _ask(self, path: str, body: Any = None) -> dict[str, Any]:
        """GET, or POST with a body: the object that is answered."""
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers if data is None else {**self._headers, "Content-Type": CONTENT_TYPE}
        request = urllib.request.Request(self.address + path, data, headers)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                answered = response.read(MOST_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as problem:
            why, error_code = _refusal(problem)
            # A proxy before a registry that is away answers 404 as well, without a registry's code.
            kind = SchemaUnknown if problem.code == NOT_FOUND == error_code // 100 else RegistryFailed
            raise kind(f"{self.address}{path} answered {problem.code}{why}") from problem
        except (OSError, HTTPException) as problem:
            reason = getattr(problem, "reason", problem)
            raise RegistryFailed(f"the schema registry at {self.address} does not answer: {reason}") from problem
        if len(answered) > MOST_ANSWER_BYTES:
            raise RegistryFailed(f"{self.address}{path} answered with more than {MOST_ANSWER_BYTES:,} bytes")
        try:
            answer = json.loads(answered)
        except (ValueError, RecursionError) as problem:
            raise RegistryFailed(f"{self.address}{path} did not answer in JSON") from problem
        if not isinstance(answer, dict):
            raise RegistryFailed(f"{self.address}{path} answered with something else than an object")
        return answer


class SchemaRegistry(RegistryClient):
    """One registry, asked from an event loop; schemas are kept."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._known: OrderedDict[int, Schema | _Failed] = OrderedDict()
        self._asking: dict[int, asyncio.Task[Schema | _Failed]] = {}

    async def schema(self, number: int) -> Schema | str:
        """The schema, or in words why there is none."""
        known = self._known.get(number)
        if isinstance(known, Schema):
            self._known.move_to_end(number)
            return known
        if known is not None and time.monotonic() - known.at_s < FORGET_FAILURE_S:
            return known.why
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
        self._known[number] = found
        self._known.move_to_end(number)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return found


def _refusal(problem: urllib.error.HTTPError) -> tuple[str, int]:
    """What a refusal says, and its code of a registry's; 0 if it has none."""
    try:
        with problem:
            found = json.loads(problem.read(MOST_MESSAGE_BYTES))
        code = found.get("error_code")
        return f": {found['message']}", code if isinstance(code, int) else 0
    except (OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "", 0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None
