"""The web application: Confluent's REST interface, each path to what the registry does.

Decides paths, parameters, and how answers are written. Must not know what is allowed or compatible (registry.py).

I1  Whatever a request holds, it is answered: with what was asked for, or with error_code and message. A fault of ours
    is a 500 with a log entry.
I2  Of an answer with many schemas no more is made at a time than `PIECE_BYTES` and one schema: a thousand of them may
    have a gigabyte.
I3  Of a body at most `MOST_BODY_BYTES` are held, of all that are under way `MOST_HELD_BYTES`, and none for longer than
    `BODY_S` before it is whole.

    GET    /subjects  /subjects/S/versions  /subjects/S/versions/V[/schema|/referencedby]
    POST   /subjects/S/versions    registers            POST /subjects/S    looks a schema up
    DELETE /subjects/S  /subjects/S/versions/V          ?permanent=true
    GET    /schemas  /schemas/types  /schemas/ids/N[/schema|/subjects|/versions]
    POST   /compatibility/subjects/S/versions[/V]       ?verbose=true
    GET, PUT, DELETE  /config[/S]  /mode[/S]
    GET    /contexts  /v1/metadata/id  /v1/metadata/version
    all of them also below /contexts/C/: subjects without a context of their own are in C then

Not there: exporters, encryption keys, associations, aliases, compatibility groups. Metadata and rules are kept and
passed on, and nobody here runs them. A setting that is not known is refused.

Source: Confluent Schema Registry's API reference.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from kavka import __version__
from kavka.errors import KavkaError
from kavka.logger import Logger
from kavka.schema_registry import refusal
from kavka.schema_registry.access import sent_path
from kavka.schema_registry.records import MOST_ID, Reference, SchemaVersion, further_of
from kavka.schema_registry.refusal import RegistryRefusal
from kavka.schema_registry.registry import Level, Mode, NewSchema, Registry
from kavka.schema_registry.schemas import AVRO, MOST_SCHEMA_BYTES, TYPES
from kavka.schema_registry.state import ALL
from kavka.schema_registry.subject_name import DEFAULT_CONTEXT, context_named, context_of, qualified

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
MOST_BODY_BYTES: Final = 4 * MOST_SCHEMA_BYTES
"""A schema in JSON is longer than it is: quotation marks and line ends count twice."""
MOST_HELD_BYTES: Final = 64_000_000
BODY_S: Final = 60.0
MOST_LISTED: Final = 1_000
"""Schemas in one answer of /schemas, unless `limit` asks for fewer."""
PIECE_BYTES: Final = 65_536
SETTINGS: Final = frozenset({"compatibility", "compatibilityLevel", "normalize"})
logger = Logger(__name__)

Handler = Callable[["Call"], Awaitable[Any]]


class Held:
    """The bodies that are under way (I3)."""

    def __init__(self) -> None:
        self.size = 0

    async def whole(self, request: Request) -> bytes:
        """The body of a request. Raises RegistryRefusal."""
        data = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                async for piece in request.stream():
                    self.size += len(piece)
                    data += piece
                    if len(data) > MOST_BODY_BYTES:
                        raise refusal.RegistryRefusal(413, 413, f"The body has more than {MOST_BODY_BYTES:,} bytes")
                    if self.size > MOST_HELD_BYTES:
                        raise refusal.RegistryRefusal(503, 503, "Other requests are being received: try again")
        except TimeoutError:
            raise refusal.RegistryRefusal(408, 408, f"The body was not whole after {BODY_S:g} s") from None
        finally:
            self.size -= len(data)
        return bytes(data)


class Call:
    """One request: what its address and its body name."""

    def __init__(self, request: Request, held: Held) -> None:
        self.request = request
        self._held = held
        self._named = {name: unquote(str(value)) for name, value in request.path_params.items()}
        context = self._named.get("context")
        self.context = DEFAULT_CONTEXT if context is None else context_named(context)

    def subject(self) -> str:
        """The subject in the address; empty where it names none."""
        name = self._named.get("subject")
        if name is None:
            return ALL if self.context == DEFAULT_CONTEXT else f":{self.context}:"
        return qualified(self.context, name)

    def named(self, what: str) -> str | None:
        """Another part of the address."""
        return self._named.get(what)

    def flag(self, name: str) -> bool:
        return self.request.query_params.get(name, "").lower() == "true"

    def text(self, name: str) -> str:
        return self.request.query_params.get(name, "")

    def number(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        try:
            return int(text[:20])
        except ValueError:
            raise refusal.unprocessable(f"{name} is {text[:50]!r}, expected a number") from None

    async def body(self) -> dict[str, Any]:
        """The object in the body. Raises RegistryRefusal."""
        data = await self._held.whole(self.request)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as problem:
            raise refusal.RegistryRefusal(400, 400, f"The body is not JSON: {problem}") from problem
        if not isinstance(found, dict):
            raise refusal.RegistryRefusal(400, 400, "The body is not a JSON object")
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as problem:
            raise refusal.RegistryRefusal(400, 400, f"The body holds half of a character: {problem}") from problem
        return found

    async def schema(self) -> NewSchema:
        return new_schema(await self.body())


def create_app(registry: Registry, *, lifespan: Lifespan[Starlette] | None = None) -> Starlette:
    """The application of one registry."""
    handlers = _Handlers(registry)
    held = Held()
    routes: list[Route] = []
    for path, methods in handlers.table().items():
        for prefix in ("", "/contexts/{context}"):
            for method, handler in methods.items():
                routes.append(Route(prefix + path, _endpoint(handler, held), methods=[method]))
    # Of two that fit, the one without a parameter is meant.
    routes.sort(key=lambda route: ("{" in route.path, route.path.count("/") * -1))
    return Starlette(
        routes=routes,
        exception_handlers={HTTPException: _on_http},
        middleware=[Middleware(_EncodedPaths)],
        lifespan=lifespan,
    )


class _EncodedPaths:
    """Routes by the path as it was sent: a subject may have slashes, which come as %2F. `Call` decodes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "path": sent_path(scope)}
        await self._app(scope, receive, send)


