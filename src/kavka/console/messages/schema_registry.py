"""SchemaRegistry: schemas by their ids, from a registry that speaks Confluent's interface.

Decides what is asked for and what is remembered. Must not know bytes of records (decoding.py) nor read schemas itself
(schema_formats.py).

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
import base64
import json
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from kavka.console.messages.schema_formats import Schema, SchemaMismatch, parse_schema

TIMEOUT_S = 5.0
MOST_ANSWER_BYTES = 4 * 1024 * 1024
MOST_KEPT = 1_000
FORGET_FAILURE_S = 30.0
MOST_REFERENCES = 50


class _Failed(NamedTuple):
    why: str
    at_s: float


class RegistryFailed(Exception):
    """The registry did not give what was asked for; the message says why."""


class SchemaRegistry:
    """One registry. Its address may carry a name and a password: http://name:password@host:8081."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address if "://" in address else f"http://{address}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{address!r} is no address of a registry: http://HOST:PORT is expected")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        host = parts.netloc.rpartition("@")[2]
        self.address = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        """Without the password, to be shown."""
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
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
            task = self._asking[number] = asyncio.create_task(self._ask(number), name=f"schema {number}")
            task.add_done_callback(lambda _: self._asking.pop(number, None))
        found = await asyncio.shield(task)
        return found.why if isinstance(found, _Failed) else found

    async def _ask(self, number: int) -> Schema | _Failed:
        found: Schema | _Failed
        try:
            found = await asyncio.to_thread(self._fetch, number)
        except (RegistryFailed, SchemaMismatch) as problem:
            found = _Failed(str(problem), time.monotonic())
        self._known[number] = found
        self._known.move_to_end(number)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return found

    def _fetch(self, number: int) -> Schema:
        answer = self._get(f"/schemas/ids/{number}")
        kind = str(answer.get("schemaType") or "AVRO").upper()
        serialized = ""
        if kind == "PROTOBUF":
            # Registries that do not know this form answer with the text again.
            serialized = str(self._get(f"/schemas/ids/{number}?format=serialized").get("schema", ""))
            if serialized == answer.get("schema"):
                serialized = ""
        references: dict[str, str] = {}
        if kind == "AVRO":
            self._collect(answer.get("references"), references)
        return parse_schema(number, kind, str(answer.get("schema", "")), references, serialized)

    def _collect(self, found: Any, references: dict[str, str]) -> None:
        """What the references mean, those that others need first."""
        for each in found if isinstance(found, list) else []:
            if not isinstance(each, dict) or str(each.get("name")) in references:
                continue
            if len(references) >= MOST_REFERENCES:
                raise RegistryFailed(f"more than {MOST_REFERENCES} references")
            subject, version = quote(str(each.get("subject")), safe=""), quote(str(each.get("version")), safe="")
            answer = self._get(f"/subjects/{subject}/versions/{version}")
            name = str(each.get("name"))
            references[name] = ""
            self._collect(answer.get("references"), references)
            del references[name]
            references[name] = str(answer.get("schema", ""))

    def _get(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(self.address + path, headers=self._headers)
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                body = response.read(MOST_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as problem:
            problem.close()
            raise RegistryFailed(f"{self.address}{path} answered {problem.code}") from problem
        except (OSError, HTTPException) as problem:
            reason = getattr(problem, "reason", problem)
            raise RegistryFailed(f"the schema registry at {self.address} does not answer: {reason}") from problem
        if len(body) > MOST_ANSWER_BYTES:
            raise RegistryFailed(f"{self.address}{path} answered with more than {MOST_ANSWER_BYTES:,} bytes")
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError) as problem:
            raise RegistryFailed(f"{self.address}{path} answered with no JSON") from problem
        if not isinstance(answer, dict):
            raise RegistryFailed(f"{self.address}{path} answered with no object")
        return answer


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None
