"""`kavka tokens`: delegation tokens, as Kafka's kafka-delegation-tokens makes them. Works with Apache Kafka too.

A token's HMAC is its password. It is never an argument, because everybody on the machine can read those: commands take
a token's id, and ask the broker for the rest. Only `create` shows it, or writes it into a file that nobody else may
read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from kavka.cli.help import CommandLine
from kavka.cli.options import Bootstrap, Json
from kavka.cli.output import Table, confirm, note, show, show_json, usage
from kavka.cli.session import with_cluster
from kavka.cli.times import parse_duration
from kavka.security.principals import Principal

if TYPE_CHECKING:
    from kavka.client.cluster import Cluster
    from kavka.client.delegation_token_admin import ShownToken

app = CommandLine(name="tokens", help="Create, list, renew and end delegation tokens.")

TokenId = Annotated[str, typer.Argument(metavar="ID", help="The token's id, as list shows it.")]
Period = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="New lifetime from now, such as 90s, 12h or 7d.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Owners = Annotated[
    list[str] | None,
    typer.Option("--owner", metavar="PRINCIPAL", help="Only tokens of this owner, such as User:alice."),
]


@app.command("create")
def create(
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="PRINCIPAL", help="Whose token it is; yours by default.")
    ] = None,
    renewer: Annotated[
        list[str] | None, typer.Option("--renewer", metavar="PRINCIPAL", help="Who else may renew and end it.")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option("--max-life", metavar="TIME", help="Longest lifetime, such as 12h or 7d.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Write what a client needs to log in with it into a new file."),
    ] = None,
    as_json: Json = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Create a token, with which another process can act for its owner.

    [bold]Examples[/bold]

    kavka tokens create --max-life 7d --file job.properties

    kavka tokens create --owner User:alice --renewer User:scheduler
    """
    of = None if owner is None else _principal(owner)
    renewers = [_principal(each) for each in renewer or ()]
    lifetime_ms = None if lifetime is None else parse_duration(lifetime, "--max-life")
    descriptor = None if file is None else _new_file(file)

    async def work(session: Cluster) -> ShownToken:
        from kavka.client.delegation_token_admin import TokenAdmin

        return await TokenAdmin(session).create(of, renewers, lifetime_ms)

    try:
        token = with_cluster(bootstrap, work)
        if descriptor is not None:
            os.write(descriptor, _properties(token).encode())
    except BaseException:
        if file is not None:
            os.unlink(file)
        raise
    finally:
        if descriptor is not None:
            os.close(descriptor)
    if as_json:
        show_json(_facts(token) | ({} if file is not None else {"hmac": token.password}))
        return
    table = Table(["token", "owner", "renewers", "until", "at most until"])
    _add(table, token)
    show(table)
    if file is None:
        note(f"HMAC, the token's password; it is not shown again here: {token.password}")
    else:
        note(f"{file} has what a client needs to log in with it; nobody else may read it.")


@app.command("list")
def list_tokens(owner: Owners = None, as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """List the tokens that you may see, without their HMACs.

    [bold]Examples[/bold]

    kavka tokens list

    kavka tokens list --owner User:alice
    """
    tokens = _listed(bootstrap, None if owner is None else [_principal(each) for each in owner])
    if as_json:
        show_json([_facts(token) for token in tokens])
        return
    if not tokens:
        note("There are no tokens that you may see.")
        return
    table = Table(["token", "owner", "renewers", "until", "at most until"])
    for token in tokens:
        _add(table, token)
    show(table)


@app.command("renew")
def renew(token_id: TokenId, period: Period = None, as_json: Json = False, bootstrap: Bootstrap = None) -> None:
    """Renew a token. It never lives longer than it was made for.

    [bold]Examples[/bold]

    kavka tokens renew aZqNkIqhR0OogxunHXPW8Q --for 12h
    """
    _change(token_id, period, as_json, bootstrap, ends=False)


@app.command("expire")
def expire(
    token_id: TokenId, period: Period = None, yes: Yes = False, as_json: Json = False, bootstrap: Bootstrap = None
) -> None:
    """End a token, at once or later. Connections that are open stay until their sessions end.

    [bold]Examples[/bold]

    kavka tokens expire aZqNkIqhR0OogxunHXPW8Q --yes
    """
    confirm(f"end the token {token_id}{'' if period is None else f' in {period}'}", yes=yes)
    _change(token_id, period, as_json, bootstrap, ends=True)


def _change(token_id: str, period: str | None, as_json: bool, bootstrap: str | None, *, ends: bool) -> None:
    period_ms = None if period is None else parse_duration(period, "--for")

    async def work(session: Cluster) -> int | None:
        from kavka.client.delegation_token_admin import TokenAdmin

        admin = TokenAdmin(session)
        for token in await admin.list():
            if token.token_id == token_id:
                return await (admin.expire if ends else admin.renew)(token, period_ms)
        return None

    until_ms = with_cluster(bootstrap, work)
    if until_ms is None:
        usage(f"there is no token {token_id} that you may see", "kavka tokens list")
    if as_json:
        show_json({"token": token_id, "expires_ms": until_ms})
    note(f"{token_id} is good until {_moment(until_ms)}.")


def _listed(bootstrap: str | None, owners: list[Principal] | None) -> list[ShownToken]:
    async def work(session: Cluster) -> list[ShownToken]:
        from kavka.client.delegation_token_admin import TokenAdmin

        return await TokenAdmin(session).list(owners)

    return sorted(with_cluster(bootstrap, work), key=lambda token: (token.issued_ms, token.token_id))


def _principal(text: str) -> Principal:
    try:
        return Principal.parse(text)
    except ValueError:
        usage(f"{text!r} is not a principal", "write it with its type, as User:alice")


def _new_file(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as failure:
        usage(f"{path} cannot be created: {failure.strerror}", "name a file that does not exist yet")


def _properties(token: ShownToken) -> str:
    login = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token.token_id}" password="{token.password}" tokenauth="true";'
    )
    return f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={login}\n"


def _facts(token: ShownToken) -> dict[str, object]:
    return {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def _add(table: Table, token: ShownToken) -> None:
    renewers = ", ".join(token.renewers)
    table.add(token.token_id, token.owner, renewers, _moment(token.expires_ms), _moment(token.max_ms))


def _moment(at_ms: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
