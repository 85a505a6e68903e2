"""`kavka quotas`: how much clients may use up. Works with Apache Kafka too.

Decides which entity a command line means. Whose quota holds for a client is decided by the brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Table, note, show, show_json, usage
from kavka.cli.session import with_cluster
from kavka.cli.shared_options import takes
from kavka.security.quota_limits import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Change,
    Entity,
    Filter,
    Match,
    Name,
)

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster

app = CommandLine(name="quotas", help="Limit what clients use: bytes, time, connections.")

User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user, without 'User:'.")]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="Every user without quotas of its own.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="A client id.")]
DefaultClientId = Annotated[
    bool, typer.Option("--default-client-id", help="Every client id without quotas of its own.")
]
Address = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help="An address.")]
DefaultAddress = Annotated[bool, typer.Option("--default-ip", help="Every address without a quota of its own.")]
_KEYS = (
    PRODUCER_BYTE_RATE,
    CONSUMER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    CONTROLLER_MUTATION_RATE,
    CONNECTION_CREATION_RATE,
)


def _entity(
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Address = None,
    default_ip: DefaultAddress = False,
) -> Entity:
    """What the options name: possibly nothing."""

    def name(option: str, text: str | None, *, is_default: bool) -> Name | None:
        if text is not None and is_default:
            usage("name one or the default, not both", f"--{option} or --default-{option}")
        return DEFAULT if is_default else text

    entity = Entity(
        name(USER, user, is_default=default_user),
        name(CLIENT_ID, client_id, is_default=default_client_id),
        name(IP, ip, is_default=default_ip),
    )
    if entity.ip is not None and (entity.user is not None or entity.client_id is not None):
        usage("--ip does not go with users or client ids", "give --ip alone")
    return entity


@app.command("list")
@takes(_entity)
def list_quotas(
    entity: Entity,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """List quotas: all, or those that name a user, a client id or an address.

    [bold]Examples[/bold]

    kavka quotas list

    kavka quotas list --user alice
    """
    wanted = Filter(tuple(Match(kind, name) for kind, name in entity.parts()), strict=False)

    async def work(session: Cluster) -> dict[Entity, dict[str, float]]:
        from kavka.client.quota_admin import QuotaAdmin

        return await QuotaAdmin(session).find(wanted)

    _show(with_cluster(bootstrap, work), as_json=as_json)


@app.command("set")
@takes(_entity)
def set_quotas(
    entity: Entity,
    produce: Annotated[int | None, typer.Option("--produce", metavar="BYTES", help="Bytes written a second.")] = None,
    consume: Annotated[int | None, typer.Option("--consume", metavar="BYTES", help="Bytes read a second.")] = None,
    request: Annotated[
        float | None, typer.Option("--request", metavar="PERCENT", help="Share of a broker's time for requests.")
    ] = None,
    mutations: Annotated[
        float | None, typer.Option("--mutations", metavar="RATE", help="Partitions created or deleted a second.")
    ] = None,
    connections: Annotated[
        int | None, typer.Option("--connections", metavar="RATE", help="Connections an address makes a second.")
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Set quotas of a user, a client id, both, or an address, on each broker.

    A broker tells a client over its quota to wait, and does not read from it meanwhile.

    [bold]Examples[/bold]

    kavka quotas set --user alice --produce 1000000

    kavka quotas set --default-client-id --request 50

    kavka quotas set --ip 10.0.0.7 --connections 10
    """
    _require_one(entity)
    values = dict(zip(_KEYS, (produce, consume, request, mutations, connections), strict=True))
    changes = [Change(key, float(value)) for key, value in values.items() if value is not None]
    if not changes:
        usage("name a quota", "--produce, --consume, --request, --mutations or --connections")
    _require_fitting(entity, changes)
    _show({entity: _alter(bootstrap, entity, changes)}, as_json=as_json)


@app.command("remove")
@takes(_entity)
def remove_quotas(
    entity: Entity,
    produce: Annotated[bool, typer.Option("--produce", help="The quota of bytes written.")] = False,
    consume: Annotated[bool, typer.Option("--consume", help="The quota of bytes read.")] = False,
    request: Annotated[bool, typer.Option("--request", help="The quota of request time.")] = False,
    mutations: Annotated[bool, typer.Option("--mutations", help="The quota of partitions created or deleted.")] = False,
    connections: Annotated[bool, typer.Option("--connections", help="The quota of connections.")] = False,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove quotas of a user, a client id, both, or an address.

    Removes all of them, or those that you name.

    [bold]Example[/bold]

    kavka quotas remove --user alice --produce
    """
    _require_one(entity)
    named = dict(zip(_KEYS, (produce, consume, request, mutations, connections), strict=True))
    keys = [key for key, is_named in named.items() if is_named] or sorted(entity.keys)
    changes = [Change(key, None) for key in keys]
    _require_fitting(entity, changes)
    left = _alter(bootstrap, entity, changes)
    _show({entity: left} if left else {}, as_json=as_json)


def _alter(bootstrap: str | None, entity: Entity, changes: list[Change]) -> dict[str, float]:
    """Makes the changes; all that the entity has then."""

    async def work(session: Cluster) -> dict[str, float]:
        from kavka.client.quota_admin import QuotaAdmin

        admin = QuotaAdmin(session)
        await admin.alter(entity, changes)
        wanted = Filter(tuple(Match(kind, name) for kind, name in entity.parts()), strict=True)
        return (await admin.find(wanted)).get(entity, {})

    return with_cluster(bootstrap, work)


def _require_one(entity: Entity) -> None:
    if not entity.parts():
        usage("name whose quota it is", "--user, --client-id, --ip, or one of --default-...")


def _require_fitting(entity: Entity, changes: list[Change]) -> None:
    if any(change.key not in entity.keys for change in changes):
        fitting = "--connections" if entity.ip is not None else "--produce, --consume, --request or --mutations"
        usage(f"no such quota of {entity}", fitting)


def _show(found: dict[Entity, dict[str, float]], *, as_json: bool) -> None:
    entities = sorted(found, key=str)
    if as_json:
        show_json(
            [
                {
                    "entity": {kind: None if name is DEFAULT else name for kind, name in entity.parts()},
                    "quotas": found[entity],
                }
                for entity in entities
            ]
        )
        return
    if not found:
        note("There are no quotas.")
        return
    table = Table(("whose", "quota", "limit"), numbers=("limit",))
    for entity in entities:
        for key, limit in sorted(found[entity].items()):
            table.add(str(entity), key, f"{limit:.15g}")
    show(table)
