"""The REST interface: paths, answers and error codes as Confluent has them, and requests that are made to do harm."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from kavka.schema_registry import app
from kavka.schema_registry.access import LocalOnly
from kavka.schema_registry.app import CONTENT_TYPE, MOST_BODY_BYTES, create_app
from kavka.schema_registry.registry import Registry
from tests.kit.asgi_client import AsgiClient
from tests.kit.schemas_log import SharedLog

V1 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
V2 = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":0}]}'
BAD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}'


class Rest:
    """One registry, asked by its paths."""

    def __init__(self) -> None:
        self.client = AsgiClient(LocalOnly().guarded(create_app(Registry(SharedLog().of_one()))))

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = b"" if body is None else json.dumps(body).encode()
        answer = self.client.send(method, path, body=data, headers={"content-type": CONTENT_TYPE, **headers})
        return answer.status, json.loads(answer.body)

    def register(self, subject: str, schema: str, **more: Any) -> tuple[int, Any]:
        return self("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema, **more})


@pytest.fixture
def rest() -> Rest:
    return Rest()


def test_a_schema_from_its_registration_to_its_end(rest: Rest) -> None:
    assert rest("GET", "/subjects") == (200, [])
    assert rest.register("s", V1) == (200, {"id": 1, "version": 1})
    assert rest.register("s", V2)[1]["id"] == 2
    assert rest("GET", "/subjects/s/versions") == (200, [1, 2])
    assert rest("GET", "/subjects/s/versions/1") == (200, {"subject": "s", "version": 1, "id": 1, "schema": V1})
    assert rest("GET", "/subjects/s/versions/latest")[1]["version"] == 2
    assert rest("GET", "/subjects/s/versions/-1")[1]["version"] == 2
    assert rest("GET", "/subjects/s/versions/1/schema") == (200, json.loads(V1))
    assert rest("GET", "/schemas/ids/1") == (200, {"schema": V1})
    assert rest("GET", "/schemas/ids/1?fetchMaxId=true")[1]["maxId"] == 2
    assert rest("GET", "/schemas/ids/2/schema") == (200, json.loads(V2))
    assert rest("GET", "/schemas/ids/2/subjects") == (200, ["s"])
    assert rest("GET", "/schemas/ids/2/versions") == (200, [{"subject": "s", "version": 2}])
    assert rest("POST", "/subjects/s", {"schema": V2})[1]["version"] == 2
    assert [each["id"] for each in rest("GET", "/schemas")[1]] == [1, 2]
    assert [each["id"] for each in rest("GET", "/schemas?latestOnly=true&subjectPrefix=s")[1]] == [2]
    assert rest("GET", "/schemas?offset=1&limit=1")[1][0]["id"] == 2
    assert rest("GET", "/schemas/types")[0] == 200
    assert rest("DELETE", "/subjects/s/versions/1") == (200, 1)
    assert rest("GET", "/subjects/s/versions?deleted=true") == (200, [1, 2])
    assert rest("GET", "/subjects/s/versions?deletedOnly=true") == (200, [1])
    assert rest("GET", "/subjects/s/versions/1?deleted=true")[1]["deleted"] is True
    assert rest("DELETE", "/subjects/s") == (200, [2])
    assert rest("GET", "/subjects") == (200, [])
    assert rest("GET", "/subjects?deleted=true") == (200, ["s"])
    assert rest("DELETE", "/subjects/s?permanent=true") == (200, [1, 2])
    assert rest("GET", "/subjects?deleted=true") == (200, [])


def test_settings_and_modes(rest: Rest) -> None:
    rest.register("s", V1)
    assert rest("GET", "/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert rest("GET", "/config/s")[1]["error_code"] == 40408
    assert rest("GET", "/config/s?defaultToGlobal=true") == (200, {"compatibilityLevel": "BACKWARD"})
    assert rest("PUT", "/config", {"compatibility": "full"})[1]["compatibility"] == "FULL"
    assert rest("PUT", "/config/s", {"compatibility": "NONE"})[0] == 200
    assert rest("GET", "/config/s") == (200, {"compatibilityLevel": "NONE"})
    assert rest("DELETE", "/config/s") == (200, {"compatibilityLevel": "NONE"})
    assert rest("DELETE", "/config/s")[1]["error_code"] == 40401
    assert rest("PUT", "/config", {"compatibility": "SOME"})[1]["error_code"] == 42203
    assert rest("PUT", "/config", {"alias": "x"})[0] == 422
    assert rest("GET", "/mode") == (200, {"mode": "READWRITE"})
    assert rest("GET", "/mode/s")[1]["error_code"] == 40409
    assert rest("PUT", "/mode/s", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert rest.register("s", V2)[1]["error_code"] == 42205
    assert rest("DELETE", "/mode/s") == (200, {"mode": "READONLY"})
    assert rest("PUT", "/mode", {"mode": "FAST"})[1]["error_code"] == 42204
    assert rest("PUT", "/mode", {"mode": "IMPORT"})[1]["error_code"] == 42205


def test_compatibility_says_why_not(rest: Rest) -> None:
    assert rest("POST", "/compatibility/subjects/s/versions/latest", {"schema": V1}) == (200, {"is_compatible": True})
    rest.register("s", V1)
    status, found = rest("POST", "/compatibility/subjects/s/versions/latest?verbose=true", {"schema": BAD})
    assert (status, found["is_compatible"]) == (200, False)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in found["messages"][0]
    assert rest("POST", "/compatibility/subjects/s/versions", {"schema": V2}) == (200, {"is_compatible": True})
    assert rest("POST", "/compatibility/subjects/s/versions/9", {"schema": V2})[1]["error_code"] == 40402
    status, found = rest.register("s", BAD)
    assert (status, found["error_code"]) == (409, 409)


def test_contexts_have_ids_of_their_own(rest: Rest) -> None:
    rest.register("s", V1)
    assert rest("POST", "/contexts/.a/subjects/s/versions", {"schema": V2})[1]["id"] == 1
    assert rest.register(":.a:t", V1)[1]["id"] == 2
    assert rest("GET", "/contexts") == (200, [".", ".a"])
    assert rest("GET", "/contexts/.a/subjects") == (200, [":.a:s", ":.a:t"])
    assert rest("GET", "/contexts/.a/schemas/ids/1") == (200, {"schema": V2})
    assert rest("GET", "/schemas/ids/1?subject=:.a:s") == (200, {"schema": V2})
    assert rest("GET", "/schemas/ids/1") == (200, {"schema": V1})


def test_a_subject_with_slashes_and_spaces(rest: Rest) -> None:
    name = "google/type/date.proto und mehr?"
    assert rest.register(name, V1)[0] == 200
    assert rest("GET", "/subjects") == (200, [name])
    assert rest("GET", f"/subjects/{quote(name, safe='')}/versions/1")[1]["subject"] == name


def test_metadata_and_rules_are_kept_and_make_another_schema(rest: Rest) -> None:
    metadata = {"properties": {"owner": "ada"}}
    assert rest.register("s", V1)[1]["id"] == 1
    assert rest.register("s", V1, metadata=metadata)[1]["id"] == 2
    assert rest("GET", "/schemas/ids/2")[1]["metadata"] == metadata


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/subjects/none/versions", 404, 40401),
        ("GET", "/subjects/none/versions/1", 404, 40401),
        ("GET", "/subjects/s/versions/9", 404, 40402),
        ("GET", "/subjects/s/versions/x", 422, 42202),
        ("GET", "/subjects/s/versions/0", 422, 42202),
        ("GET", "/schemas/ids/9", 404, 40403),
        ("GET", "/schemas/ids/x", 404, 40403),
        ("GET", "/schemas/ids/99999999999999999999999999", 404, 40403),
        ("GET", "/schemas/ids/" + "0" * 20 + "9" * 5_000, 404, 40403),
        ("DELETE", "/subjects/none", 404, 40401),
        ("DELETE", "/subjects/s/versions/9", 404, 40402),
        ("DELETE", "/subjects/s?permanent=true", 404, 40405),
        ("GET", "/schemas?limit=x", 422, 422),
        ("GET", "/nothing", 404, 404),
        ("PATCH", "/subjects", 405, 405),
    ],
)
def test_what_is_not_there_has_its_code(rest: Rest, method: str, path: str, status: int, code: int) -> None:
    rest.register("s", V1)
    found = rest(method, path)
    assert (found[0], found[1]["error_code"]) == (status, code)
    assert found[1]["message"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, 400),
        (b"{", 400, 400),
        (b"[]", 400, 400),
        (b"[" * 100_000, 400, 400),
        (b"\xff\xfe", 400, 400),
        (b"{}", 422, 42201),
        (b'{"schema": 5}', 422, 42201),
        (b'{"schema": ""}', 422, 42201),
        (b'{"schema": "{"}', 422, 42201),
        (b'{"schema": "\\ud800"}', 400, 400),
        (b'{"schema": "{\\"type\\":\\"int\\",\\"x\\":\\"\\\\ud800\\"}"}', 422, 42201),
        (b'{"schema": "<a/>", "schemaType": "XML"}', 422, 42201),
        (b'{"schema": "\\"int\\"", "schemaType": 5}', 422, 422),
        (b'{"schema": "\\"int\\"", "references": 5}', 422, 422),
        (b'{"schema": "\\"int\\"", "references": [{}]}', 422, 422),
        (b'{"schema": "\\"int\\"", "references": [{"name": "a", "subject": "b", "version": 0}]}', 422, 42202),
        (b'{"schema": "\\"int\\"", "references": [{"name": "a", "subject": "b", "version": 7}]}', 422, 42201),
        (b'{"schema": "\\"int\\"", "id": "x"}', 422, 422),
        (b'{"schema": "\\"int\\"", "metadata": 5}', 422, 422),
        (b'{"schema": "\\"int\\"", "ruleSet": [1]}', 422, 422),
        (b'{"schema": "' + b"x" * 1_100_000 + b'"}', 422, 42209),
        (b'{"schema": "' + b"x" * MOST_BODY_BYTES + b'"}', 413, 413),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_body_that_cannot_be_used_has_its_code(rest: Rest, body: bytes, status: int, code: int) -> None:
    answer = rest.client.send("POST", "/subjects/s/versions", body=body)
    assert (answer.status, json.loads(answer.body)["error_code"]) == (status, code)
    assert rest("GET", "/subjects") == (200, [])


@given(
    st.dictionaries(
        st.sampled_from(["schema", "schemaType", "references", "id", "version", "metadata", "ruleSet"]),
        st.none() | st.integers() | st.text(max_size=5) | st.lists(st.none(), max_size=2),
    )
)
def test_whatever_a_body_holds_it_is_answered(body: dict[str, Any]) -> None:
    rest = Rest()
    for path in ("/subjects/s/versions", "/subjects/s", "/compatibility/subjects/s/versions/latest"):
        assert rest("POST", path, body)[0] in (200, 404, 409, 422)


async def half_sent(client: AsgiClient, size: int) -> int:
    """The status of a request whose end does not come."""
    statuses: list[int] = []
    waiting = [{"type": "http.request", "body": b"x" * size, "more_body": True}]

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await asyncio.Event().wait()
        raise AssertionError("nothing more comes")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {"type": "http", "method": "POST", "path": "/subjects/s", "query_string": b""}
    await client.app({**scope, "headers": [(b"host", b"127.0.0.1")]}, receive, send)
    return statuses[0]


def test_half_sent_bodies_are_held_for_a_while_and_not_too_many(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "BODY_S", 0.1)
    monkeypatch.setattr(app, "MOST_HELD_BYTES", 2_500)

    async def many() -> list[int]:
        return await asyncio.gather(*(half_sent(rest.client, 1_000) for _ in range(3)))

    assert sorted(asyncio.run(many())) == [408, 408, 503]
    assert sorted(asyncio.run(many())) == [408, 408, 503], "nothing of the former ones is held"


def test_an_answer_of_many_schemas_is_not_made_in_one_piece(rest: Rest) -> None:
    """A thousand schemas of a megabyte each were made one text of a gigabyte, and bytes of it beside that."""
    doc = "d" * 100_000
    for number in range(30):
        schema = {"type": "record", "name": f"R{number}", "doc": doc, "fields": []}
        assert rest.register(f"s{number:02}", json.dumps(schema))[0] == 200
    pieces: list[bytes] = []

    async def ask() -> None:
        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError("nothing more comes")

        async def send(message: Message) -> None:
            pieces.append(message.get("body", b""))

        scope = {"type": "http", "asgi": {"spec_version": "2.4"}, "method": "GET", "path": "/schemas"}
        await rest.client.app({**scope, "query_string": b"", "headers": [(b"host", b"127.0.0.1")]}, receive, send)

    asyncio.run(ask())
    assert max(map(len, pieces)) < app.PIECE_BYTES + 2 * len(doc)
    assert [each["subject"] for each in json.loads(b"".join(pieces))] == [f"s{number:02}" for number in range(30)]
    assert rest("GET", "/schemas?subjectPrefix=nothing") == (200, [])


def test_pages_of_other_sites_are_refused(rest: Rest) -> None:
    assert rest("GET", "/subjects", host="attacker.example")[0] == 403
    assert rest("PUT", "/mode", {"mode": "READONLY"}, origin="http://attacker.example")[0] == 403
    assert rest("GET", "/mode", host="localhost:8081") == (200, {"mode": "READWRITE"})
    assert rest("GET", "/mode", origin="http://127.0.0.1:8090") == (200, {"mode": "READWRITE"})
