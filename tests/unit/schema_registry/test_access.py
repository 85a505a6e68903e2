"""Who may ask a registry: names, passwords, roles, and who guesses."""

from __future__ import annotations

import asyncio
import base64

import pytest

from kavka.errors import ConfigError
from kavka.schema_registry.access import Logins, RegistryUser, Role, parse_users, role_for
from kavka.schema_registry.app import create_app
from kavka.schema_registry.registry import Registry
from kavka.security import passwords
from kavka.security.passwords import password_text, salted_hash
from tests.kit.asgi_client import AsgiClient
from tests.kit.schemas_log import SharedLog

PASSWORD = "a long password"


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST", 2**4)


@pytest.fixture
def users() -> list[RegistryUser]:
    known = salted_hash(PASSWORD)
    return [RegistryUser(role.name.lower(), role, known) for role in Role]


@pytest.fixture
def client(users: list[RegistryUser]) -> AsgiClient:
    return AsgiClient(Logins(users).guarded(create_app(Registry(SharedLog().of_one()))), host="registry.example:8081")


def basic(name: str, password: str = PASSWORD) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        basic("reader", "another password"),
        basic("nobody"),
        {"authorization": "Bearer x"},
        {"authorization": "Basic %%%"},
        {"authorization": "Basic " + base64.b64encode(b"\xff\xfe").decode()},
        {"authorization": "Basic " + base64.b64encode(b"reader").decode()},
    ],
    ids=str,
)
def test_who_is_nobody_is_asked_for_a_login(client: AsgiClient, headers: dict[str, str]) -> None:
    answer = client.send("GET", "/subjects", headers=headers)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Basic")


def test_a_role_may_what_it_says(client: AsgiClient) -> None:
    body = b'{"schema": "\\"int\\""}'
    register = ("POST", "/subjects/s/versions")
    assert client.send(*register, body=body, headers=basic("reader")).status == 403
    assert b'"error_code":40301' in client.send(*register, body=body, headers=basic("reader")).body
    assert client.send(*register, body=body, headers=basic("writer")).status == 200
    assert client.send("POST", "/subjects/s", body=body, headers=basic("reader")).status == 200
    assert client.send("PUT", "/config", body=b'{"compatibility": "NONE"}', headers=basic("writer")).status == 403
    assert client.send("PUT", "/config", body=b'{"compatibility": "NONE"}', headers=basic("admin")).status == 200
    assert client.send("DELETE", "/subjects/s", headers=basic("writer")).status == 200
    assert client.send("DELETE", "/subjects/s?permanent=true", headers=basic("writer")).status == 403
    assert client.send("DELETE", "/subjects/s?permanent=true", headers=basic("admin")).status == 200


@pytest.mark.parametrize(
    ("who", "method", "path", "body"),
    [
        ("writer", "PUT", "/contexts/a%2Fsubjects%2Fb/config/%3A.%3As", b'{"compatibility": "NONE"}'),
        ("writer", "PUT", "/contexts/a%2Fsubjects%2Fb/mode/%3A.%3As", b'{"mode": "READONLY"}'),
        ("reader", "POST", "/contexts/a%2Fcompatibility/subjects/%3A.%3As/versions", b'{"schema": "\\"int\\""}'),
    ],
    ids=str,
)
def test_a_slash_within_a_name_gives_no_rights(
    client: AsgiClient, who: str, method: str, path: str, body: bytes
) -> None:
    assert client.send(method, path, body=body, headers=basic(who)).status == 403
    assert (
        client.send("POST", "/subjects/a%2Fb", body=b'{"schema": "\\"int\\""}', headers=basic("reader")).status == 404
    )


@pytest.mark.parametrize(
    ("method", "path", "query", "role"),
    [
        ("GET", "/config", "", Role.READER),
        ("POST", "/contexts/.a/subjects/s", "", Role.READER),
        ("POST", "/contexts/.a/subjects/s/versions", "", Role.WRITER),
        ("POST", "/compatibility/subjects/s/versions/latest", "", Role.READER),
        ("DELETE", "/subjects/s/versions/1", "permanent=TRUE", Role.ADMIN),
        ("DELETE", "/config/s", "", Role.ADMIN),
        ("PUT", "/contexts/.a/mode/s", "force=true", Role.ADMIN),
        ("PATCH", "/whatever", "", Role.ADMIN),
    ],
)
def test_what_a_request_takes(method: str, path: str, query: str, role: Role) -> None:
    assert role_for(method, path, query) is role


def test_who_guesses_has_to_wait_and_others_do_not(users: list[RegistryUser]) -> None:
    logins = Logins(users[:1])
    app = logins.guarded(create_app(Registry(SharedLog().of_one())))
    attacker, other = AsgiClient(app, address="10.0.0.1"), AsgiClient(app, address="10.0.0.2")
    statuses = [attacker.send("GET", "/subjects", headers=basic("reader", f"guess {i:09}")).status for i in range(60)]
    assert statuses[:20] == [401] * 20
    assert 429 in statuses
    while attacker.send("GET", "/subjects", headers=basic("reader", "one more guess")).status == 401:
        pass  # Just when it had waited.
    assert attacker.send("GET", "/subjects", headers=basic("reader")).status == 429
    assert other.send("GET", "/subjects", headers=basic("reader")).status == 200


def test_guesses_that_come_at_once_count_one_after_the_other(users: list[RegistryUser]) -> None:
    client = AsgiClient(Logins(users).guarded(create_app(Registry(SharedLog().of_one()))))

    async def guess() -> list[int]:
        tries = [client.exchange("GET", "/subjects", headers=basic("reader", f"guess {i:09}")) for i in range(100)]
        return [each.status for each in await asyncio.gather(*tries)]

    statuses = asyncio.run(guess())
    assert 20 <= statuses.count(401) <= 30
    assert statuses.count(429) == 100 - statuses.count(401)


def test_a_browser_that_knows_the_password_does_not_ask_for_another_site(client: AsgiClient) -> None:
    headers = {**basic("admin"), "origin": "http://attacker.example"}
    assert client.send("PUT", "/mode", body=b'{"mode": "READONLY"}', headers=headers).status == 403


def test_a_file_of_users() -> None:
    text = f'[[user]]\nname = "ada"\nrole = "writer"\npassword = "{password_text(PASSWORD)}"\n'
    [found] = parse_users(text, where="users.toml")
    assert (found.name, found.role) == ("ada", Role.WRITER)
    assert PASSWORD not in repr(found)
    for wrong, why in (
        ("", "1 to 1000"),
        ("[[user]]", "not a user name"),
        ("x = 1", "'x' is not a setting"),
        (text + text, "given twice"),
        (text.replace("writer", "king"), "reader, writer or admin"),
        (text.replace("scrypt", "plain"), "kavka console user hash"),
        (text + 'rights = "all"', "'rights' is not a setting"),
        ("[[user]", "not TOML"),
    ):
        with pytest.raises(ConfigError, match=why):
            parse_users(wrong, where="users.toml")
