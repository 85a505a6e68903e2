"""Logins by a provider of OpenID Connect: who gets in, who does not, and what is told and kept of it."""

from __future__ import annotations

import json
import sqlite3
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("joserfc")

from starlette.datastructures import MutableHeaders

from kavka.console import app as application
from kavka.console.access import guard, sessions, single_sign_on
from kavka.console.rights import Role
from kavka.console.settings import ConsoleSettings, parse_settings
from tests.kit.asgi_client import Answer, AsgiClient
from tests.kit.browser import chromium, look, page_of
from tests.kit.console_process import ConsoleProcess
from tests.kit.login_provider import CLIENT, SECRET, LoginProvider
from tests.kit.token_issuer import encoded, token

ADDRESS = "http://127.0.0.1:8090"
CALLBACK = "/login/sso/callback"
CLUSTER = '[[cluster]]\nname = "live"\nbootstrap = "127.0.0.1:1"\n'


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[LoginProvider]:
    with LoginProvider(tmp_path) as made:
        yield made


class Site:
    """A console without a port, and browsers in front of it."""

    def __init__(self, provider: LoginProvider, directory: Path, *, more: str = "", rules: str = "") -> None:
        self.provider = provider
        self.directory = directory
        self.settings = parse_settings(
            f'data = "{directory}"\n{CLUSTER}{provider.settings(ADDRESS, more=more, rules=rules)}'
        )
        self.app = application.create_app(self.settings)
        self.guard = self.app.state.console.guard

    def browser(self) -> AsgiClient:
        return AsgiClient(self.app)

    def login(self, browser: AsgiClient, **answer: str) -> Answer:
        """To the provider and back, with these things of the answer otherwise."""
        begun = browser.get("/login/sso?next=/audit")
        assert begun.status == 303, begun.text
        sent = {**self.provider.authorize(begun.headers["location"]), **answer}
        return browser.get(f"{CALLBACK}?{urlencode(sent)}")

    @property
    def last(self) -> tuple[str, str, str]:
        entry = self.guard.audit.entries()[0]
        return entry.user, entry.outcome.value, entry.remark


@pytest.fixture
def site(provider: LoginProvider, tmp_path: Path) -> Site:
    return Site(provider, tmp_path / "data")


def test_who_comes_back_from_the_provider_is_logged_in_with_the_rights_of_their_groups(site: Site) -> None:
    browser = site.browser()
    assert browser.get("/").status == 303, "a login is needed, on the loopback, too"
    before = dict(browser.cookies)
    answer = site.login(browser)
    assert (answer.status, answer.headers["location"]) == (303, "/audit")
    assert browser.cookies[site.guard.sessions.cookie_name] != before.get(site.guard.sessions.cookie_name)
    assert browser.cookies[site.guard.sessions.sso_cookie_name] == "", "it is used once"
    page = browser.get("/audit")
    assert page.status == 200
    user, outcome, remark = site.last
    assert user.startswith("sso:ada#")
    assert user in page.text
    assert (outcome, remark) == ("committed", "subject u-1; groups: kafka-ops")
    assert site.provider.forms[0]["redirect_uri"] == ADDRESS + CALLBACK


def test_the_browser_is_sent_with_state_nonce_and_a_challenge_of_its_own(site: Site) -> None:
    asked = [
        parse_qs(urlsplit(site.browser().get("/login/sso").headers["location"]).query, strict_parsing=True)
        for _ in range(2)
    ]
    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name]
        assert len(asked[0][name][0]) >= 43
    assert asked[0]["tenant"] == ["1"], "the endpoint's own query stays"


def test_behind_https_its_cookie_is_for_https_alone(provider: LoginProvider, tmp_path: Path) -> None:
    table = provider.settings("https://kavka.example.com")
    settings = parse_settings(f'data = "{tmp_path / "data"}"\nsecure_cookies = true\n{table}')
    headers = MutableHeaders()
    application.create_app(settings).state.console.guard.keep_sso(headers, "x")
    assert headers["set-cookie"].endswith("=x; Path=/login/sso; HttpOnly; SameSite=Lax; Max-Age=600; Secure")


