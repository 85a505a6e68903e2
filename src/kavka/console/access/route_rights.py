"""RouteRights: which right each address of the console takes.

Decides before a page is called. Must not know what the page does. An address that stands in no row ends the start of
the console (tests/unit/console/test_route_rights.py fails for it, too).

    who        ANYBODY        without a login, too
               SOMEBODY       who is logged in, even without any grant
               ANYWHERE       a role on one cluster at least
               CLUSTER        a role on the cluster of the address, with some topics at least
               ALL_TOPICS     a role there for all topics: the page shows what is not about one topic
               TOPIC          a role there for the topic of the address
               VALUES         the right to read messages of the topic of the address
               FORM           a role there for the topic that the form names (pages/actions.py asks `check_topics`)

I1  A row names one method and one address. There is no default.
I2  A cluster on which somebody has no role does not exist for them: 404, as for a name that was made up. The audit log
    takes both down.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route

from kavka.console.rights import Rights, Role, role_named

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response

    from kavka.console.access.auth import User


class Who(Enum):
    ANYBODY = "anybody"
    SOMEBODY = "somebody"
    ANYWHERE = "anywhere"
    CLUSTER = "cluster"
    ALL_TOPICS = "all topics"
    TOPIC = "topic"
    VALUES = "values"
    FORM = "form"


class Need(NamedTuple):
    who: Who
    role: Role = Role.VIEWER


_OPERATE, _ADMINISTER = Role.OPERATOR, Role.ADMIN
_MESSAGES: Final = "/c/{cluster}/topics/{topic}/messages"
_JOB: Final = "/c/{cluster}/jobs/{number:int}"
NEEDS: Final[dict[tuple[str, str], Need]] = {
    ("GET", "/login"): Need(Who.ANYBODY),
    ("POST", "/login"): Need(Who.ANYBODY),
    ("GET", "/login/sso"): Need(Who.ANYBODY),
    ("GET", "/login/sso/callback"): Need(Who.ANYBODY),
    ("POST", "/logout"): Need(Who.ANYBODY),
    ("GET", "/preferences"): Need(Who.ANYBODY),
    ("GET", "/"): Need(Who.SOMEBODY),
    ("GET", "/live"): Need(Who.SOMEBODY),
    ("GET", "/metrics"): Need(Who.SOMEBODY),
    ("GET", "/audit"): Need(Who.ANYWHERE, _OPERATE),
    ("GET", "/audit/{number:int}"): Need(Who.ANYWHERE, _OPERATE),
    ("GET", "/simulator"): Need(Who.ANYWHERE),
    ("POST", "/simulator/runs"): Need(Who.ANYWHERE),
    ("GET", "/simulator/runs/{run}"): Need(Who.ANYWHERE),
    ("GET", "/simulator/runs/{run}/page"): Need(Who.ANYWHERE),
    ("GET", "/play/{file:path}"): Need(Who.SOMEBODY),
    ("GET", "/learn/{file:path}"): Need(Who.SOMEBODY),
    ("GET", "/cluster/{file:path}"): Need(Who.SOMEBODY),
    ("GET", "/c/{cluster}"): Need(Who.CLUSTER),
    ("GET", "/c/{cluster}/"): Need(Who.CLUSTER),
    ("GET", "/c/{cluster}/live"): Need(Who.CLUSTER),
    ("GET", "/c/{cluster}/brokers"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/brokers/{broker:int}"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/topics"): Need(Who.CLUSTER),
    ("GET", "/c/{cluster}/topics/{topic}"): Need(Who.TOPIC),
    ("GET", "/c/{cluster}/topics/{topic}/settings"): Need(Who.TOPIC),
    ("POST", "/c/{cluster}/topics/{topic}/settings"): Need(Who.TOPIC),
    ("GET", "/c/{cluster}/brokers/{broker:int}/settings"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/topics/{topic}/clients"): Need(Who.TOPIC),
    ("GET", "/c/{cluster}/brokers/{broker:int}/clients"): Need(Who.ALL_TOPICS),
    ("GET", _MESSAGES): Need(Who.VALUES),
    ("GET", f"{_MESSAGES}/tail"): Need(Who.VALUES),
    ("GET", f"{_MESSAGES}/export"): Need(Who.VALUES),
    ("POST", f"{_MESSAGES}/saved"): Need(Who.VALUES),
    ("POST", f"{_MESSAGES}/saved/{{number:int}}/remove"): Need(Who.VALUES),
    ("GET", f"{_MESSAGES}/{{partition:int}}/{{offset:int}}"): Need(Who.VALUES),
    ("GET", f"{_MESSAGES}/{{partition:int}}/{{offset:int}}/{{part}}"): Need(Who.VALUES),
    ("GET", "/c/{cluster}/groups"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/groups/{group:path}"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/decisions"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/decisions/{decision}"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/churn"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/requests"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/durability"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/alerts"): Need(Who.ALL_TOPICS),
    ("POST", "/c/{cluster}/alerts/silences"): Need(Who.ALL_TOPICS, _OPERATE),
    ("POST", "/c/{cluster}/alerts/silences/{number:int}/end"): Need(Who.ALL_TOPICS, _OPERATE),
    ("POST", "/c/{cluster}/alerts/test"): Need(Who.ALL_TOPICS, _OPERATE),
    ("GET", "/c/{cluster}/access"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/access/users"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/access/quotas"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/connect"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/connect/{connector:path}"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/schemas"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/schemas/{subject:path}"): Need(Who.ALL_TOPICS),
    ("POST", "/c/{cluster}/schemas/{subject:path}"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/zookeeper"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/zookeeper/{path:path}"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/simulator"): Need(Who.ALL_TOPICS),
    ("POST", "/c/{cluster}/simulator/runs"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/simulator/runs/{run}"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/simulator/runs/{run}/page"): Need(Who.ALL_TOPICS),
    ("GET", "/c/{cluster}/done/{number:int}"): Need(Who.CLUSTER),
    ("GET", "/c/{cluster}/jobs"): Need(Who.ALL_TOPICS),
    ("GET", _JOB): Need(Who.ALL_TOPICS),
    ("GET", f"{_JOB}/files/{{file}}"): Need(Who.ALL_TOPICS),
    ("POST", f"{_JOB}/{{what}}"): Need(Who.ALL_TOPICS, _OPERATE),
}
_FORMS: Final = {
    "create-topic": Need(Who.FORM, _OPERATE),
    "alter-config": Need(Who.FORM, _OPERATE),
    "set-config": Need(Who.FORM, _OPERATE),
    "add-partitions": Need(Who.FORM, _OPERATE),
    "delete-topic": Need(Who.FORM, _ADMINISTER),
    "delete-records": Need(Who.FORM, _ADMINISTER),
    "produce": Need(Who.FORM, _OPERATE),
    "replay": Need(Who.FORM, _OPERATE),
    "reset-offsets": Need(Who.ALL_TOPICS, _OPERATE),
    "delete-group": Need(Who.ALL_TOPICS, _ADMINISTER),
    "add-acl": Need(Who.ALL_TOPICS, _ADMINISTER),
    "remove-acl": Need(Who.ALL_TOPICS, _ADMINISTER),
    "set-user": Need(Who.ALL_TOPICS, _ADMINISTER),
    "remove-user": Need(Who.ALL_TOPICS, _ADMINISTER),
    "connector": Need(Who.ALL_TOPICS, _OPERATE),
    "set-quota": Need(Who.ALL_TOPICS, _OPERATE),
    "reassign": Need(Who.ALL_TOPICS, _OPERATE),
    "replication-factor": Need(Who.ALL_TOPICS, _OPERATE),
    "move": Need(Who.ALL_TOPICS, _OPERATE),
    "decommission": Need(Who.ALL_TOPICS, _OPERATE),
    "elect": Need(Who.ALL_TOPICS, _OPERATE),
}
NEEDS.update(
    ((method, f"/c/{{cluster}}/do/{name}"), need) for name, need in _FORMS.items() for method in ("GET", "POST")
)
_FORM_ADDRESS: Final = re.compile(r"/c/[^/]+/do/([a-z-]+)")


def guarded(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    """The routes, each of which asks for its right first. Raises LookupError for one that stands in no row."""
    found: list[BaseRoute] = []
    for route in routes:
        if isinstance(route, Mount):
            found.append(route)  # Files that are the same for everybody.
            continue
        if not isinstance(route, Route):
            raise LookupError(f"{route!r} is of a kind that nobody guards")
        methods = {"GET" if method == "HEAD" else method for method in route.methods or ()}
        needs = {NEEDS.get((method, route.path)) for method in methods}
        (need,) = needs if len(needs) == 1 else (None,)
        if need is None:
            raise LookupError(f"{'/'.join(sorted(methods))} {route.path} has no row in route_rights.NEEDS")
        found.append(Route(route.path, _asking(route.endpoint, need), methods=sorted(route.methods or ())))
    return found


def _asking(page: Callable[[Request], Awaitable[Response]], need: Need) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        check(request, need)
        return await page(request)

    return endpoint


def check(request: HTTPConnection, need: Need) -> None:
    """Raises HTTPException: 401 where nobody is logged in, 404 for a cluster that is not for them, else 403."""
    if need.who is Who.ANYBODY:
        return
    user = _user(request)
    if user is None:
        raise HTTPException(401, "log in first")
    cluster, topic = request.path_params.get("cluster", ""), request.path_params.get("topic", "")
    if cluster and not user.rights.on(cluster, Role.VIEWER):
        request.state.is_denied = True  # For the audit log, which calls it by its name.
        raise HTTPException(404, f"There is no cluster {cluster!r} here.")
    if not _has(user.rights, need, cluster, topic):
        raise HTTPException(403, _missing(user, need, cluster, topic))


def check_topics(request: HTTPConnection, role: Role, topics: Sequence[str] | None) -> None:
    """Whether a form may name these topics; None: what it changes is not about topics alone. Raises HTTPException."""
    cluster = request.path_params["cluster"]
    if topics is None:
        check(request, Need(Who.ALL_TOPICS, role))
        return
    user = _user(request)
    if user is None:
        raise HTTPException(401, "log in first")
    for topic in topics:
        if not user.rights.on_topic(cluster, topic, role):
            raise HTTPException(403, _missing(user, Need(Who.TOPIC, role), cluster, topic))


def may(request: HTTPConnection, role: str) -> bool:
    """Whether a page offers what takes a role: with the topic of the address, or with all; anywhere, without a cluster.
    What is asked for is checked by itself."""
    user, path = _user(request), request.path_params
    if user is None:
        return False
    who = Who.TOPIC if "topic" in path else Who.ALL_TOPICS if "cluster" in path else Who.ANYWHERE
    return _has(user.rights, Need(who, role_named(role)), path.get("cluster", ""), path.get("topic", ""))


def may_open(request: HTTPConnection, address: str) -> bool:
    """Whether a page of the request's cluster offers the link to this form."""
    user, parts = _user(request), urlsplit(address)
    form = _FORM_ADDRESS.fullmatch(parts.path)
    if user is None or form is None:
        return False
    need, cluster = NEEDS["GET", f"/c/{{cluster}}/do/{form[1]}"], request.path_params.get("cluster", "")
    topic = parse_qs(parts.query).get("topic", [""])[0]
    if need.who is Who.FORM and topic:
        need = need._replace(who=Who.TOPIC)
    return _has(user.rights, need, cluster, topic)


