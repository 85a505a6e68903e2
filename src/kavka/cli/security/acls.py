"""`kavka acls`: access control lists, in the words of Kafka's kafka-acls. Works with Apache Kafka too.

Decides which bindings a command line means: each operation for each principal and host on each resource that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Table, confirm, counted, note, one_of, show, show_json, usage
from kavka.cli.security.denied import principal_named
from kavka.cli.session import with_cluster
from kavka.cli.shared_options import takes
from kavka.security.acls import OPERATIONS_BY_WORD, Binding, Entry, EntryFilter, Filter, Operation, Permission
from kavka.security.authorizer import Access, who_may
from kavka.security.resource_patterns import CLUSTER_NAME, Pattern, PatternFilter, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kavka.client.cluster import Cluster

app = CommandLine(name="acls", help="List, add and remove access control lists.")

Names = list[str] | None
Topic = Annotated[Names, typer.Option("--topic", metavar="NAME", help="A topic; '*' for all.")]
Group = Annotated[Names, typer.Option("--group", metavar="NAME", help="A group; '*' for all.")]
TransactionalId = Annotated[Names, typer.Option("--transactional-id", metavar="ID", help="A transactional id.")]
Token = Annotated[Names, typer.Option("--delegation-token", metavar="ID", help="A delegation token.")]
UserPrincipal = Annotated[
    Names, typer.Option("--user-principal", metavar="PRINCIPAL", help="A user whose tokens it is about.")
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Kind = Annotated[
    str | None,
    typer.Option("--resource-pattern-type", metavar="TYPE", help="literal, prefixed, or in filters match or any."),
]
Operations = Annotated[Names, typer.Option("--operation", metavar="WORD", help="Read, Write, Describe, All, ...")]
Allowed = Annotated[
    Names, typer.Option("--allow-principal", metavar="PRINCIPAL", help="Allow this one, such as User:alice.")
]
Denied = Annotated[Names, typer.Option("--deny-principal", metavar="PRINCIPAL", help="Deny this one.")]
AllowedHosts = Annotated[
    Names, typer.Option("--allow-host", metavar="ADDRESS", help="Allow from here; any by default.")
]
DeniedHosts = Annotated[Names, typer.Option("--deny-host", metavar="ADDRESS", help="Deny from here; any by default.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", "--force", help="Do not ask.")]


@app.command("list")
def list_acls(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user_principal: UserPrincipal = None,
    cluster: OfCluster = False,
    pattern_type: Kind = None,
    principal: Annotated[
        Names, typer.Option("--principal", metavar="PRINCIPAL", help="Only entries for this principal.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List access control lists: all, or those of resources and principals.

    [bold]Examples[/bold]

    kavka acls list

    kavka acls list --topic orders --resource-pattern-type match
    """
    named = _resources(topic, group, transactional_id, delegation_token, user_principal, cluster=cluster)
    patterns = _filters(named, pattern_type or "any")
    entries = [EntryFilter(principal_named(one)) for one in principal or ()] or [EntryFilter()]
    wanted = [Filter(pattern, entry) for pattern in patterns for entry in entries]

    async def work(session: Cluster) -> list[Binding]:
        from kavka.client.acl_admin import AclAdmin

        admin = AclAdmin(session)
        return sorted({binding for each in wanted for binding in await admin.find(each)})

    _show(with_cluster(bootstrap, work), as_json=as_json)


class Asked(NamedTuple):
    """What a command line names: resources, and entries for them."""

    resources: list[tuple[ResourceType, str]]
    pattern_type: str | None
    entries: list[Entry]


def _asked(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user_principal: UserPrincipal = None,
    cluster: OfCluster = False,
    pattern_type: Kind = None,
    operation: Operations = None,
    allow_principal: Allowed = None,
    deny_principal: Denied = None,
    allow_host: AllowedHosts = None,
    deny_host: DeniedHosts = None,
) -> Asked:
    """The options that `add` and `remove` have in common."""
    named = _resources(topic, group, transactional_id, delegation_token, user_principal, cluster=cluster)
    if not named:
        usage("name a resource", "--topic, --group, --cluster, --transactional-id, ...")
    entries = _entries(operation, (allow_principal, allow_host), (deny_principal, deny_host))
    return Asked(named, pattern_type, entries)