class Now(NamedTuple):
    """A time of a token, from the moment on in which its test begins: tests are made long before that."""

    seconds: int


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"aud": "another"}, "token for another audience"),
        ({"aud": None}, "token for another audience"),
        ({"aud": [CLIENT, "another"]}, "made for another client"),
        ({"aud": [CLIENT, "another"], "azp": "another"}, "made for another client"),
        ({"azp": "another"}, "made for another client"),
        ({"iss": "https://evil.example"}, "token of another issuer"),
        ({"nonce": "another"}, "made for another login"),
        ({"nonce": None}, "made for another login"),
        ({"nonce": 7}, "made for another login"),
        ({"exp": Now(-60)}, "expired token"),
        ({"iat": Now(120), "exp": Now(600)}, "not valid yet"),
        ({"exp": None}, "token without a claim"),
        ({"sub": None}, "token without a claim"),
        ({"sub": "a\nb"}, "token without a claim"),
        ({"sub": "ada "}, "white space"),
        ({"groups": [f"g{n}" for n in range(2_001)]}, "names 2001 groups"),
    ],
)
def test_a_token_that_says_something_wrong_lets_nobody_in(site: Site, said: dict[str, Any], why: str) -> None:
    now = int(time.time())
    site.provider.said = {name: now + each.seconds if isinstance(each, Now) else each for name, each in said.items()}
    browser = site.browser()
    answer = site.login(browser)
    assert answer.status == 403
    assert why in answer.text
    assert browser.get("/").status == 303
    assert site.last[:2] == ("sso:?", "denied")
    assert why in site.last[2]


def unsigned(content: Mapping[str, Any]) -> str:
    return f"{encoded({'alg': 'none'})}.{encoded(content)}."


def changed(content: Mapping[str, Any]) -> str:
    head, body, signature = token(content).split(".")
    other = {**json.loads(urlsafe_b64decode(body + "==")), "groups": ["admins"]}
    return f"{head}.{encoded(other)}.{signature}"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (unsigned, "an algorithm that is not accepted"),
        (lambda content: f"{encoded({'alg': 'HS256'})}.{encoded(content)}.{encoded(b'x' * 32)}", "an algorithm"),
        (changed, "wrong signature"),
        (lambda content: token(content, kid="RS256-other"), "an unknown key"),
        (lambda content: token(content, header={"jku": "https://evil.example/keys"}), "a header that is not accepted"),
        (lambda content: "canary-token", "malformed token"),
        (lambda content: "", "no ID token"),
        (lambda content: "x" * 70_000, "no ID token"),
    ],
)
def test_a_token_that_nobody_believes_lets_nobody_in(site: Site, make: Any, why: str) -> None:
    site.provider.make = make
    browser = site.browser()
    answer = site.login(browser)
    assert answer.status == 403
    assert why in answer.text
    assert "canary" not in answer.text
    assert browser.get("/").status == 303


def test_clocks_may_differ_a_little(site: Site) -> None:
    now = int(time.time())
    site.provider.said = {"iat": now - 600, "exp": now - 20}
    assert site.login(site.browser()).status == 303
    site.provider.said = {"iat": now + 20, "exp": now + 600}
    assert site.login(site.browser()).status == 303


