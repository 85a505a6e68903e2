"""Each address of the console, and who may ask for it: a new one fails here until somebody says whose it is."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette")

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from kavka.console import app as application
from kavka.console.access import csrf, guard
from kavka.console.access.guard import GuardMiddleware
from kavka.console.access.route_rights import NEEDS, guarded
from kavka.console.pages.actions import ACTIONS
from kavka.console.rights import Role, full
from kavka.console.settings import ConsoleSettings, parse_settings
from tests.kit.asgi_client import AsgiClient

GRANTS = {
    "nothing": [],
    "elsewhere": ["admin on other, values"],
    "some": ["viewer on live, topics payments-*"],
    "some values": ["viewer on live, topics payments-*, values"],
    "some change": ["operator on live, topics payments-*"],
    "viewer": ["viewer on live"],
    "reader": ["viewer on live, values"],
    "operator": ["operator on live"],
    "admin": ["admin on l*, values"],
}
EVERYBODY = {*GRANTS}
ANYWHERE = EVERYBODY - {"nothing"}
OF_CLUSTER = ANYWHERE - {"elsewhere"}
WHOLE = {"viewer", "reader", "operator", "admin"}
READERS = {"some values", "reader", "admin"}
CHANGERS = {"some change", "operator", "admin"}
OPERATORS = {"operator", "admin"}
ADMINS = {"admin"}
C = "/c/{cluster}"
MESSAGES = C + "/topics/{topic}/messages"
FORMS = {
    "create-topic": CHANGERS,
    "alter-config": CHANGERS,
    "set-config": CHANGERS,
    "add-partitions": CHANGERS,
    "produce": CHANGERS,
    "replay": CHANGERS,
    "delete-topic": ADMINS,
    "delete-records": ADMINS,
    "delete-group": ADMINS,
    "reset-offsets": OPERATORS,
    "add-acl": ADMINS,
    "remove-acl": ADMINS,
    "set-user": ADMINS,
    "remove-user": ADMINS,
    "connector": OPERATORS,
    "set-quota": OPERATORS,
    "reassign": OPERATORS,
    "replication-factor": OPERATORS,
    "move": OPERATORS,
    "decommission": OPERATORS,
    "elect": OPERATORS,
}
WHOSE = {
    "GET /login": EVERYBODY,
    "GET /login/sso": EVERYBODY,
    "GET /login/sso/callback": EVERYBODY,
    "POST /login": EVERYBODY,
    "POST /logout": EVERYBODY,
    "GET /preferences": EVERYBODY,
    "GET /": EVERYBODY,
    "GET /live": EVERYBODY,
    "GET /metrics": EVERYBODY,
    "GET /audit": {*OPERATORS, "some change", "elsewhere"},
    "GET /audit/{number:int}": {*OPERATORS, "some change", "elsewhere"},
    **{
        f"{method} {place}/simulator{rest}": who
        for place, who in (("", ANYWHERE), (C, WHOLE))
        for method, rest in (("GET", ""), ("POST", "/runs"), ("GET", "/runs/{run}"), ("GET", "/runs/{run}/page"))
    },
    "GET /play/{file:path}": EVERYBODY,
    "GET /learn/{file:path}": EVERYBODY,
    "GET /cluster/{file:path}": EVERYBODY,
    f"GET {C}": OF_CLUSTER,
    f"GET {C}/": OF_CLUSTER,
    f"GET {C}/live": OF_CLUSTER,
    f"GET {C}/topics": OF_CLUSTER,
    f"GET {C}/done/{{number:int}}": OF_CLUSTER,
    f"GET {C}/topics/{{topic}}": OF_CLUSTER,
    f"GET {C}/topics/{{topic}}/settings": OF_CLUSTER,
    f"POST {C}/topics/{{topic}}/settings": OF_CLUSTER,
    f"GET {C}/topics/{{topic}}/clients": OF_CLUSTER,
    f"GET {C}/connect": WHOLE,
    f"GET {C}/connect/{{connector:path}}": WHOLE,
    f"GET {C}/schemas": WHOLE,
    f"GET {C}/schemas/{{subject:path}}": WHOLE,
    f"POST {C}/schemas/{{subject:path}}": WHOLE,
    f"GET {MESSAGES}": READERS,
    f"GET {MESSAGES}/tail": READERS,
    f"GET {MESSAGES}/export": READERS,
    f"POST {MESSAGES}/saved": READERS,
    f"POST {MESSAGES}/saved/{{number:int}}/remove": READERS,
    f"GET {MESSAGES}/{{partition:int}}/{{offset:int}}": READERS,
    f"GET {MESSAGES}/{{partition:int}}/{{offset:int}}/{{part}}": READERS,
    **{
        f"GET {C}/{name}": WHOLE
        for name in (
            "brokers",
            "brokers/{broker:int}",
            "brokers/{broker:int}/settings",
            "brokers/{broker:int}/clients",
            "groups",
            "groups/{group:path}",
            "decisions",
            "decisions/{decision}",
            "churn",
            "requests",
            "durability",
            "alerts",
            "access",
            "access/users",
            "access/quotas",
            "zookeeper",
            "zookeeper/{path:path}",
            "jobs",
            "jobs/{number:int}",
            "jobs/{number:int}/files/{file}",
        )
    },
    f"POST {C}/jobs/{{number:int}}/{{what}}": OPERATORS,
    f"POST {C}/alerts/silences": OPERATORS,
    f"POST {C}/alerts/silences/{{number:int}}/end": OPERATORS,
    f"POST {C}/alerts/test": OPERATORS,
    **{f"{method} {C}/do/{name}": who for name, who in FORMS.items() for method in ("GET", "POST")},
}
FILLED = {
    "{cluster}": "live",
    "{topic}": "payments-1",
    "{number:int}": "1",
    "{partition:int}": "0",
    "{offset:int}": "0",
    "{broker:int}": "1",
    "{part}": "value",
    "{group:path}": "g/1",
    "{path:path}": "a/b",
    "{decision}": "d",
    "{run}": "r",
    "{file}": "plan",
    "{what}": "run",
}


async def reached(request: Request) -> Response:
    return PlainTextResponse("reached")


class Site:
    """The console's own addresses behind its guard and its table; what stands behind each says only that it was
    reached."""

    def __init__(self, directory: Path) -> None:
        lines = "".join(f'[[user]]\nname = "{_name(name)}"\nrights = {rights}\n' for name, rights in GRANTS.items())
        clusters = '[[cluster]]\nname = "live"\nbootstrap = "127.0.0.1:1"\n'
        settings = parse_settings(f'login = true\ndata = "{directory}"\n{lines}{clusters}')
        self.settings = settings
        users = ConsoleSettings(data_directory=str(directory))
        real = application.create_app(users)
        console = real.state.console
        for user in settings.users:
            console.guard.users.add(user.name, "correct horse battery", Role.VIEWER)
        made = application.create_app(settings)
        self.guard = made.state.console.guard
        self.routes = [route for route in made.routes if isinstance(route, Route)]
        behind = [
            Route(route.path, reached, methods=sorted(route.methods or ()))
            for route in application._routes(made.state.console)
            if isinstance(route, Route)
        ]
        self.app = Starlette(routes=guarded(behind), middleware=[Middleware(GuardMiddleware, guard=self.guard)])

    def status(self, name: str, method: str, path: str) -> int:
        found = self.guard.users.find(_name(name))
        assert found is not None
        session = self.guard.sessions.begin(found[0], self.guard.now_ms() + 1_000)
        client = AsgiClient(self.app)
        client.cookies[self.guard.sessions.cookie_name] = self.guard.sessions.cookie_of(session.number)
        headers = {} if method == "GET" else {"x-csrf-token": csrf.token_for(self.guard.sessions.key, session.number)}
        return client.send(method, path, headers=headers).status


def _name(words: str) -> str:
    return words.replace(" ", "-")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("console"))


def test_every_address_of_the_console_stands_in_the_table_and_nothing_else_does(site: Site) -> None:
    there = {f"{method} {route.path}" for route in site.routes for method in route.methods or () if method != "HEAD"}
    assert there == {f"{method} {path}" for method, path in NEEDS}
    assert there == {*WHOSE}, "say in WHOSE who may ask for it"


@pytest.mark.parametrize("address", sorted(WHOSE))
def test_who_may_ask_for_it(site: Site, address: str) -> None:
    method, _, path = address.partition(" ")
    for place, value in FILLED.items():
        path = path.replace(place, value)
    for name in GRANTS:
        status = site.status(name, method, path)
        if name in WHOSE[address]:
            assert status == 200, name
        elif "/c/" in path and name not in OF_CLUSTER:
            assert status == 404, f"{name} is told that there is such a cluster"
        else:
            assert status == 403, name


@pytest.mark.parametrize("name", ["some", "some values", "some change"])
@pytest.mark.parametrize("rest", ["", "/messages", "/messages/tail", "/messages/0/0", "/messages/0/0/value"])
def test_a_topic_that_no_pattern_names_is_refused(site: Site, name: str, rest: str) -> None:
    assert site.status(name, "GET", f"/c/live/topics/salaries{rest}") == 403


@pytest.mark.parametrize("number", ["9" * 19, "9" * 5_000, "-1", "1e3", "٣"])
@pytest.mark.parametrize(
    "path", ["/audit/N", "/c/live/brokers/N", "/c/live/done/N", "/c/live/jobs/N", "/c/live/topics/t/messages/0/N"]
)
def test_a_number_that_no_page_has_leads_nowhere(site: Site, path: str, number: str) -> None:
    assert site.status("admin", "GET", path.replace("N", number)) == 404


def test_an_attempt_at_a_cluster_that_does_not_exist_for_somebody_is_in_the_audit_log(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_DENIALS", 1_000_000)  # Other tests have used up this minute's.
    before = max((entry.number for entry in site.guard.audit.entries()), default=0)
    assert site.status("nothing", "GET", "/c/live/topics") == 404
    entry = site.guard.audit.entries()[0]
    assert entry.number == before + 1
    assert (entry.user, entry.action, entry.target) == ("nothing", "denied", "GET /c/live/topics")


def test_an_address_without_a_row_ends_the_start() -> None:
    with pytest.raises(LookupError, match="GET /new has no row"):
        guarded([Route("/new", reached, methods=["GET"])])
    with pytest.raises(LookupError, match="no row"):
        guarded([Route("/login", reached, methods=["GET", "DELETE"])])


def test_only_static_files_stand_beside_the_table(site: Site) -> None:
    made = application.create_app(site.settings)
    assert [route.path for route in made.routes if isinstance(route, Mount)] == ["/static"]
    assert len(made.routes) == len(site.routes) + 1


def test_a_form_takes_the_role_of_its_action() -> None:
    for action in ACTIONS:
        assert NEEDS["POST", f"{C}/do/{action.name}"].role.name.lower() == action.role


def test_who_logs_in_without_rights_in_the_settings_has_all_of_the_role_as_ever() -> None:
    rights = full(Role.VIEWER)
    assert rights.on_all_topics("any", Role.VIEWER)
    assert rights.reads_values("any", "topic")
    assert not rights.anywhere(Role.OPERATOR)
