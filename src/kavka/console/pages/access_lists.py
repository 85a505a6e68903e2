"""The pages of access: who may do what (access control lists), who can log in (SCRAM), how much they may have (quotas).

Decides what is asked of the cluster for them. What a cluster does not tell is said with its reason: one without an
authorizer has no lists, and everybody may do everything there. Must not know how any of it is changed (actions/).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from starlette.routing import Route

from kavka.client.acl_admin import AclAdmin
from kavka.client.quota_admin import QuotaAdmin
from kavka.client.user_admin import UserAdmin
from kavka.console.actions.acls import KINDS
from kavka.console.actions.quotas import DEFAULT_WORD, LIMITS, number_text
from kavka.console.look.view import cut, links, search
from kavka.errors import ConnectionFailed, ErrorCode, KavkaError, RequestError
from kavka.security.acls import Binding, Filter, Permission
from kavka.security.authorizer import Access, who_may
from kavka.security.quota_limits import CLIENT_ID, DEFAULT, IP, USER, Entity
from kavka.security.quota_limits import Filter as QuotaFilter
from kavka.security.resource_patterns import TYPES_BY_WORD, PatternFilter, PatternType, ResourceType

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from kavka.console.console import Console

T = TypeVar("T")
NO_AUTHORIZER: Final = "no authorizer"


class Listed(NamedTuple):
    """One access control list, and the query of the form that removes it."""

    binding: Binding
    remove: str
    is_deny: bool


class Login(NamedTuple):
    """A user who logs in with SCRAM."""

    name: str
    ways: str
    lists: int | None
    """Access control lists that name the user; None where they are not known."""


class QuotaRow(NamedTuple):
    entity: str
    limits: tuple[tuple[str, str], ...]
    edit: str


def routes(console: Console) -> list[Route]:
    async def acls(request: Request) -> Response:
        return await _acls(console, request)

    async def users(request: Request) -> Response:
        return await _users(console, request)

    async def quotas(request: Request) -> Response:
        return await _quotas(console, request)

    return [
        Route("/c/{cluster}/access", acls),
        Route("/c/{cluster}/access/users", users),
        Route("/c/{cluster}/access/quotas", quotas),
    ]


async def _acls(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    wanted, kind = search(request), request.query_params.get("kind", "")
    name = request.query_params.get("resource", "")[:249].strip()
    chosen = TYPES_BY_WORD.get(kind, ResourceType.ANY)
    pattern = PatternFilter(chosen)
    if name and chosen is not ResourceType.ANY:
        pattern = PatternFilter(chosen, name, PatternType.MATCH)
    found, why = await _asked(AclAdmin(watch.cluster).find(Filter(pattern)))
    bindings: list[Binding] = found or []
    shown = [each for each in bindings if wanted.lower() in str(each).lower()]
    may: list[Access] | None = None
    if pattern.name is not None and not why:
        may = who_may(bindings, chosen, name)
    return console.show(
        request,
        "access.html",
        section="access",
        listed=cut([_listed(each) for each in shown], request),
        why=why,
        is_open=why == NO_AUTHORIZER,
        kinds=KINDS,
        kind=kind if kind in KINDS else "",
        resource=name,
        q=wanted,
        may=may,
        link=links(request),
        live=False,
    )


async def _users(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    wanted = search(request)
    found, why = await _asked(UserAdmin(watch.cluster).list())
    acls, _why = await _asked(AclAdmin(watch.cluster).find(Filter()))
    counts: dict[str, int] = {}
    for binding in acls or ():
        counts[binding.entry.principal] = counts.get(binding.entry.principal, 0) + 1
    logins = [
        Login(
            name,
            ", ".join(f"{mechanism.value} ({iterations})" for mechanism, iterations in ways.items()),
            None if acls is None else counts.get(f"User:{name}", 0),
        )
        for name, ways in sorted((found or {}).items())
        if wanted.lower() in name.lower()
    ]
    return console.show(
        request,
        "access_users.html",
        section="access",
        logins=cut(logins, request),
        why=why,
        q=wanted,
        link=links(request),
        live=False,
    )


async def _quotas(console: Console, request: Request) -> Response:
    watch = console.cluster(request)
    wanted = search(request)
    found, why = await _asked(QuotaAdmin(watch.cluster).find(QuotaFilter((), strict=False)))
    rows = [
        QuotaRow(
            str(entity),
            tuple((LIMITS.get(key, key), number_text(value)) for key, value in sorted(limits.items()) if key in LIMITS),
            _edit(entity),
        )
        for entity, limits in sorted((found or {}).items(), key=lambda each: str(each[0]))
        if wanted.lower() in str(entity).lower() and any(key in LIMITS for key in limits)
    ]
    return console.show(
        request,
        "access_quotas.html",
        section="access",
        rows=cut(rows, request),
        why=why,
        q=wanted,
        link=links(request),
        live=False,
    )


async def _asked(question: Awaitable[T]) -> tuple[T | None, str]:
    """The answer, or why there is none. Raises ConnectionFailed: of a cluster that is away the page says so."""
    try:
        return await question, ""
    except ConnectionFailed:
        raise
    except RequestError as refused:
        if refused.code is ErrorCode.SECURITY_DISABLED:
            return None, NO_AUTHORIZER
        return None, f"{refused.code.name}: {refused}"
    except KavkaError as problem:
        return None, str(problem)


def _listed(binding: Binding) -> Listed:
    pattern, entry = binding
    query = {
        "principal": entry.principal,
        "permission": entry.permission.word,
        "operations": entry.operation.word,
        "kind": pattern.resource_type.word,
        "resource": pattern.name,
        "pattern": pattern.pattern_type.name.lower(),
        "host": entry.host,
    }
    return Listed(binding, urlencode(query), entry.permission is Permission.DENY)


def _edit(entity: Entity) -> str:
    fields = {USER: "user", CLIENT_ID: "client", IP: "ip"}
    return urlencode({fields[kind]: DEFAULT_WORD if name is DEFAULT else str(name) for kind, name in entity.parts()})