def test_a_new_key_of_the_provider_is_fetched_once_in_a_while(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.login(site.browser()).status == 303
    assert site.provider.asked.count("/keys") == 1
    site.provider.kids = ("RS256-2",)
    site.provider.make = lambda content: token(content, kid="RS256-2")
    assert "an unknown key" in site.login(site.browser()).text
    assert site.provider.asked.count("/keys") == 1, "it was asked a moment ago"
    monkeypatch.setattr(single_sign_on, "KEYS_AGAIN_S", 0.0)
    assert site.login(site.browser()).status == 303
    assert site.provider.asked.count("/keys") == 2


def test_a_key_that_the_provider_withdrew_is_not_believed_for_long(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.login(site.browser()).status == 303
    site.provider.kids = ("RS256-2",)
    assert site.login(site.browser()).status == 303, "keys are not an hour old yet"
    monkeypatch.setattr(single_sign_on, "KEYS_S", 0.0)
    monkeypatch.setattr(single_sign_on, "KEYS_AGAIN_S", 0.0)
    assert "an unknown key" in site.login(site.browser()).text


def test_keys_that_cannot_be_had_are_not_asked_for_by_each_login(site: Site) -> None:
    site.provider.told = {"jwks_uri": f"{site.provider.issuer}/nowhere"}
    for _ in range(3):
        assert site.login(site.browser()).status == 503
    assert site.provider.asked.count("/nowhere") == 1


def test_only_the_browser_that_began_a_login_ends_it_and_once(site: Site) -> None:
    browser, other = site.browser(), site.browser()
    begun = browser.get("/login/sso")
    answer = urlencode(site.provider.authorize(begun.headers["location"]))
    for thief in (other, site.browser()):
        assert thief.get(f"{CALLBACK}?{answer}").status == 400
        assert thief.get("/").status == 303
    other.get("/login/sso")
    assert other.get(f"{CALLBACK}?{answer}").status == 400, "it has begun a login of its own"
    assert site.provider.forms == [], "the code was sent nowhere"
    wrong = site.browser()
    wrong.get("/login/sso")
    assert wrong.get(f"{CALLBACK}?code=x&state=%ff").status == 400
    assert browser.get(f"{CALLBACK}?{answer}").status == 303
    assert browser.get(f"{CALLBACK}?{answer}").status == 400


def test_a_login_that_takes_too_long_begins_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = site.browser()
    begun = browser.get("/login/sso")
    monkeypatch.setattr(site.guard.sso, "_now_ms", lambda: int(time.time() * 1000) + single_sign_on.LOGIN_MS)
    answer = urlencode(site.provider.authorize(begun.headers["location"]))
    assert browser.get(f"{CALLBACK}?{answer}").status == 400


def test_what_the_provider_refuses_is_told_without_what_it_could_smuggle_in(site: Site) -> None:
    answer = site.login(site.browser(), error="access_denied", error_description="<b>canary</b>")
    assert answer.status == 403
    assert "access_denied" in answer.text
    assert "canary" not in answer.text
    evil = site.login(site.browser(), error="<script>x</script>\u202e" + "y" * 1_000)
    assert "<script>x" not in evil.text
    assert "\u202e" not in evil.text
    assert "y" * 101 not in evil.text
    assert site.login(site.browser(), iss="https://evil.example").status == 403
    assert site.login(site.browser(), code="").status == 403
    never = site.login(site.browser(), code="never given")
    assert never.status == 403
    assert "it answered 400" in never.text
    assert site.last == (
        "sso:?",
        "denied",
        "The provider did not take the login's code from this console: it answered 400.",
    )


def test_an_issuer_that_says_that_it_names_itself_has_to(site: Site) -> None:
    site.provider.told = {"authorization_response_iss_parameter_supported": True}
    assert site.login(site.browser()).status == 403
    assert site.login(site.browser(), iss=site.provider.issuer).status == 303


@pytest.mark.parametrize("manner", ["500", "302", "lies"])
def test_a_provider_that_is_down_is_a_page_that_says_so(site: Site, manner: str) -> None:
    site.provider.manner = manner
    browser = site.browser()
    page = browser.get("/login/sso")
    assert page.status == 503
    assert "The provider could not be asked." in page.text
    assert "canary" not in page.text
    assert len(site.provider.asked) == 1
    browser.get("/login/sso")
    assert len(site.provider.asked) == 1, "it is not asked again at once"


def test_a_provider_that_says_nothing_is_waited_for_a_bounded_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kavka.runtime.http.documents.TIMEOUT_S", 0.3)
    site.provider.manner = "silent"
    page = site.browser().get("/login/sso")
    assert page.status == 503
    assert "The provider could not be asked." in page.text, "whichever of the two bounds comes first"


def test_a_provider_that_goes_down_later_is_remembered_and_its_outage_locks_nobody_out(site: Site) -> None:
    browser = site.browser()
    begun = browser.get("/login/sso")
    answer = urlencode(site.provider.authorize(begun.headers["location"]))
    site.provider.manner = "503"
    for _ in range(10):
        assert site.browser().get("/login/sso").status == 303
    assert browser.get(f"{CALLBACK}?{answer}").status == 503
    site.provider.manner = "well"
    assert site.login(browser).status == 303


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"issuer": "https://evil.example"}, "calls itself otherwise"),
        ({"token_endpoint": "http://127.0.0.1:1/token"}, "no token_endpoint that is an https address"),
        ({"jwks_uri": "file:///etc/passwd"}, "no jwks_uri that is an https address"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no authorization_endpoint"),
        ({"authorization_endpoint": "https://a@evil.example/"}, "no authorization_endpoint"),
        ({"authorization_endpoint": "https://a.example/\r\nset-cookie: x"}, "no authorization_endpoint"),
        ({"jwks_uri": None}, "no jwks_uri"),
        ({"jwks_uri": ["https://a.example"]}, "no jwks_uri"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not take the challenge S256"),
    ],
)
def test_a_provider_that_cannot_be_used_is_not(site: Site, told: dict[str, Any], why: str) -> None:
    site.provider.told = told
    page = site.browser().get("/login/sso")
    assert page.status == 503
    assert why in page.text