def rights_of(request: HTTPConnection) -> Rights:
    """Of who asks; none where nobody is logged in."""
    user = _user(request)
    return Rights() if user is None else user.rights


def sees_all(request: HTTPConnection, cluster: str) -> bool:
    """Whether what is not about one topic is shown to them."""
    return rights_of(request).on_all_topics(cluster, Role.VIEWER)


def reads_values(request: HTTPConnection, cluster: str, topic: str) -> bool:
    return rights_of(request).reads_values(cluster, topic)


def _user(request: HTTPConnection) -> User | None:
    user: User | None = getattr(request.state, "user", None)
    return user


def _has(rights: Rights, need: Need, cluster: str, topic: str) -> bool:
    match need.who:
        case Who.ANYBODY | Who.SOMEBODY:
            return True
        case Who.ANYWHERE:
            return rights.anywhere(need.role)
        case Who.CLUSTER | Who.FORM:
            return rights.on(cluster, need.role)
        case Who.ALL_TOPICS:
            return rights.on_all_topics(cluster, need.role)
        case Who.TOPIC:
            return rights.on_topic(cluster, topic, need.role)
        case Who.VALUES:
            return rights.reads_values(cluster, topic)


def _missing(user: User, need: Need, cluster: str, topic: str) -> str:
    what = f"the role {need.role.name.lower()} on {cluster or 'a cluster'}"
    if need.who in (Who.TOPIC, Who.VALUES):
        what += f", topics {topic}"
    if need.who is Who.VALUES:
        what += ", values"
    has = "; ".join(map(str, user.rights)) or "no right at all"
    return f"{user.name} has {has}, and this takes {what}"
