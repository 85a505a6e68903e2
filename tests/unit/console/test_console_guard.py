"""The door of the console, as an attacker tries it: no login, another site's form, a forged host, a flood."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message

from kavka.console.access import csrf, guard
from kavka.console.access.audit import AlreadyDone, AuditLog, AuditRecord, Outcome
from kavka.console.access.auth import Users
from kavka.console.access.guard import Guard, GuardMiddleware
from kavka.console.access.route_rights import Need, Who, check
from kavka.console.ledger import open_ledger
from kavka.console.rights import Rights, Role
from kavka.console.settings import UserSettings
from kavka.errors import ConfigError
from kavka.security import passwords
from tests.kit.asgi_client import AsgiClient

PASSWORD = "correct horse battery"
EVERYWHERE = "0.0.0.0"


@pytest.fixture(autouse=True)
def _cheap_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "COST", 2)


class Site:
    """An application behind the guard that tells what reached it."""

    def __init__(self, directory: Path, *, listens_on: str, users: bool = True) -> None:
        ledger = open_ledger(directory / "ledger.sqlite")
        if users:
            for name in ("viewer", "operator", "admin"):
                Users(ledger).add(name, PASSWORD, Role[name.upper()])
        self.now_ms = 4_000_000_000_000
        self.guard = Guard(ledger, listens_on=listens_on, now_ms=lambda: self.now_ms)
        self.reached: list[str] = []
        self.app = Starlette(
            routes=[
                Route("/", self.page),
                Route("/token", self.token),
                Route("/metrics", self.page),
                Route("/stream", self.stream),
                Route("/login", self.login, methods=["GET", "POST"]),
                Route("/change", self.change, methods=["POST"]),
            ],
            middleware=[Middleware(GuardMiddleware, guard=self.guard)],
        )

    async def page(self, request: Request) -> Response:
        self.reached.append(request.url.path)
        return PlainTextResponse(getattr(request.state.user, "name", "nobody"))

    async def token(self, request: Request) -> Response:
        return PlainTextResponse(csrf.token(request))

    async def change(self, request: Request) -> Response:
        check(request, Need(Who.ANYWHERE, Role.OPERATOR))
        form = await request.form()
        self.reached.append(str(form.get("what")))
        return PlainTextResponse("changed")

    async def login(self, request: Request) -> Response:
        response = PlainTextResponse("in")
        if request.method == "POST":
            form = await request.form()
            user = await self.guard.users.check(str(form.get("name")), str(form.get("password")))
            assert user is not None
            self.guard.set_cookie(response.headers, self.guard.sessions.begin(user, self.now_ms))
        return response

    async def stream(self, request: Request) -> Response:
        async def events() -> AsyncIterator[bytes]:
            while True:
                yield b": beat\n\n"
                await asyncio.sleep(0.01)

        return StreamingResponse(events(), media_type="text/event-stream")

    def browser(self, name: str | None = None) -> AsgiClient:
        client = AsgiClient(self.app)
        if name is not None:
            client.cookies[self.guard.sessions.cookie_name] = self.guard.sessions.cookie_of(
                self.guard.sessions.begin(self.guard.users.find(name)[0], self.now_ms).number
            )
        return client


async def half_sent(site: Site, body: bytes) -> int:
    """The status of a login whose end does not come."""
    waiting = [{"type": "http.request", "body": body, "more_body": True}]
    statuses: list[int] = []

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await asyncio.Event().wait()
        raise AssertionError("nothing more comes")

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": "/login",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8090")],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8090),
    }
    await site.app(scope, receive, send)
    return statuses[0]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, listens_on=EVERYWHERE)


@pytest.fixture
def local(tmp_path: Path) -> Site:
    return Site(tmp_path, listens_on="127.0.0.1", users=False)


class TestLogin:
    def test_beyond_loopback_it_does_not_start_without_a_user(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="kavka console user add"):
            Site(tmp_path, listens_on=EVERYWHERE, users=False)
        for address in ("127.0.0.1", "::1", "[::1]", "localhost"):
            assert not Site(tmp_path, listens_on=address, users=False).guard.login_required

    def test_it_does_not_start_with_a_user_of_the_settings_whom_nobody_can_log_in_as(self, tmp_path: Path) -> None:
        ledger = open_ledger(tmp_path / "ledger.sqlite")
        Users(ledger).add("ada", PASSWORD, Role.ADMIN)
        known = [UserSettings("ada", Rights()), UserSettings("bob", Rights(), passwords.password_text(PASSWORD))]
        Guard(ledger, listens_on=EVERYWHERE, users=known)
        unknown = [*known, UserSettings("eve", Rights())]
        with pytest.raises(ConfigError, match="without a password: eve"):
            Guard(ledger, listens_on=EVERYWHERE, users=unknown)
        Guard(ledger, listens_on="127.0.0.1", users=unknown)

    def test_a_page_sends_who_is_not_logged_in_to_the_login_and_back(self, site: Site) -> None:
        answer = site.browser().get("/token?x=1&y=2")
        assert (answer.status, answer.headers["location"]) == (303, "/login?next=%2Ftoken%3Fx%3D1%26y%3D2")
        assert site.reached == []
        target = site.browser().get("/c/live/groups/a%2Fb%3Fc%20d").headers["location"].partition("next=")[2]
        assert csrf.safe_path(unquote(target)) == "/c/live/groups/a%2Fb%3Fc%20d", "a name stays one"

    def test_events_and_changes_are_refused_without_a_login(self, site: Site) -> None:
        assert site.browser().get("/stream", accept="text/event-stream").status == 401
        assert site.browser().post("/change", {"what": "all"}).status == 401
        assert site.reached == []

    def test_on_loopback_nobody_has_to_log_in(self, local: Site) -> None:
        assert local.browser().get("/").text == "local"

    def test_a_name_that_points_to_the_loopback_is_refused_there(self, local: Site) -> None:
        for host in ("evil.example", "evil.example:8090", "127.0.0.1.evil.example", "", "[", "10.0.0.1"):
            client = local.browser()
            client.host = host
            assert client.get("/").status == 403, host
        for host in ("localhost:8090", "127.0.0.1", "[::1]:8090", "LOCALHOST"):
            client = local.browser()
            client.host = host
            assert client.get("/").status == 200, host

    def test_a_session_is_not_taken_over_from_before_the_login(self, site: Site) -> None:
        browser = site.browser()
        browser.get("/login")
        planted = browser.cookies[site.guard.sessions.cookie_name]
        token = csrf.token_for(site.guard.sessions.key, site.guard.sessions._signer.loads(planted))
        assert browser.post("/login", {"name": "admin", "password": PASSWORD, "csrf": token}).status == 200
        assert browser.cookies[site.guard.sessions.cookie_name] != planted
        assert browser.get("/").text == "admin"
        attacker = site.browser()
        attacker.cookies[site.guard.sessions.cookie_name] = planted
        assert attacker.get("/").status == 303

    def test_two_consoles_of_one_host_have_cookies_of_their_own(self, site: Site, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        other = Site(tmp_path / "other", listens_on=EVERYWHERE)
        browser = site.browser("viewer")
        there = AsgiClient(other.app)
        there.cookies = browser.cookies
        assert there.get("/").status == 303
        assert browser.get("/").text == "viewer"
        assert other.guard.sessions.cookie_name != site.guard.sessions.cookie_name
        again = Site(tmp_path, listens_on=EVERYWHERE)
        assert again.guard.sessions.cookie_name == site.guard.sessions.cookie_name

    def test_wrong_attempts_elsewhere_do_not_lock_out_who_was_here_before(self, site: Site) -> None:
        sessions = site.guard.sessions
        marks = {"ada": sessions.new_device("ada"), "eve": sessions.new_device("eve")}

        def keys(mark: str | None, name: str = "ada") -> tuple[str, ...]:
            cookie = f"{sessions.device_cookie_name}={mark}" if mark else ""
            scope = {"type": "http", "headers": [(b"cookie", cookie.encode())], "client": ("10.0.0.1", 1)}
            scope["state"] = {"guard": site.guard}
            return guard.attempt_keys(Request(scope), name)

        throttle = site.guard.throttle
        for _ in range(20):
            throttle.failed(keys(None), 0.0)
        assert throttle.wait_s(keys(None), 0.0) > 0
        assert throttle.wait_s(keys(marks["ada"]), 0.0) == 0
        for mark in (marks["eve"], marks["ada"] + "x", "made up"):
            assert throttle.wait_s(keys(mark), 0.0) > 0, mark
        for _ in range(20):
            throttle.failed(keys(marks["ada"]), 0.0)
        assert throttle.wait_s(keys(marks["ada"]), 0.0) > 0

    def test_an_expired_session_is_sent_to_the_login(self, site: Site) -> None:
        browser = site.browser("viewer")
        assert browser.get("/").text == "viewer"
        site.now_ms += 13 * 3600 * 1000
        assert browser.get("/").status == 303

    def test_a_page_that_is_left_open_does_not_keep_its_session(self, site: Site) -> None:
        browser = site.browser("viewer")
        for _ in range(20):
            site.now_ms += 2 * 60 * 1000
            status = browser.get("/", **{"x-kavka-live": "1"}).status
            if status != 200:
                break
        assert status == 303
        worked_with = site.browser("viewer")
        for _ in range(20):
            site.now_ms += 2 * 60 * 1000
            assert worked_with.get("/").status == 200

    def test_metrics_take_a_name_and_a_password(self, site: Site) -> None:
        def basic(text: str) -> str:
            return "Basic " + base64.b64encode(text.encode()).decode()

        assert site.browser().get("/metrics").status == 401
        assert site.browser().get("/metrics", authorization=basic("viewer:wrong wrong")).status == 401
        assert site.browser().get("/metrics", authorization="Basic \xff").status == 401
        assert site.browser().get("/metrics", authorization=basic(f"viewer:{PASSWORD}")).status == 200
        assert site.browser().get("/", authorization=basic(f"viewer:{PASSWORD}")).status == 303, "metrics only"


class TestForms:
    def change(self, client: AsgiClient, token: str, **headers: str) -> int:
        return client.post("/change", {"what": "it", "csrf": token}, **headers).status

    def test_a_form_of_ones_own_page_is_taken(self, site: Site) -> None:
        browser = site.browser("operator")
        token = browser.get("/token").text
        assert self.change(browser, token, origin="http://127.0.0.1:8090") == 200
        assert self.change(browser, token, referer="http://127.0.0.1:8090/token") == 200
        assert self.change(browser, "", **{"x-csrf-token": token}) == 200
        assert site.reached == ["it"] * 3

    def test_a_form_without_token_or_with_anothers_is_not(self, site: Site) -> None:
        browser, other = site.browser("operator"), site.browser("operator")
        for token in ("", "x", other.get("/token").text, "é" * 64):
            assert self.change(browser, token) == 403
        assert site.reached == []

    def test_the_token_of_before_the_login_is_not_the_one_after(self, site: Site) -> None:
        browser = site.browser()
        before = browser.get("/login")
        token = csrf.token_for(
            site.guard.sessions.key, site.guard.sessions._signer.loads(browser.cookies[site.guard.sessions.cookie_name])
        )
        assert before.status == 200
        browser.post("/login", {"name": "operator", "password": PASSWORD, "csrf": token})
        assert self.change(browser, token) == 403

    def test_another_sites_form_is_refused_even_with_the_token(self, site: Site) -> None:
        browser = site.browser("operator")
        token = browser.get("/token").text
        for headers in (
            {"origin": "http://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:8091"},
            {"referer": "http://evil.example/127.0.0.1:8090"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8090"},
        ):
            assert self.change(browser, token, **headers) == 403, headers
        assert site.reached == []

    @pytest.mark.parametrize("relation", ["cross-site", "same-site"])
    def test_nothing_is_loaded_into_another_sites_page(self, local: Site, relation: str) -> None:
        browser = local.browser()
        for mode, kind in (("no-cors", "image"), ("cors", "empty"), ("navigate", "iframe"), ("no-cors", "script")):
            seen = {"sec-fetch-site": relation, "sec-fetch-mode": mode, "sec-fetch-dest": kind}
            assert browser.get("/?n=1", **seen).status == 403, seen
        assert local.reached == []
        assert local.guard.audit.entries() == []

    def test_a_link_from_another_site_and_an_address_that_was_typed_lead_in(self, local: Site) -> None:
        for relation in ("cross-site", "same-origin", "none"):
            seen = {"sec-fetch-site": relation, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
            assert local.browser().get("/", **seen).status == 200
        own = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
        assert local.browser().get("/", **own).status == 200

    def test_on_loopback_the_token_is_asked_for_too(self, local: Site) -> None:
        browser = local.browser()
        assert self.change(browser, "") == 403
        assert self.change(browser, browser.get("/token").text) == 200

    def test_a_viewer_may_not_although_the_form_is_right_and_it_is_written_down(self, site: Site) -> None:
        browser = site.browser("viewer")
        assert self.change(browser, browser.get("/token").text) == 403
        assert site.reached == []
        entry = site.guard.audit.entries()[0]
        assert (entry.user, entry.target, entry.outcome) == ("viewer", "POST /change", Outcome.DENIED)

    def test_what_another_site_tries_is_not_written_down_as_what_the_user_tried(self, site: Site) -> None:
        browser = site.browser("viewer")
        token = browser.get("/token").text
        assert self.change(browser, token, **{"sec-fetch-site": "cross-site"}) == 403
        assert self.change(browser, "made up") == 403
        assert site.guard.audit.entries() == []

    def test_one_user_does_not_fill_the_audit_log_with_refusals(self, site: Site) -> None:
        browser = site.browser("viewer")
        token = browser.get("/token").text
        for _ in range(guard.MOST_DENIALS + 5):
            assert self.change(browser, token) == 403
        assert len(site.guard.audit.entries()) == guard.MOST_DENIALS
        site.now_ms += 60_000
        assert self.change(browser, token) == 403
        assert len(site.guard.audit.entries()) == guard.MOST_DENIALS + 1

    def test_a_body_that_does_not_arrive_in_time_is_not_held(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard, "BODY_S", 0.01)
        assert asyncio.run(half_sent(site, b"x" * 1000)) == 408
        assert site.guard.held_bytes == 0

    def test_half_sent_bodies_together_are_bounded(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard, "MOST_HELD_BYTES", 2500)
        monkeypatch.setattr(guard, "BODY_S", 0.1)

        async def many() -> list[int]:
            return await asyncio.gather(*(half_sent(site, b"x" * 1000) for _ in range(3)))

        assert sorted(asyncio.run(many())) == [408, 408, 503]
        assert site.guard.held_bytes == 0

    def test_who_is_not_logged_in_sends_little(self, site: Site) -> None:
        form = {"name": "x" * guard.MOST_ANONYMOUS_BYTES}
        assert site.browser().post("/login", form).status == 413

    def test_what_is_too_large_is_refused(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard, "MOST_BODY_BYTES", 1000)
        browser = site.browser("operator")
        token = browser.get("/token").text
        form = {"what": "x" * 1001, "csrf": token}
        assert browser.post("/change", form).status == 413
        assert browser.post("/change", form, **{"content-length": "5"}).status == 413
        assert site.reached == []

    def test_other_methods_are_no_way_round(self, site: Site) -> None:
        browser = site.browser("operator")
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
            assert browser.send(method, "/change").status == 403


class TestAnswers:
    def test_pages_are_not_kept_by_the_browser_and_the_cookie_is_not_for_scripts(self, site: Site) -> None:
        answer = site.browser().get("/login")
        assert answer.headers["cache-control"] == "no-store"
        assert "HttpOnly" in answer.headers["set-cookie"]
        assert "SameSite=Lax" in answer.headers["set-cookie"]

    def test_a_stream_ends_so_that_its_session_is_looked_at_again(
        self, site: Site, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guard, "STREAM_S", 0.05)
        answer = site.browser("viewer").get("/stream")
        assert answer.status == 200
        assert answer.body.startswith(b": beat")


class TestPlacesToGo:
    @pytest.mark.parametrize(
        "target",
        [
            "https://evil.example",
            "//evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "/\t/evil.example",
            "/\n/evil.example",
            "javascript:alert(1)",
            "",
            None,
            " /x",
            "/a\\b",
        ],
    )
    def test_a_login_leads_nowhere_else(self, target: str | None) -> None:
        assert csrf.safe_path(target) == "/"

    def test_a_login_leads_back_to_the_page(self) -> None:
        assert csrf.safe_path("/c/main/topics/orders?x=//a") == "/c/main/topics/orders?x=//a"


class TestAudit:
    @pytest.fixture
    def log(self, tmp_path: Path) -> AuditLog:
        return AuditLog(open_ledger(tmp_path / "ledger.sqlite"))

    def record(self, key: str, **changes: str) -> AuditRecord:
        return AuditRecord(key, "ada", "10.0.0.1", "main", "delete-topic", "orders")._replace(**changes)

    def test_an_action_is_there_before_and_after_its_outcome(self, log: AuditLog) -> None:
        number = log.begin(self.record("k1", before="6 partitions"), 1000)
        assert log.find(number).outcome is None
        log.end(number, Outcome.COMMITTED, 1100, after="gone")
        found = log.find(number)
        assert (found.outcome, found.ended_ms, found.before, found.after) == (
            Outcome.COMMITTED,
            1100,
            "6 partitions",
            "gone",
        )

    def test_the_same_confirmation_twice_is_one_action(self, log: AuditLog) -> None:
        number = log.begin(self.record("k1"), 1000)
        log.end(number, Outcome.UNKNOWN, 1001)
        with pytest.raises(AlreadyDone) as again:
            log.begin(self.record("k1"), 2000)
        assert (again.value.entry.number, again.value.entry.outcome) == (number, Outcome.UNKNOWN)

    def test_nothing_is_changed_or_removed(self, log: AuditLog) -> None:
        log.end(log.begin(self.record("k1"), 1000), Outcome.COMMITTED, 1001)
        for statement in (
            "UPDATE audit_begun SET user = 'eve'",
            "DELETE FROM audit_begun",
            "UPDATE audit_ended SET outcome = 'rejected'",
            "DELETE FROM audit_ended",
        ):
            with pytest.raises(Exception, match="only added to"):
                log._database.execute(statement)

    def test_text_that_sql_would_read_is_text(self, log: AuditLog) -> None:
        hostile = "x'; DROP TABLE audit_begun; --"
        number = log.begin(self.record("k1", target=hostile), 1000)
        assert log.find(number).target == hostile
        assert [entry.target for entry in log.entries(text="'; drop")] == [hostile]
        assert log.entries(text="%") == []
        assert log.entries(user=hostile, cluster=hostile) == []

    def test_entries_are_found_by_cluster_user_text_and_page(self, log: AuditLog) -> None:
        for number in range(5):
            log.begin(
                self.record(str(number), cluster="a" if number < 3 else "b", user=f"u{number % 2}"), 1000 + number
            )
        assert [entry.number for entry in log.entries()] == [5, 4, 3, 2, 1]
        assert [entry.number for entry in log.entries(cluster="a", user="u0")] == [3, 1]
        assert [entry.number for entry in log.entries(before_number=4, limit=2)] == [3, 2]

    def test_what_was_done_to_a_thing_since(self, log: AuditLog) -> None:
        log.begin(self.record("1"), 1000)
        log.begin(self.record("2"), 2000)
        log.begin(self.record("3", target="others"), 3000)
        assert [entry.at_ms for entry in log.since("main", "orders", 1500)] == [2000]

    def test_a_long_text_is_cut_and_says_so(self, log: AuditLog) -> None:
        number = log.begin(self.record("k1", wanted="x" * 50_000), 1000)
        assert "characters more" in log.find(number).wanted
        assert len(log.find(number).wanted) < 21_000