def test_a_certificate_of_another_authority_is_not_believed(provider: LoginProvider, tmp_path: Path) -> None:
    site = Site(provider, tmp_path / "data", more="")
    settings = parse_settings(
        f'data = "{tmp_path / "other"}"\n' + provider.settings(ADDRESS).replace("authorities", "#authorities")
    )
    site.app = application.create_app(settings)
    page = site.browser().get("/login/sso")
    assert page.status == 503
    assert "its certificate is not believed" in page.text


def test_the_secret_goes_where_the_provider_takes_it(site: Site) -> None:
    assert site.login(site.browser()).status == 303
    assert "client_secret" not in site.provider.forms[-1]
    site.provider.told = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    other = Site(site.provider, site.directory / "other")
    assert other.login(other.browser()).status == 303
    assert site.provider.forms[-1]["client_secret"] == SECRET


def test_groups_are_found_where_the_settings_say_and_a_subject_may_have_a_rule(
    provider: LoginProvider, tmp_path: Path
) -> None:
    rules = (
        '[[sso.rule]]\ngroup = "ops"\nrights = ["operator on live"]\n'
        '[[sso.rule]]\nsubject = "u-2"\nrights = ["admin on live"]\n'
    )
    site = Site(provider, tmp_path / "data", more='groups_claim = "realm_access.roles"', rules=rules)

    def seen(**said: Any) -> Role | None:
        provider.said = said
        browser = site.browser()
        assert site.login(browser).status == 303
        session = site.guard.sessions.find(browser.cookies[site.guard.sessions.cookie_name], site.guard.now_ms())
        found: Role | None = session.user.rights.highest
        return found

    assert seen(groups=["ops"]) is None, "in the wrong place"
    assert seen(realm_access={"roles": ["ops"]}) is Role.OPERATOR
    assert seen(**{"realm_access.roles": "ops"}) is Role.OPERATOR
    assert seen(realm_access={"roles": {"ops": 1}}) is None
    assert seen(realm_access="ops") is None
    assert seen(sub="u-2") is Role.ADMIN
    assert seen(sub="u-3", preferred_username="u-2") is None, "a name is no subject"


def test_who_has_no_rule_sees_no_cluster(site: Site) -> None:
    site.provider.said = {"groups": ["staff"], "preferred_username": None}
    browser = site.browser()
    assert site.login(browser).status == 303
    wall = browser.get("/")
    assert wall.status == 200
    assert "You have no right on any cluster." in wall.text
    assert browser.get("/c/live/topics").status == 404
    assert site.last[0].startswith("sso:")


def test_nobody_takes_another_users_name(site: Site) -> None:
    """Two people of one name are two, and neither is the console's own user of that name."""
    site.guard.users.add("ada", "correct horse battery", Role.ADMIN)
    names = set()
    for subject in ("u-1", "u-2"):
        site.provider.said = {"sub": subject, "groups": []}
        browser = site.browser()
        site.login(browser)
        names.add(site.last[0])
        assert "You have no right on any cluster." in browser.get("/").text
    assert len(names) == 2
    assert "ada" not in names