def _endpoint(handler: Handler, held: Held) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            answer = await handler(Call(request, held))
        except RegistryRefusal as problem:
            return _refused(problem.status, problem.code, problem.message)
        except ClientDisconnect:
            return Response(status_code=400)
        except KavkaError as problem:
            return _refused(500, 50001, f"Error in the backend data store: {problem}")
        except Exception as problem:  # noqa: BLE001 - I1: the boundary of a request
            logger.error("request failed", path=request.url.path, error=repr(problem), next="please report this bug")
            return _refused(500, 50001, "Internal error: the registry's log has the cause")
        if isinstance(answer, Response):
            return answer
        return JSONResponse(answer, media_type=CONTENT_TYPE)

    return endpoint


async def _on_http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    what = "HTTP 404 Not Found" if problem.status_code == 404 else f"HTTP {problem.status_code} {problem.detail}"
    return _refused(problem.status_code, problem.status_code, what, problem.headers)


def _refused(status: int, code: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(
        {"error_code": code, "message": message}, status_code=status, media_type=CONTENT_TYPE, headers=headers
    )


class _Handlers:
    """What each path does."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def table(self) -> dict[str, dict[str, Handler]]:
        """Paths to methods to handlers."""
        config: dict[str, Handler] = {"GET": self.get_config, "PUT": self.put_config, "DELETE": self.delete_config}
        mode: dict[str, Handler] = {"GET": self.get_mode, "PUT": self.put_mode, "DELETE": self.delete_mode}
        one = "/subjects/{subject}/versions/{version}"
        return {
            "/": {"GET": self.root},
            "/subjects": {"GET": self.list_subjects},
            "/subjects/{subject}": {"POST": self.look_up, "DELETE": self.delete_subject},
            "/subjects/{subject}/versions": {"GET": self.list_versions, "POST": self.register},
            one: {"GET": self.get_version, "DELETE": self.delete_version},
            one + "/schema": {"GET": self.get_version_text},
            one + "/referencedby": {"GET": self.referenced_by},
            "/schemas": {"GET": self.list_schemas},
            "/schemas/types": {"GET": self.types},
            "/schemas/ids/{number}": {"GET": self.get_id},
            "/schemas/ids/{number}/schema": {"GET": self.get_id_text},
            "/schemas/ids/{number}/subjects": {"GET": self.subjects_of_id},
            "/schemas/ids/{number}/versions": {"GET": self.versions_of_id},
            "/compatibility/subjects/{subject}/versions": {"POST": self.compatible},
            "/compatibility/subjects/{subject}/versions/{version}": {"POST": self.compatible},
            "/config": config,
            "/config/{subject}": config,
            "/mode": mode,
            "/mode/{subject}": mode,
            "/contexts": {"GET": self.contexts},
            "/v1/metadata/id": {"GET": self.metadata_id},
            "/v1/metadata/version": {"GET": self.metadata_version},
        }

    # --------------------------------------------------------------------------------------------------------- subjects

    async def list_subjects(self, call: Call) -> list[str]:
        prefix = call.text("subjectPrefix")
        wants_deleted, only_deleted = call.flag("deleted"), call.flag("deletedOnly")
        found = []
        for subject in _in_context(self._registry.state.subjects(), call, prefix):
            is_current = bool(self._registry.state.versions(subject))
            if not is_current if only_deleted else is_current or wants_deleted:
                found.append(subject)
        return _page(found, call, len(found))

    async def list_versions(self, call: Call) -> list[int]:
        subject, wants_deleted, only_deleted = call.subject(), call.flag("deleted"), call.flag("deletedOnly")

        def look() -> list[int]:
            found = self._registry.state.versions(subject, deleted=wants_deleted or only_deleted)
            found = [each for each in found if each.deleted or not only_deleted]
            if not found:
                raise refusal.subject_not_found(subject)
            return [each.version for each in found]

        found = await self._registry.fresh(look)
        return _page(found, call, len(found))

    async def get_version(self, call: Call) -> dict[str, Any]:
        found = await self._version(call)
        return {**_shown(found), "schema": await self._registry.formatted(found, call.text("format"))}

    async def get_version_text(self, call: Call) -> Response:
        return PlainTextResponse((await self._version(call)).text, media_type=CONTENT_TYPE)

    async def referenced_by(self, call: Call) -> list[int]:
        found = await self._version(call)
        return sorted({each.number for each in self._registry.state.referrers(found.subject, found.version)})

    async def register(self, call: Call) -> dict[str, Any]:
        found = await self._registry.register(call.subject(), await call.schema(), normalize=call.flag("normalize"))
        # Not the text: clients keep what they sent, such as a descriptor, and would take the text in its place.
        return {"id": found.number, "version": found.version}

    async def look_up(self, call: Call) -> dict[str, Any]:
        found = await self._registry.find(
            call.subject(), await call.schema(), deleted=call.flag("deleted"), normalize=call.flag("normalize")
        )
        return _shown(found)

    async def delete_subject(self, call: Call) -> list[int]:
        return await self._registry.delete_subject(call.subject(), permanent=call.flag("permanent"))

    async def delete_version(self, call: Call) -> int:
        return await self._registry.delete_version(
            call.subject(), call.named("version") or "", permanent=call.flag("permanent")
        )

    async def _version(self, call: Call) -> SchemaVersion:
        subject, wanted, deleted = call.subject(), call.named("version") or "", call.flag("deleted")
        return await self._registry.fresh(lambda: self._registry.version(subject, wanted, deleted=deleted))

    # ---------------------------------------------------------------------------------------------------------- schemas

    async def list_schemas(self, call: Call) -> Response:
        found: list[SchemaVersion] = []
        for subject in _in_context(self._registry.state.subjects(), call, call.text("subjectPrefix")):
            versions = self._registry.state.versions(subject, deleted=call.flag("deleted"))
            found += versions[-1:] if call.flag("latestOnly") else versions
        return StreamingResponse(_pieces(_page(found, call, MOST_LISTED)), media_type=CONTENT_TYPE)

    async def types(self, call: Call) -> list[str]:
        return list(TYPES)

    async def get_id(self, call: Call) -> dict[str, Any]:
        found = (await self._with_id(call))[0]
        answer = _shown(found)
        answer = {name: answer[name] for name in answer if name not in ("subject", "version", "id")}
        answer["schema"] = await self._registry.formatted(found, call.text("format"))
        if call.flag("fetchMaxId"):
            answer["maxId"] = self._registry.state.next_id(context_of(found.subject)) - 1
        return answer

    async def get_id_text(self, call: Call) -> Response:
        return PlainTextResponse((await self._with_id(call))[0].text, media_type=CONTENT_TYPE)

    async def subjects_of_id(self, call: Call) -> list[str]:
        return sorted({each.subject for each in await self._shown_with_id(call)})

    async def versions_of_id(self, call: Call) -> list[dict[str, Any]]:
        return [{"subject": each.subject, "version": each.version} for each in await self._shown_with_id(call)]

    async def _shown_with_id(self, call: Call) -> list[SchemaVersion]:
        return [each for each in await self._with_id(call) if call.flag("deleted") or not each.deleted]

    async def _with_id(self, call: Call) -> list[SchemaVersion]:
        text = call.named("number") or ""
        if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) > MOST_ID:
            raise refusal.schema_not_found(text[:50])
        subject = qualified(call.context, call.text("subject"))
        number = int(text)
        return await self._registry.fresh(lambda: self._registry.with_id(number, subject=subject))

    # ---------------------------------------------------------------------------------------------------- compatibility

    async def compatible(self, call: Call) -> dict[str, Any]:
        wanted = call.named("version")
        found = await self._registry.verdict(call.subject(), await call.schema(), version=wanted)
        answer: dict[str, Any] = {"is_compatible": found.fits}
        if call.flag("verbose"):
            answer["messages"] = found.messages
        return answer

    # --------------------------------------------------------------------------------------------------------- settings

    async def get_config(self, call: Call) -> dict[str, Any]:
        subject = call.subject()

        def look() -> dict[str, Any]:
            found = self._registry.state.configs.get(subject)
            if subject and found is None and not call.flag("defaultToGlobal"):
                raise refusal.level_not_configured(subject)
            level = self._registry.level_of(subject).value
            normalizes = {"normalize": True} if self._registry.normalizes(subject) else {}
            return {"compatibilityLevel": level, **normalizes}

        return await self._registry.fresh(look)

    async def put_config(self, call: Call) -> dict[str, Any]:
        body = await call.body()
        unknown = sorted(name for name, value in body.items() if name not in SETTINGS and value is not None)
        if unknown:
            raise refusal.unprocessable(f"This registry has no setting {', '.join(map(repr, unknown))[:200]}")
        wanted: dict[str, Any] = {}
        level = body.get("compatibility", body.get("compatibilityLevel"))
        if level is not None:
            name = level.upper() if isinstance(level, str) else level
            if name not in Level.__members__:
                raise refusal.invalid_level(level)
            wanted["compatibilityLevel"] = name
        normalize = body.get("normalize")
        if normalize is not None:
            if not isinstance(normalize, bool):
                raise refusal.unprocessable(f"normalize is {normalize!r}, expected true or false")
            wanted["normalize"] = normalize
        if not wanted:
            raise refusal.invalid_level(None)
        await self._registry.set_config(call.subject(), wanted)
        return {"compatibility": wanted["compatibilityLevel"], **wanted} if level is not None else wanted

    async def delete_config(self, call: Call) -> dict[str, Any]:
        found = await self._registry.remove_config(call.subject())
        level = found.get("compatibilityLevel", self._registry.level_of(call.subject()).value)
        return {"compatibilityLevel": level}

    async def get_mode(self, call: Call) -> dict[str, str]:
        subject = call.subject()

        def look() -> dict[str, str]:
            if subject and subject not in self._registry.state.modes and not call.flag("defaultToGlobal"):
                raise refusal.mode_not_configured(subject)
            return {"mode": self._registry.mode_of(subject).value}

        return await self._registry.fresh(look)

    async def put_mode(self, call: Call) -> dict[str, str]:
        wanted = (await call.body()).get("mode")
        name = wanted.upper() if isinstance(wanted, str) else wanted
        if name not in Mode.__members__:
            raise refusal.invalid_mode(wanted)
        await self._registry.set_mode(call.subject(), Mode(name), force=call.flag("force"))
        return {"mode": str(name)}

    async def delete_mode(self, call: Call) -> dict[str, str]:
        return {"mode": await self._registry.remove_mode(call.subject())}

    # ------------------------------------------------------------------------------------------------------- everything

    async def root(self, call: Call) -> dict[str, Any]:
        return {}

    async def contexts(self, call: Call) -> list[str]:
        return self._registry.state.contexts()

    async def metadata_id(self, call: Call) -> dict[str, Any]:
        return {"scope": {"path": [], "clusters": {"schema-registry-cluster": "schema-registry"}}, "id": ""}

    async def metadata_version(self, call: Call) -> dict[str, str]:
        return {"version": f"kavka {__version__}", "commitId": ""}


def new_schema(body: Mapping[str, Any]) -> NewSchema:
    """The schema in a request's body. Raises RegistryRefusal."""
    text, kind = body.get("schema"), body.get("schemaType") or AVRO
    if not isinstance(text, str):
        raise refusal.invalid_schema('the body has no text "schema"')
    if not isinstance(kind, str):
        raise refusal.unprocessable("schemaType is not a string")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_SCHEMA_BYTES:
        raise refusal.schema_too_large(size, MOST_SCHEMA_BYTES)
    for name in ("schemaTagsToAdd", "schemaTagsToRemove"):
        if body.get(name):
            raise refusal.unprocessable(f"This registry has no {name}")
    for name in ("metadata", "ruleSet"):
        if not isinstance(body.get(name), dict | None):
            # Confluent's registry and clients could not read the version, nor what is written with it.
            raise refusal.unprocessable(f"{name} is {str(body[name])[:50]!r}, expected an object")
    return NewSchema(
        kind.upper(),
        text,
        _references(body.get("references")),
        further_of(body),
        _optional_number(body, "id"),
        _optional_number(body, "version"),
    )


def _references(found: Any) -> tuple[Reference, ...]:
    if found is None:
        return ()
    if not isinstance(found, list):
        raise refusal.unprocessable("references is not a list")
    references = []
    for each in found:
        fields = each if isinstance(each, dict) else {}
        name, subject, number = fields.get("name"), fields.get("subject"), fields.get("version")
        if not isinstance(name, str) or not isinstance(subject, str) or type(number) is not int:
            raise refusal.unprocessable(f"a reference has name, subject and version: {str(each)[:200]}")
        if not 1 <= number <= MOST_ID:
            raise refusal.invalid_version(number)
        references.append(Reference(name, subject, number))
    return tuple(references)


def _optional_number(body: Mapping[str, Any], name: str) -> int | None:
    number = body.get(name)
    if number is None or number == -1:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MOST_ID:
        raise refusal.unprocessable(f"{name} is {str(number)[:50]}, expected a number")
    return number


def _shown(found: SchemaVersion) -> dict[str, Any]:
    """A version as answers have it."""
    answer: dict[str, Any] = {"subject": found.subject, "version": found.version, "id": found.number}
    if found.kind != AVRO:
        answer["schemaType"] = found.kind
    if found.references:
        answer["references"] = [each._asdict() for each in found.references]
    for name, text in found.further:
        answer[name] = json.loads(text)
    answer["schema"] = found.text
    if found.deleted:
        answer["deleted"] = True
    return answer


async def _pieces(found: Iterable[SchemaVersion]) -> AsyncIterator[bytes]:
    """The JSON array of versions (I2). Each piece is sent before the next one is made."""
    piece = bytearray(b"[")
    for number, each in enumerate(found):
        if number:
            piece += b","
        piece += json.dumps(_shown(each), ensure_ascii=False, separators=(",", ":")).encode()
        if len(piece) >= PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece + b"]")


def _in_context(subjects: Iterable[str], call: Call, prefix: str) -> list[str]:
    """Those with a prefix; `:*:` stands for all contexts, as does no prefix in the default one."""
    if prefix in ("", ":*:") and call.context == DEFAULT_CONTEXT:
        return list(subjects)
    wanted = prefix.removeprefix(":*:") if prefix.startswith(":*:") else qualified(call.context, prefix)
    return [each for each in subjects if each.startswith(wanted)]


def _page(found: list[Any], call: Call, most: int) -> list[Any]:
    offset, limit = max(call.number("offset", 0), 0), call.number("limit", -1)
    return found[offset : offset + (most if limit < 0 else min(limit, most))]