@app.command("add")
@takes(_asked)
def add(asked: Asked, as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Add entries: who may, or may not, do what to which resources.

    [bold]Examples[/bold]

    kavka acls add --allow-principal User:alice --operation Read --topic orders --group billing

    kavka acls add --deny-principal 'User:*' --deny-host 10.0.0.9 --topic '*'
    """
    kind = one_of([asked.pattern_type or "literal"], ("literal", "prefixed"), what="pattern type")[0]
    patterns = [Pattern(resource_type, name, PatternType[kind.upper()]) for resource_type, name in asked.resources]
    if not asked.entries:
        usage("name a principal", "--allow-principal User:alice")
    bindings = [Binding(pattern, entry) for pattern in patterns for entry in asked.entries]

    async def work(session: Cluster) -> None:
        from kavka.client.acl_admin import AclAdmin

        await AclAdmin(session).add(bindings)

    with_cluster(bootstrap, work)
    _show(bindings, as_json=as_json)


@app.command("remove")
@takes(_asked)
def remove(asked: Asked, yes: Yes = False, as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Remove entries; without principals, all of the resources that are named.

    [bold]Examples[/bold]

    kavka acls remove --allow-principal User:alice --operation Read --topic orders --yes
    """
    patterns = _filters(asked.resources, asked.pattern_type or "literal")
    wanted = [EntryFilter(*entry) for entry in asked.entries] or [EntryFilter()]
    filters = [Filter(pattern, entry) for pattern in patterns for entry in wanted]
    confirm(f"remove access control lists of {', '.join(sorted(name for _, name in asked.resources))}", yes=yes)

    async def work(session: Cluster) -> list[Binding]:
        from kavka.client.acl_admin import AclAdmin

        return await AclAdmin(session).remove(filters)

    removed = with_cluster(bootstrap, work)
    _show(removed, as_json=as_json)
    note(f"Removed {counted(len(removed), 'entry', 'entries')}.")


@app.command("who")
def who(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user_principal: UserPrincipal = None,
    cluster: OfCluster = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Show who may do what to a resource, by every list that covers it.

    Only the brokers' settings say who is a super user, and what is allowed without any list.

    [bold]Examples[/bold]

    kavka acls who --topic orders-1
    """
    named = _resources(topic, group, transactional_id, delegation_token, user_principal, cluster=cluster)
    if len(named) != 1:
        usage("name one resource", "--topic, --group, --cluster, --transactional-id, ...")
    resource_type, name = named[0]

    async def work(session: Cluster) -> list[Binding]:
        from kavka.client.acl_admin import AclAdmin

        return await AclAdmin(session).find(Filter(PatternFilter(resource_type, name, PatternType.MATCH)))

    _show_rights(who_may(with_cluster(bootstrap, work), resource_type, name), as_json=as_json)


def _show_rights(found: Sequence[Access], *, as_json: bool) -> None:
    """Who holds which rights to one resource."""
    if as_json:
        show_json(
            [
                {
                    "principal": each.principal,
                    "host": each.host,
                    "may": [operation.word for operation in each.may],
                    "denied": [operation.word for operation in each.denied],
                }
                for each in found
            ]
        )
        return
    if not found:
        note(
            "No access control list covers it: only super users may use it, or everybody if "
            "allow.everyone.if.no.acl.found is set."
        )
        return
    table = Table(["principal", "from host", "may", "denied"], [])
    for each in found:
        may = "everything" if each.may_everything else ", ".join(operation.word for operation in each.may) or "nothing"
        table.add(each.principal, each.host, may, ", ".join(operation.word for operation in each.denied))
    show(table)


def _resources(
    topics: Names,
    groups: Names,
    transactional_ids: Names,
    tokens: Names,
    users: Names,
    *,
    cluster: bool,
) -> list[tuple[ResourceType, str]]:
    found = [(ResourceType.TOPIC, name) for name in topics or ()]
    found += [(ResourceType.GROUP, name) for name in groups or ()]
    found += [(ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids or ()]
    found += [(ResourceType.DELEGATION_TOKEN, name) for name in tokens or ()]
    found += [(ResourceType.USER, name) for name in users or ()]
    return found + ([(ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else [])


def _filters(named: Sequence[tuple[ResourceType, str]], pattern_type: str) -> list[PatternFilter]:
    kind = one_of([pattern_type], ("literal", "prefixed", "match", "any"), what="pattern type")[0]
    pattern = PatternType[kind.upper()]
    return [PatternFilter(resource_type, name, pattern) for resource_type, name in named] or [
        PatternFilter(pattern_type=pattern)
    ]


def _entries(operations: Names, allowed: tuple[Names, Names], denied: tuple[Names, Names]) -> list[Entry]:
    words = one_of(operations or ["All"], tuple(OPERATIONS_BY_WORD), what="operation")
    found: list[Entry] = []
    for permission, (principals, hosts) in ((Permission.ALLOW, allowed), (Permission.DENY, denied)):
        for principal in principals or ():
            if ":" not in principal:
                usage(f"{principal!r} is not a principal", "a principal has a type: User:alice")
            found += _of_principal(principal, hosts or ["*"], [OPERATIONS_BY_WORD[word] for word in words], permission)
    return found


def _of_principal(
    principal: str, hosts: Iterable[str], operations: Sequence[Operation], permission: Permission
) -> list[Entry]:
    return [Entry(principal, host, operation, permission) for host in hosts for operation in operations]


def _show(bindings: Sequence[Binding], *, as_json: bool) -> None:
    if as_json:
        show_json(
            [
                {
                    "resource_type": pattern.resource_type.word,
                    "name": pattern.name,
                    "pattern_type": pattern.pattern_type.name,
                    "principal": entry.principal,
                    "host": entry.host,
                    "operation": entry.operation.word,
                    "permission": entry.permission.word,
                }
                for pattern, entry in bindings
            ]
        )
        return
    if not bindings:
        note("There are no such entries.")
        return
    table = Table(["resource", "name", "pattern", "principal", "host", "operation", "permission"], [])
    for pattern, entry in bindings:
        table.add(
            pattern.resource_type.word,
            pattern.name,
            pattern.pattern_type.name.lower(),
            entry.principal,
            entry.host,
            entry.operation.word,
            entry.permission.word,
        )
    show(table)