def test_sessions_end(site: Site, provider: LoginProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = site.browser()
    site.login(browser)
    assert browser.get("/").status == 200
    now_ms = site.guard.now_ms()
    for later_ms in (sessions.IDLE_MS, sessions.ABSOLUTE_MS):
        monkeypatch.setattr(site.guard, "now_ms", lambda at_ms=now_ms + later_ms: at_ms)
        assert browser.get("/").status == 303
        monkeypatch.setattr(site.guard, "now_ms", lambda: now_ms)
        site.login(browser)
    cookie = dict(browser.cookies)
    page = browser.get("/")
    token_ = page.text.split('name="csrf" value="')[1].split('"')[0]
    left = browser.post("/logout", {"csrf": token_}, origin=ADDRESS)
    assert (left.status, left.headers["location"]) == (303, "/login?left=1")
    told = browser.get("/login?left=1")
    assert "You are logged out of this console." in told.text
    assert f"{provider.issuer}/logout?client_id={CLIENT}&amp;post_logout_redirect_uri=" in told.text
    browser.cookies = cookie
    assert browser.get("/").status == 303, "a copy of the cookie is worth nothing"
    assert site.last[1] == "committed"


def test_a_session_has_the_rights_that_the_rules_give_now(site: Site, provider: LoginProvider, tmp_path: Path) -> None:
    browser = site.browser()
    site.login(browser)
    assert browser.get("/audit").status == 200
    viewer = Site(provider, site.directory, rules='[[sso.rule]]\ngroup = "kafka-ops"\nrights = ["viewer on *"]\n')
    browser.app = viewer.app
    assert browser.get("/audit").status == 403
    without = ConsoleSettings(data_directory=str(site.directory), login=True)
    site.guard.users.add("root", "correct horse battery", Role.ADMIN)
    browser.app = application.create_app(without)
    assert browser.get("/").status == 303, "the settings name no provider any more"
    with LoginProvider(tmp_path) as another:
        browser.app = Site(another, site.directory).app
        assert browser.get("/").status == 303, "another provider's users are others"


def test_users_of_the_console_itself_log_in_beside_it_also_while_the_provider_is_down(site: Site) -> None:
    assert 'name="password"' not in site.browser().get("/login").text, "there is none yet"
    site.guard.users.add("root", "correct horse battery", Role.ADMIN)
    site.provider.manner = "500"
    browser = site.browser()
    page = browser.get("/login/sso")
    assert page.status == 503
    token_ = page.text.split('name="csrf" value="')[1].split('"')[0]
    form = {"csrf": token_, "name": "root", "password": "correct horse battery", "next": "/"}
    assert browser.post("/login", form, origin=ADDRESS).status == 303
    assert browser.get("/").status == 200


def test_wrong_answers_make_nobody_wait_and_do_not_fill_the_audit_log(site: Site) -> None:
    for _ in range(guard.MOST_DENIALS + 5):
        assert site.browser().get(f"{CALLBACK}?code=x&state=y").status == 400
    entries = [entry for entry in site.guard.audit.entries() if entry.user == "sso:?"]
    assert guard.MOST_DENIALS <= len(entries) <= 2 * guard.MOST_DENIALS, "of a minute; it may have changed meanwhile"
    assert site.login(site.browser()).status == 303


def test_a_console_without_a_provider_has_no_such_address(tmp_path: Path) -> None:
    app = application.create_app(ConsoleSettings(data_directory=str(tmp_path)))
    assert AsgiClient(app).get("/login/sso").status == 404
    assert AsgiClient(app).get(f"{CALLBACK}?code=x&state=y").status == 404
    assert "/login/sso" not in AsgiClient(app).get("/login").text


def test_after_the_login_nobody_is_sent_elsewhere(site: Site) -> None:
    for target in ("https://evil.example/", "//evil.example", "/\\evil.example", "/x\r\nset-cookie: a=b"):
        browser = site.browser()
        begun = browser.get(f"/login/sso?{urlencode({'next': target})}")
        answer = urlencode(site.provider.authorize(begun.headers["location"]))
        assert browser.get(f"{CALLBACK}?{answer}").headers["location"] == "/"


def test_one_login_in_a_real_browser_and_no_secret_anywhere(provider: LoginProvider, tmp_path: Path) -> None:
    directory = tmp_path / "console"
    settings = CLUSTER + provider.settings("http://127.0.0.1:$PORT").replace(SECRET, f"file:{tmp_path / 'secret'}")
    (tmp_path / "secret").write_text(SECRET + "\n", encoding="utf-8")
    with ConsoleProcess(settings, directory) as console, chromium() as browser:
        with page_of(browser, is_trusting=True) as page:
            page.goto(f"{console.address}/audit")
            assert "/login" in page.url
            look(page)
            shown = [page.content()]
            page.click("text=Log in with Example")
            page.wait_for_selector("text=Ada")
            (cookie,) = [each for each in page.context.cookies() if each["name"].startswith("kavka_sso_")]
            assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == ("/login/sso", True, "Lax")
            page.click("text=Ada")
            page.wait_for_url(f"{console.address}/audit")
            assert "sso:ada#" in page.content()
            assert not [each for each in page.context.cookies() if each["name"].startswith("kavka_sso_")]
            look(page)
            shown.append(page.content())
            page.click("text=Log out")
            page.wait_for_selector("text=You are logged out of this console.")
            look(page)
            page.click("text=Log out there, too")
            page.wait_for_selector("text=Logged out")
            provider.manner = "500"
            page.goto(f"{console.address}{CALLBACK}?error=x&state=y")
            shown.append(page.content())
            look(page)
        log = console.log
        files = [path.read_bytes() for path in (directory / "data").rglob("*") if path.is_file()]
        ledger = sqlite3.connect(directory / "data" / "ledger.sqlite")
        shown += map(str, ledger.execute("SELECT * FROM audit_ended"))
    for canary in (SECRET, "canary-access", "canary"):
        assert canary not in log
        assert not any(canary in text for text in shown)
        assert not any(canary.encode() in data for data in files)
    assert console.failures == []
